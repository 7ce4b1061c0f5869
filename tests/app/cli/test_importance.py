"""Importance: a column that matters, one that does not, and levels that are shuffled together."""

import numpy as np
import pandas as pd
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.app.cli.importance import MOST_COLUMNS, LeftOutModels, importance, why_not
from decoupled_descent.app.cli.tables import Prepared
from decoupled_descent.tables.columns.rules import Columns


def prepared(frame, y, task):
    columns = Columns.learn(frame)
    return Prepared(columns.apply(frame), y, columns, task, [])


def test_columns_are_ranked():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"noise": rng.normal(size=200), "signal": rng.normal(size=200)})
    frame["town"] = rng.choice(["a", "b", "c"], 200)
    y = (3 * frame["signal"] + (frame["town"] == "a")).to_numpy() + 0.1 * rng.normal(size=200)
    given = prepared(frame, y, "regression")
    model = dd.DecoupledRegressor(features="linear", ridge=0.01).fit(given.X, y)
    found = importance(given, model)
    assert [name for name, _ in found] == ["signal", "town", "noise"]
    assert found[0][1] > 10
    assert abs(found[2][1]) < 0.2
    labels = np.where(y > 0, "yes", "no")
    given = prepared(frame, labels, "classification")
    model = dd.DecoupledClassifier(features="linear", ridge=0.01).fit(given.X, labels)
    assert importance(given, model)[0][0] == "signal"


def test_columns_of_wide_tables_are_screened(monkeypatch):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(80, MOST_COLUMNS + 10))).rename(columns="x{}".format)
    y = 3 * frame["x5"].to_numpy() - 2 * frame["x66"].to_numpy() + 0.1 * rng.normal(size=80)
    given = prepared(frame, y, "regression")
    model = dd.DecoupledRegressor(features="linear", stack=False).fit(given.X, y)
    found = importance(given, model)
    assert len(found) == MOST_COLUMNS
    assert [name for name, _ in found[:2]] == ["x5", "x66"]
    assert why_not(given) == ""
    monkeypatch.setattr("decoupled_descent.app.cli.importance.MOST_SCREENED", 65)
    assert importance(given, model) == []
    assert "more than 65 columns" in why_not(given)


def newton_without(phi, y, theta, bias, ridge, leaving):
    """One Newton step of the problem without some rows, by dense matrices: β, then b."""
    ones = np.ones((len(phi), 1))
    J, logistic = np.hstack([phi, ones]), set(np.unique(y)) == {0.0, 1.0}
    beta = np.append(theta, bias)
    outputs = J @ beta
    probabilities = 1 / (1 + np.exp(-outputs))
    slope = (probabilities if logistic else outputs) - y
    bend = probabilities * (1 - probabilities) if logistic else np.ones(len(y))
    keep = np.ones(len(y))
    keep[leaving] = 0
    penalty = np.diag(np.append(np.full(phi.shape[1], ridge), 0.0))
    gradient = J.T @ (keep * slope) + penalty @ beta
    hessian = J.T @ ((keep * bend)[:, None] * J) + penalty
    return beta - np.linalg.solve(hessian, gradient)


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("grouped", [False, True])
def test_left_out_models_against_newton_steps(task, grouped):
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.normal(size=(40, 3))).rename(columns="x{}".format)
    y = frame.to_numpy() @ [1.0, -1.0, 0.0] + rng.normal(size=40)
    y = np.where(y > 0, "yes", "no") if task == "classification" else y
    groups = np.repeat(np.arange(20), 2) if grouped else None
    given = prepared(frame, y, task)._replace(groups=groups)
    kind = dd.DecoupledClassifier if task == "classification" else dd.DecoupledRegressor
    model = kind(features="linear", ridge=2.0, stack=False).fit(given.X, y, groups=groups)
    judges = LeftOutModels(given, model, np.array([0, 7, 39]))
    (member,) = judges.members
    phi = member.features.transform(given.X).numpy()
    targets = model._encoded(y)[0].double().numpy()
    for index, row in enumerate((0, 7, 39)):
        leaving = [row] if groups is None else np.flatnonzero(groups == groups[row])
        start = member.theta[0].numpy(), float(member.bias[0])
        expected = newton_without(phi, targets, *start, member.ridge, leaving)
        theta, bias = judges.parameters[0]
        found = torch.cat([theta[0, index], bias[0, index : index + 1]]).numpy()
        np.testing.assert_allclose(found, expected, atol=1e-10)


def test_rows_are_predicted_by_models_without_them():
    """Noise that a flexible model fits seems to matter on its own rows, and does not on others."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(80, 4))).rename(columns="x{}".format)
    y = rng.normal(size=80)
    given = prepared(frame, y, "regression")
    model = dd.DecoupledRegressor(features="rbf", ridge=1e-3, stack=False).fit(given.X, y)
    left_out = max(rise for _, rise in importance(given, model))
    before = np.square(model.predict(given.X) - y).mean()
    order = rng.permutation(80)
    shuffled = given.X.copy()
    shuffled[:, 0] = shuffled[order, 0]
    own = np.square(model.predict(shuffled) - y).mean() / before - 1
    assert left_out < 0.1 * own
