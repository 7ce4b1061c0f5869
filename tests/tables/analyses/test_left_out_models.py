"""Models without single rows, against Newton steps by dense matrices."""

import numpy as np
import pandas as pd
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.tables.analyses.left_out_models import LeftOutModels
from decoupled_descent.tables.analyses.table import AnalysedTable


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
    X = frame.to_numpy()
    kind = dd.DecoupledClassifier if task == "classification" else dd.DecoupledRegressor
    model = kind(features="linear", ridge=2.0, stack=False).fit(X, y, groups=groups)
    without = LeftOutModels(AnalysedTable.of(model, X), np.array([0, 7, 39]))
    (member,) = without.mixture.members
    phi = member.features.transform(X).numpy()
    targets = model._encoded(y)[0].double().numpy()
    for index, row in enumerate((0, 7, 39)):
        leaving = [row] if groups is None else np.flatnonzero(groups == groups[row])
        start = member.theta[0].numpy(), float(member.bias[0])
        expected = newton_without(phi, targets, *start, member.ridge, leaving)
        theta, bias = without.parameters[0]
        found = torch.cat([theta[0, index], bias[0, index : index + 1]]).numpy()
        np.testing.assert_allclose(found, expected, atol=1e-10)
