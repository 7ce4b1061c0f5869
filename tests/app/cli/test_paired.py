"""Paired differences against a naive computation, and rows in groups."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from decoupled_descent.app.cli import paired
from decoupled_descent.checks import Z95
from tests.app.cli.conftest import FAST, table


@pytest.fixture
def pair(run, tmp_path):
    """Train twice on one table; return both folders."""

    def train(target, *options, frame=None, second=("--drop", "b")):
        frame = table(80) if frame is None else frame
        others = [name for name in ("answer", "grade", "price") if name != target]
        frame.drop(columns=others).to_csv(tmp_path / "t.csv", index=False)
        given = ("train", tmp_path / "t.csv", "--target", target, "--fast", *options)
        for name, more in (("a", ()), ("b", second)):
            assert run(*given, *more, "--out", tmp_path / name)[0] == 0
        return tmp_path / "a", tmp_path / "b"

    return train


def naive(folder, target):
    """Losses of the rows, one by one."""
    losses = []
    for row in pd.read_csv(folder / "left_out.csv").to_dict("records"):
        true = row[f"true {target}"]
        if f"probability_{true}" in row:
            losses.append(-math.log(row[f"probability_{true}"]))
        else:
            losses.append((true - row["prediction"]) ** 2)
    return np.array(losses)


@pytest.mark.parametrize("target", ["answer", "grade", "price"])
def test_differences_are_those_of_the_rows(pair, target):
    folders = pair(target, *FAST)
    found = paired.compared(*folders).measures[0]
    gaps = naive(folders[0], target) - naive(folders[1], target)
    assert found.difference == pytest.approx(gaps.mean(), abs=1e-10)
    assert found.stderr == pytest.approx(gaps.std(ddof=1) / math.sqrt(len(gaps)), rel=1e-10)
    assert found.interval[1] - found.difference == pytest.approx(Z95 * found.stderr)


def test_rows_of_a_group_count_together(pair, run, refused, tmp_path):
    frame = pd.concat([table(60).assign(who=range(60))] * 2)
    folders = pair("price", "--group", "who", frame=frame)
    found = paired.compared(*folders)
    gaps = naive(folders[0], "price") - naive(folders[1], "price")
    sums = gaps.reshape(2, 60).sum(0) - 2 * gaps.mean()
    naive_stderr = math.sqrt((sums**2).sum() * 60 / 59) / 120
    assert found.groups == 60
    assert found.measures[0].stderr == pytest.approx(naive_stderr, rel=1e-10)
    given = ("train", tmp_path / "t.csv", "--target", "price", "--fast", "--drop", "who")
    assert run(*given, "--out", tmp_path / "b")[0] == 0
    assert "--group" in refused("compare", *folders)


def test_labels_that_look_like_formulas(pair):
    frame = table(80)
    frame["answer"] = frame["answer"].map({"yes": "=yes", "no": "no"})
    folders = pair("answer", *FAST, frame=frame, second=())
    loss, accuracy = paired.compared(*folders).measures
    header = json.loads(paired.read_header(folders[0] / "model.safetensors")[0])
    estimated = header["estimates"]["estimated_test_error_"]
    assert loss.means[0] == pytest.approx(estimated, rel=1e-5)
    assert accuracy.means[0] > 0.5
