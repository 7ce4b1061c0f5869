"""The path leave-one-out against runs without each row, with dense matrices."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import decoupled_descent as dd
from decoupled_descent.training import StopReason
from tests.networks.path_problems import close, recorded, rows, tanh_network
from tests.oracles import path as oracle

LOSSES = {"squared": 1, "logistic": 1, "cross_entropy": 3}


@pytest.mark.parametrize("n", [9, 25], ids=["more columns", "more rows"])
def test_one_full_step_is_exact_leave_one_out_ridge_regression(n):
    X, _ = rows(n, 14)
    y = X[:, 0] + 0.3 * X[:, 1] ** 2
    model = nn.Linear(14, 1).double()
    algorithm = dd.DecoupledGaussNewton(ridge=0.7, rate=1.0, damping=0.0)
    _, seen = recorded(X, y, model, algorithm, 2, loss="squared")
    ones = torch.cat([X, torch.ones(n, 1).double()], 1)
    for i in range(n):
        keep = torch.arange(n) != i
        A = ones[keep].T @ ones[keep] + 0.7 * torch.eye(15).double()
        beta = torch.linalg.solve(A, ones[keep].T @ y[keep])
        close(seen[1][i, 0], ones[i] @ beta)


@pytest.mark.parametrize("width", [2, 6], ids=["few parameters", "many parameters"])
@pytest.mark.parametrize("loss", LOSSES)
def test_products_equal_a_loop_over_rows_with_dense_matrices(loss, width):
    count = LOSSES[loss]
    X, y = rows(22, 3, max(2, count))
    model = tanh_network(3, width, count)
    options = {"ridge": 0.5, "rate": 0.6, "damping": 2.0}
    algorithm = dd.DecoupledGaussNewton(**options, stratified=False)
    _, seen = recorded(X, y, model, algorithm, 6, loss=loss)
    alone, ones = torch.arange(22), torch.ones(22).double()
    wanted = oracle.path(model, loss, X, y, ones, alone, steps=6, **options)
    for found, each in zip(seen, wanted, strict=True):
        close(found, each)
    assert float((seen[5] - seen[0]).abs().mean()) > 0.1  # it has moved


@pytest.mark.parametrize("stratified", [False, True])
@pytest.mark.parametrize("width", [2, 6], ids=["few parameters", "many parameters"])
def test_weights_and_groups_equal_a_loop_over_groups(width, stratified):
    X, y = rows(20, 3, 3)
    weights = torch.linspace(0.5, 2.5, 20).double()
    groups = torch.arange(20) % 7
    model = tanh_network(3, width, 3)
    options = {"ridge": 0.5, "rate": 0.6, "damping": 2.0}
    algorithm = dd.DecoupledGaussNewton(**options, stratified=stratified)
    given = {"loss": "cross_entropy", "weights": weights, "groups": groups + 3}
    run, seen = recorded(X, y, model, algorithm, 5, **given)
    options |= {"classes": y if stratified else None, "steps": 5}
    wanted = oracle.path(model, "cross_entropy", X, y, weights, groups, **options)
    for found, each in zip(seen, wanted, strict=True):
        close(found, each)
    losses = nn.functional.cross_entropy(wanted[4], y, reduction="none")
    close(run.train_error[4], (weights * losses).sum() / weights.sum())


def test_a_row_twice_as_one_group_is_a_row_of_weight_two():
    X, y = rows(18, 3)
    algorithm = dd.DecoupledGaussNewton(damping=1.5)
    weights = torch.ones(18).double()
    weights[4] = 2.0
    _, once = recorded(X, y, tanh_network(3, 4), algorithm, 5, loss="logistic", weights=weights)
    twice = torch.cat([torch.arange(18), torch.tensor([4])])
    # the unit of damping is a mean over rows, so that it is 19/18 of it with 19 rows
    scaled = dd.DecoupledGaussNewton(damping=1.5 * 19 / 18)
    model, given = tanh_network(3, 4), {"loss": "logistic", "groups": twice}
    _, doubled = recorded(X[twice], y[twice], model, scaled, 5, **given)
    close(doubled[4][:18], once[4])
    close(doubled[4][18], once[4][4])


def test_order_of_rows_does_not_matter():
    X, y = rows(20, 3, 3)
    order = torch.randperm(20, generator=torch.Generator().manual_seed(1))
    given = {"loss": "cross_entropy"}
    algorithm = dd.DecoupledGaussNewton()
    _, one = recorded(X, y, tanh_network(3, 4, 3), algorithm, 6, **given)
    _, other = recorded(X[order], y[order], tanh_network(3, 4, 3), algorithm, 6, **given)
    close(other[5], one[5][order], 1e-8)


@pytest.mark.parametrize("loss", ["logistic", "cross_entropy"])
def test_linear_model_converges_to_the_minima_without_each_row(loss):
    count = LOSSES[loss]
    X, y = rows(16, 4, max(2, count))
    torch.manual_seed(0)
    model = nn.Linear(4, count).double()
    algorithm = dd.DecoupledGaussNewton(ridge=0.8, rate=1.0, damping=0.0, stratified=False)
    run, seen = recorded(X, y, model, algorithm, 60, loss=loss)
    assert run.stop_reason is StopReason.MINIMUM
    for i in range(16):
        keep = (torch.arange(16) != i).double()
        beta = oracle.flat(model)
        for _ in range(30):
            gradient, matrix = oracle.system(model, loss, beta, X, y, keep, 0.8)
            beta = beta - torch.linalg.solve(matrix + 0.8 * torch.eye(len(beta)), gradient)
        close(seen[-1][i], oracle.outputs(model, beta, X[i : i + 1])[0], 1e-6)


def test_formula_at_the_minimum_is_one_newton_step_from_it():
    """Both are leave-one-out at the minimum; they differ by the second order in the row's share."""
    X, y = rows(60, 4)
    model = nn.Linear(4, 1).double()
    algorithm = dd.DecoupledGaussNewton(ridge=0.8, rate=1.0, damping=0.0, stratified=False)
    run, seen = recorded(X, y, model, algorithm, 60, loss="logistic")
    beta = run.theta[0]
    o = oracle.outputs(model, beta, X)
    J = oracle.jacobian(model, beta, X)[:, 0]
    g, W = oracle.slopes_and_curvatures("logistic", o, y)
    _, matrix = oracle.system(model, "logistic", beta, X, y, torch.ones(60).double(), 0.8)
    V = (J @ torch.linalg.solve(matrix + 0.8 * torch.eye(5), J.T)).diagonal()
    formula = o[:, 0] + V * g[:, 0] / (1 - W[:, 0, 0] * V)
    moves = (formula - o[:, 0]).abs()
    error = (formula - seen[-1][:, 0]).abs()
    assert bool((error <= moves**2).all())
    assert float(moves.max()) > 0.1


