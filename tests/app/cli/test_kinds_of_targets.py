"""Counts, grades and proportions, from the file to the report, predictions and exported code."""

import json

import numpy as np
import pandas as pd
import pytest

from decoupled_descent.app.files.targets import recognise_task
from decoupled_descent.checks import Target


def drawn(task, n=120):
    rng = np.random.default_rng(0)
    age, site = rng.integers(20, 80, n), rng.choice(list("AB"), n)
    score = 0.03 * (age - 50) + 0.7 * (site == "B")
    target = {
        Target.COUNTS: rng.poisson(np.exp(0.6 + score)),
        Target.GRADES: np.digitize(score + 0.5 * rng.logistic(size=n), [-0.6, 0.2, 1.0]) + 1,
        Target.PROPORTIONS: rng.binomial(20, 1 / (1 + np.exp(-score))) / 20,
    }[task]
    return pd.DataFrame({"age": age, "site": site, "y": target})


@pytest.mark.parametrize(
    ("task", "options", "loss", "measure"),
    [
        (Target.COUNTS, [], "Poisson deviance", "RMSE"),
        (Target.PROPORTIONS, ["--task", "proportions"], "binomial deviance", "RMSE"),
        (Target.GRADES, ["--task", "grades"], "log loss", "weighted kappa"),
    ],
)
def test_from_the_file_to_exported_code(task, options, loss, measure, run, tmp_path):
    table, data, out = drawn(task), tmp_path / "data.csv", tmp_path / "out"
    table.to_csv(data, index=False)
    fixed = ["--features", "linear", "--out", str(out), "--json"]
    status, shown, err = run("train", data, "--target", "y", *fixed, *options)
    assert status == 0, err
    found = json.loads(shown)
    assert (found["task"], found["loss"], found["verdict"]) == (task, loss, "trust")
    assert measure in found["measures"]
    report = (out / "report.html").read_text()
    assert loss in report
    new = tmp_path / "new.csv"
    fresh = pd.DataFrame({"age": [25, 75], "site": ["A", "B"]})
    fresh.to_csv(new, index=False)
    assert run("predict", out, new, "--out", tmp_path / "said.csv")[0] == 0
    assert run("export", out, "--out", tmp_path / "code")[0] == 0
    names: dict = {}
    exec((tmp_path / "code" / "predictor.py").read_text(), names)  # the exported code itself
    model = names["Predictor"](tmp_path / "code" / "model.npz")
    again = model.predict(fresh.to_dict("records"))
    predicted = pd.read_csv(tmp_path / "said.csv")["prediction"]
    np.testing.assert_allclose(again, predicted, atol=0.02)
    assert again[0] < again[1]
    told = run("predict", out, data, "--out", tmp_path / "own.csv", "--json")[1]
    assert f"{loss} on" in run("predict", out, data, "--out", tmp_path / "own.csv")[1]
    assert json.loads(told)


def test_counts_beside_squared_errors(run, tmp_path):
    """Compared by squared errors; two models of counts are compared by their deviance."""
    data = tmp_path / "data.csv"
    drawn(Target.COUNTS).to_csv(data, index=False)
    for name, options in {
        "a": [], "b": ["--drop", "site"], "c": ["--task", "regression"]
    }.items():  # fmt: skip
        fixed = ("--features", "linear", "--fast", "--out", tmp_path / name)
        assert run("train", data, "--target", "y", *fixed, *options)[0] == 0
    both = json.loads(run("compare", tmp_path / "a", tmp_path / "b", "--json")[1])
    assert [*both["measures"]] == ["Poisson deviance", "absolute error"]
    other = json.loads(run("compare", tmp_path / "a", tmp_path / "c", "--json")[1])
    assert [*other["measures"]] == ["mean squared error", "absolute error"]
    assert max(other["measures"]["mean squared error"]["means"]) < 10


@pytest.mark.parametrize(
    ("values", "task", "message"),
    [
        (["low", "high"], "grades", "text such as 'low', whose order is not known; number the"),
        ([1.5, -1], "counts", "is -1 in row 2, which task='counts' does not allow; use task='reg"),
        ([0.5, 40], "proportions", "is 40 in row 2.*divide percentages by 100"),
    ],
)
def test_targets_of_another_kind(values, task, message):
    labels = pd.Series(values * 10, name="y", index=range(1, 21))
    with pytest.raises(ValueError, match=message):
        recognise_task(labels, task)
