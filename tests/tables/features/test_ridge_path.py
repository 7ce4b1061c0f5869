"""Leave-one-out of ridge regression against literal refits."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoupled_descent.tables.features import Kernel, RidgePath
from tests.problems import normal

RIDGES = [30.0, 1.0, 1e-3]


def problem(n=24, d=3, targets=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.column_stack([np.sin(X[:, 0]), X[:, 1] ** 2])[:, :targets] + rng.normal(
        size=(n, targets)
    )


def refit(phi, y, ridge, weights):
    """Coefficients and intercept from the normal equations with an unpenalised column of ones."""
    Z = np.column_stack([phi, np.ones(len(phi))])
    penalty = np.diag(np.append(np.full(phi.shape[1], ridge), 0.0))
    return np.linalg.solve(Z.T @ (weights[:, None] * Z) + penalty, Z.T @ (weights[:, None] * y))


def literal(phi, y, ridge, weights):
    """Refit without each row in turn."""
    out = np.empty_like(y)
    for i in range(len(y)):
        w = weights.copy()
        w[i] = 0.0
        out[i] = np.append(phi[i], 1) @ refit(phi, y, ridge, w)
    return out


@pytest.mark.parametrize("kind", ["linear", "rbf"])
@pytest.mark.parametrize("weighted", [False, True])
def test_outputs_are_those_of_refits(weighted, kind):
    X, y = problem()
    weights = np.random.default_rng(1).uniform(0.2, 3, len(X)) if weighted else np.ones(len(X))
    phi = Kernel(kind).fit_transform(X, sample_weight=weights)
    path = RidgePath(phi, y, RIDGES, weights)
    for i, ridge in enumerate(RIDGES):
        expected = literal(phi.numpy(), y, ridge, weights)
        np.testing.assert_allclose(path.outputs[i], expected, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(path.losses[i], ((y - expected) ** 2).sum(1), rtol=1e-9)
        complete = refit(phi.numpy(), y, ridge, weights)
        np.testing.assert_allclose(path.coefficients[i], complete[:-1], atol=1e-10)
        np.testing.assert_allclose(path.intercept, complete[-1], atol=1e-10)


def test_leverages_are_derivatives_of_fitted_values():
    X, y = problem(targets=1)
    weights = np.random.default_rng(1).uniform(0.2, 3, len(X))
    phi = Kernel("rbf").fit_transform(X, sample_weight=weights).numpy()
    path = RidgePath(phi, y, RIDGES, weights)
    Z = np.column_stack([phi, np.ones(len(phi))])
    for i, ridge in enumerate(RIDGES):
        hat = Z @ refit(phi, np.eye(len(phi)), ridge, weights)
        np.testing.assert_allclose(path.leverages[i], np.diag(hat), rtol=1e-9)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000))
def test_weight_two_is_the_row_twice_in_one_group(seed):
    X, y = problem(seed=seed)
    weights = np.random.default_rng(seed).integers(1, 4, len(X))
    phi = Kernel("matern").fit_transform(X, sample_weight=weights)
    path = RidgePath(phi, y, RIDGES, weights)
    again = np.repeat(np.arange(len(X)), weights)
    phi, groups = Kernel("matern").fit_transform(X[again]), torch.from_numpy(again)
    twice = RidgePath(phi, y[again], RIDGES, groups=groups)
    np.testing.assert_allclose(twice.outputs, path.outputs[:, again], rtol=1e-8, atol=1e-8)


def test_rows_of_weight_zero_get_the_prediction_for_new_rows():
    X, y = problem()
    weights = np.ones(len(X))
    weights[[2, 9]] = 0
    phi = Kernel("rbf").fit_transform(X, sample_weight=weights)
    path = RidgePath(phi, y, RIDGES, weights)
    some = weights > 0
    alone = RidgePath(Kernel("rbf").fit_transform(X[some]), y[some], RIDGES)
    np.testing.assert_allclose(path.outputs[:, some], alone.outputs, atol=1e-9)
    predicted = phi @ path.coefficients + path.intercept
    np.testing.assert_allclose(path.outputs[:, ~some], predicted[:, ~some])


def test_one_target_is_one_column():
    X, y = problem(targets=1)
    phi = Kernel("rbf").fit_transform(X)
    assert torch.equal(RidgePath(phi, y[:, 0], RIDGES).outputs, RidgePath(phi, y, RIDGES).outputs)


def bad(name):
    X, _ = problem()
    phi, ones = Kernel("linear").fit_transform(X), np.ones(len(X))
    return {
        "weights": (phi, np.arange(len(X))),
        "raw": (torch.from_numpy(X), ones),
    }[name]


@pytest.mark.parametrize("name", ["weights", "raw"])
def test_features_must_be_uncorrelated_under_the_weights(name):
    features, weights = bad(name)
    with pytest.raises(ValueError, match="not centred and uncorrelated"):
        RidgePath(features, problem()[1], RIDGES, weights)


def test_groups_leave_together():
    X, y = problem()
    phi = Kernel("rbf").fit_transform(X)
    groups = torch.arange(24) % 6
    path = RidgePath(phi, y, RIDGES, groups=groups)
    for place, ridge in enumerate(RIDGES):
        for group in range(6):
            out = (groups == group).numpy()
            fitted = refit(phi.numpy()[~out], y[~out], ridge, np.ones(20))
            expected = np.column_stack([phi.numpy()[out], np.ones(4)]) @ fitted
            np.testing.assert_allclose(path.outputs[place, out], expected, atol=1e-9)
    alone = RidgePath(phi, y, RIDGES, groups=torch.arange(24))
    torch.testing.assert_close(alone.losses, RidgePath(phi, y, RIDGES).losses)


@pytest.mark.parametrize("case", ["rows", "weights", "groups"])
def test_folds_that_are_left_out_too(case):
    """Refits without the fold; then every row is left out by V as a matrix."""
    X, y = problem(targets=2)
    n, ridge = len(X), 5.0
    rng = np.random.default_rng(2)
    weights = rng.uniform(0.5, 3, n) if case == "weights" else np.ones(n)
    codes = np.arange(n) // 2 if case == "groups" else np.arange(n)
    folds = codes % 8
    phi = Kernel("rbf").fit_transform(X, sample_weight=weights)
    held = torch.tensor(folds == np.arange(8)[:, None])
    groups = torch.tensor(codes) if case == "groups" else None
    result = RidgePath(phi, y, [ridge], weights, groups).errors_without(held).square().sum(3)[0]
    P = phi.numpy()
    Z = np.column_stack([P, np.ones(n)])
    penalty = np.diag(np.append(np.full(P.shape[1], ridge), 0.0))
    V = Z @ np.linalg.solve(Z.T @ (weights[:, None] * Z) + penalty, Z.T)
    residuals = y - V @ (weights[:, None] * y)

    def left_out(own, values, off):
        own = np.flatnonzero(own)
        system = np.eye(len(own)) - V[np.ix_(own, own)] * off[own]
        return np.linalg.solve(system, values[own])

    for fold in range(8):
        inside = folds == fold
        errors = left_out(inside, residuals, weights)
        moved = residuals + V[:, inside] @ (weights[inside, None] * errors)
        without = y - Z @ refit(P, y, ridge, np.where(inside, 0, weights))
        np.testing.assert_allclose(moved[~inside], without[~inside], atol=1e-9)
        for code in np.unique(codes[~inside]):
            own = codes == code
            naive = left_out(own, moved, weights)
            np.testing.assert_allclose(result[fold][own], (naive**2).sum(1), rtol=1e-9)


def test_some_ridges_of_a_path_are_the_path_of_these_ridges():
    phi = Kernel("rbf").fit_transform(normal(30, 3, seed=1))
    y, held = normal(30, 2, seed=2), torch.arange(4).unsqueeze(1) == torch.arange(30) % 4
    ridges = torch.tensor([1.0, 0.1, 0.01], dtype=torch.float64)
    part, alone = RidgePath(phi, y, ridges).some(slice(1, 3)), RidgePath(phi, y, ridges[1:])
    for name in ("outputs", "losses", "leverages", "coefficients"):
        torch.testing.assert_close(getattr(part, name), getattr(alone, name), rtol=0, atol=1e-13)
    without = part.errors_without(held), alone.errors_without(held)
    torch.testing.assert_close(*without, rtol=0, atol=1e-13)