def test_literal_refits_from_the_start_are_followed_within_one_per_cent():
    X, y = rows(40, 5, seed=3)
    y = torch.where(torch.rand(40, generator=torch.Generator().manual_seed(0)) < 0.1, 1 - y, y)
    model = tanh_network(5, 3)
    algorithm = dd.DecoupledGaussNewton(ridge=0.5, damping=3.0, stratified=False)
    run, _ = recorded(X, y, model, algorithm, 20, loss="logistic")
    nus, beta = [], oracle.flat(model)
    for _ in range(20):
        gradient, matrix = oracle.system(
            model, "logistic", beta, X, y, torch.ones(40).double(), 0.5
        )
        nus.append(0.5 + 3.0 * oracle.scale(matrix, 40))
        beta = beta - 0.6 * torch.linalg.solve(matrix + nus[-1] * torch.eye(len(beta)), gradient)
    literal = oracle.refits(model, "logistic", X, y, ridge=0.5, rate=0.6, nus=nus)
    errors = torch.stack(
        [nn.functional.binary_cross_entropy_with_logits(o[:, 0], y) for o in literal]
    )
    best = int(errors.argmin())
    assert 0 < best < 19
    assert float((errors[-1] - errors[best]) / errors[best]) > 0.02  # it overfits at the end
    torch.testing.assert_close(run.train_error, errors, rtol=0.01, atol=0.0)
    fitted = torch.tensor(run.last.info.notes["fitted"])
    assert float(fitted) < 0.8 * float(errors[-1])  # the loss of the fit is no estimate


def test_classes_without_signal_are_predicted_by_chance_if_they_keep_their_shares():
    """Without shares, rows left out are predicted wrong: their class is the rarer one."""
    right = {True: [], False: []}
    for draw in range(6):
        X = 0.05 * torch.randn(60, 4, generator=torch.Generator().manual_seed(draw)).double()
        y = (torch.arange(60) % 2).double()
        for stratified, found in right.items():
            algorithm = dd.DecoupledGaussNewton(stratified=stratified)
            model = nn.Linear(4, 1).double()
            for each in model.parameters():
                nn.init.zeros_(each)
            _, seen = recorded(X, y, model, algorithm, 10, loss="logistic")
            found.append((seen[-1][:, 0] > 0) == (y > 0))
    shares = {key: float(torch.cat(found).double().mean()) for key, found in right.items()}
    assert shares[False] < 0.1
    # predictions of the same draw depend on each other: three standard errors of 60 rows, not 360
    assert abs(shares[True] - 0.5) < 3 * 0.5 / 60**0.5


def test_damping_grows_where_the_network_bends_and_the_loss_never_rises():
    X, y = rows(40, 3)
    model = tanh_network(3, 8)
    with torch.no_grad():
        model[0].weight.mul_(6.0)
        model[2].weight.mul_(6.0)
    steps = []
    dd.fit(*(X, y, model, dd.DecoupledGaussNewton(ridge=1e-3, rate=1.0), 25), loss="logistic",
           callbacks=lambda step: steps.append(step.info.notes))  # fmt: skip
    fitted = torch.tensor([each["fitted"] for each in steps])
    assert max(each["nonlinearity"] for each in steps) <= 0.5
    assert bool((fitted.diff() <= 1e-3 * fitted[:-1]).all())
    assert len({each["damping"] for each in steps}) > 3
