"""Categories that are predicted worse are named, and chance names none."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

import decoupled_descent as dd
from decoupled_descent.evaluation import Evaluation
from decoupled_descent.evaluation.kinds import NUMBERS
from decoupled_descent.tables.analyses.subgroups import FEWEST, subgroups
from decoupled_descent.tables.columns.rules import Columns


def errors_by_category(frame, y, predicted, groups=None):
    """Subgroups of an estimator whose leave-one-out predictions are these numbers."""
    columns = Columns.learn(frame)
    evaluation = Evaluation.of(y, predicted, NUMBERS, groups=groups)
    model = SimpleNamespace(
        _left_out=evaluation, _rows_of_fit=lambda: evaluation, _kept=None, time_estimate_=None,
        _checked=lambda X: X, columns_=None,
    )  # fmt: skip
    return subgroups(model, columns.apply(frame), columns)


def test_errors_and_differences_are_those_of_the_rows():
    rng = np.random.default_rng(0)
    town = rng.choice(["Ulm", "Bonn", "Köln", None], 200, p=[0.3, 0.3, 0.3, 0.1])
    town[:5] = "Rom"  # too few rows
    frame = pd.DataFrame({"a": rng.normal(size=200), "town": town})
    y, predicted = rng.normal(size=(2, 200))
    found = errors_by_category(frame, y, predicted)
    squares = (y - predicted) ** 2
    present = ["missing" if one is None else one for one in town]
    wanted = {name for name in present if present.count(name) >= FEWEST}
    assert {one.value for one in found} == wanted
    assert "Rom" not in wanted
    for one in found:
        inside = np.array(present) == one.value
        assert one.rows == inside.sum()
        assert one.error == pytest.approx(squares[inside].mean(), abs=1e-10)
        assert one.gap == pytest.approx(squares[inside].mean() - squares[~inside].mean())
        parts = [squares[rows].var(ddof=1) / rows.sum() for rows in (inside, ~inside)]
        assert one.gap_stderr == pytest.approx(math.sqrt(sum(parts)), rel=1e-10)
    assert [one.gap for one in found] == sorted((one.gap for one in found), reverse=True)


@pytest.mark.slow
def test_chance_names_a_category_in_one_table_of_twenty():
    """40 categories that are alike, in 200 tables: the share of tables with a false name."""
    rng = np.random.default_rng(1)
    frames = {f"c{k}": rng.choice([*"abcd"], 400) for k in range(10)}
    frame = pd.DataFrame(frames)
    named = 0
    for _ in range(200):
        found = errors_by_category(frame, np.zeros(400), rng.normal(size=400))
        assert len(found) == 40
        named += any(one.is_worse for one in found)
    assert named / 200 < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 200) + 0.03  # squares have a long tail
    assert named > 0


def test_rows_of_a_group_are_one_unit():
    rng = np.random.default_rng(2)
    town = np.repeat(rng.choice(["Ulm", "Bonn"], 20), 10)
    frame = pd.DataFrame({"town": town, "a": rng.normal(size=200)})
    errors = np.repeat(rng.normal(size=20), 10)
    alone = errors_by_category(frame, np.zeros(200), errors)
    groups = np.repeat(np.arange(20), 10)
    together = errors_by_category(frame, np.zeros(200), errors, groups)
    assert together[0].gap_stderr > 2 * alone[0].gap_stderr


def test_the_worst_category_is_named_in_all_files(run, tmp_path):
    rng = np.random.default_rng(3)
    town = rng.choice(["Ulm", "Bonn", "Köln"], 240)
    a = rng.normal(size=240)
    noise = rng.normal(size=240) * np.where(town == "Ulm", 4, 0.5)
    pd.DataFrame({"a": a, "town": town, "y": (10 * a + noise).round(4)}).to_csv(
        tmp_path / "t.csv", index=False
    )
    given = ("train", tmp_path / "t.csv", "--target", "y", "--fast", "--out", tmp_path / "o")
    found = json.loads(run(*given, "--json")[1])["subgroups"]
    assert (found[0]["value"], found[0]["is_worse"]) == ("Ulm", True)
    assert sum(one["is_worse"] for one in found) == 1
    sentence = "Rows with town = Ulm are predicted clearly worse than others"
    assert sentence in (tmp_path / "o" / "report.html").read_text()
    assert sentence in (tmp_path / "o" / "model-card.md").read_text()


def test_areas_of_two_classes_are_those_of_the_rows():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"a": rng.normal(size=120), "town": rng.choice(["Ulm", "Bonn"], 120)})
    y = np.where(frame["a"] + rng.normal(size=120) > 0, "ill", "well")
    model = dd.DecoupledClassifier(features="linear", ridge=1.0).fit(frame, y)
    chances = model.corrected_proba_[:, 1]
    for one in subgroups(model, frame):
        inside = (frame["town"] == one.value).to_numpy()
        area, low, high = one.area
        assert low < area < high
        # the area compares rows of the same mixture only, so the two differ a little
        assert area == pytest.approx(roc_auc_score(y[inside] == "well", chances[inside]), abs=0.02)
