"""Baselines: the same numbers as by leaving out every row, or group, one after the other."""

import json

import numpy as np
import pytest

import decoupled_descent as dd
from decoupled_descent.app.cli import baselines
from decoupled_descent.app.cli.tables import Prepared
from decoupled_descent.app.report.comparison import answers
from tests.app.cli.conftest import table


def prepared(y, task, groups=None, seed=0, X=None):
    X = np.random.default_rng(seed).normal(size=(len(y), 3)) if X is None else X
    return Prepared(X, np.asarray(y), None, task, [], groups)


@pytest.mark.parametrize("grouped", [False, True])
def test_guesses_leave_rows_or_groups_out_and_keep_the_shares_of_classes(grouped):
    rng = np.random.default_rng(1)
    y, groups = rng.normal(size=30), rng.integers(6, size=30) if grouped else None
    own = np.arange(30) if groups is None else groups
    expected = [y[own != own[k]].mean() for k in range(30)]
    found = baselines._guesses(prepared(y, "regression", groups))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    labels = rng.choice(["a", "b", "c"], size=30)
    counts = np.array([(labels == name).sum() for name in "abc"]) + 0.5
    for row in baselines._guesses(prepared(labels, "classification", groups)):
        np.testing.assert_allclose(row, counts / counts.sum(), rtol=0, atol=1e-12)


def test_standard_errors_of_rows_and_groups():
    rng = np.random.default_rng(2)
    values = rng.normal(size=50)
    assert baselines.mean(values)[1] == pytest.approx(values.std(ddof=1) / 50**0.5)
    copies, groups = np.repeat(values, 4), np.repeat(np.arange(50), 4)
    assert baselines.mean(copies, groups)[1] == pytest.approx(values.std(ddof=1) / 50**0.5)


def test_contenders_of_a_model():
    frame = table(120)
    X, y = frame[["a", "b"]].to_numpy(), frame["answer"].to_numpy()
    model = dd.DecoupledClassifier().fit(X, y)
    own, linear, guess = baselines.contenders(prepared(y, "classification", X=X), model)
    assert own.score == model.estimated_accuracy_
    alone = dd.DecoupledClassifier(features="linear", stack=False).fit(X, y)
    codes = np.searchsorted(alone.classes_, y)
    losses = -np.log(alone.corrected_proba_[np.arange(120), codes])
    assert linear.error == pytest.approx(losses.mean())
    assert linear.score == alone.estimated_accuracy_
    assert guess.score == pytest.approx(max(np.mean(y == "no"), np.mean(y == "yes")))
    assert own.gain == 0
    assert guess.gain == pytest.approx(guess.error - own.error)


@pytest.mark.parametrize("seed", range(5))
def test_random_labels_are_not_better_than_guessing(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(200, 5)), rng.integers(2, size=200)
    model = dd.DecoupledClassifier().fit(X, y)
    found = answers(baselines.contenders(prepared(y, "classification", X=X), model))
    assert found[0].word == "no"


@pytest.mark.slow
def test_the_command_says_both_halves(run, tmp_path):
    table(150).drop(columns=["grade", "price"]).to_csv(tmp_path / "a.csv", index=False)
    arguments = ("train", tmp_path / "a.csv", "--target", "answer", "--out", tmp_path / "o")
    found = json.loads(run(*arguments, "--json")[1])
    assert [one["name"] for one in found["baselines"]] == ["linear model", "always yes"]
    assert found["better_than"]["guessing"]["word"] == "yes"
    text = run(*arguments)[1]
    (line,) = (line for line in text.splitlines() if "Better than guessing?" in line)
    assert line.startswith("  ✓ Better than guessing? yes: ")
    assert "right, against" in line
    assert "Better than a linear model?" in text
    page = (tmp_path / "o" / "report.html").read_text(encoding="utf-8")
    assert "Is it any good?" in page
    table(150).drop(columns=["grade", "answer"]).to_csv(tmp_path / "a.csv", index=False)
    text = run("train", tmp_path / "a.csv", "--target", "price", "--out", tmp_path / "o")[1]
    assert "typical error (RMSE)" in text
    assert "median absolute error" in text
