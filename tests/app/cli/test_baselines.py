"""Baselines: the same numbers as by the evaluation."""

import json

import numpy as np
import pytest

import decoupled_descent as dd
from decoupled_descent.app.cli import baselines
from decoupled_descent.app.cli.tables import TrainingTable
from decoupled_descent.app.report.comparison import answers
from tests.app.cli.conftest import table


def prepared(y, task, X):
    return TrainingTable(X, np.asarray(y), None, task, [])


def test_contenders_of_a_model():
    frame = table(120)
    X, y = frame[["a", "b"]].to_numpy(), frame["answer"].to_numpy()
    model = dd.DecoupledClassifier().fit(X, y)
    own, linear, guess = baselines.contenders(prepared(y, "classification", X), model)
    assert own.score == model.estimated_accuracy_
    alone = dd.DecoupledClassifier(features="linear", stack=False).fit(X, y)
    assert linear.error == alone.estimated_test_error_
    assert linear.score == alone.estimated_accuracy_
    assert guess.score == pytest.approx(max(np.mean(y == "no"), np.mean(y == "yes")))
    assert own.gain == 0
    assert guess.gain == pytest.approx(guess.error - own.error)


@pytest.mark.parametrize("seed", range(5))
def test_random_labels_are_not_better_than_guessing(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(200, 5)), rng.integers(2, size=200)
    model = dd.DecoupledClassifier().fit(X, y)
    found = answers(baselines.contenders(prepared(y, "classification", X), model))
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
