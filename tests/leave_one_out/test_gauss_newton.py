"""Newton's method for heads with weights of their own."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.func import grad, hessian

import decoupled_descent as dd
from decoupled_descent.leave_one_out import gauss_newton
from decoupled_descent.leave_one_out.gauss_newton import _Factor, _jacobian
from decoupled_descent.leave_one_out.leave_out import leave_out
from decoupled_descent.leave_one_out.problem import Problem
from decoupled_descent.training import StopReason
from tests.leave_one_out.test_newton import problem
from tests.problems import binary, normal, two_layer


def posed(loss="logistic", outputs=1, n=30, d=4, ridge=0.5, **extra):
    X, y = problem(loss, n, d, outputs=outputs)
    rows = dd.Rows(X, y, **extra)
    head = dd.heads.TwoLayer(3, outputs=outputs, bias=True, hidden_bias=True, seed=0).double()
    objective = dd.Objective(head, loss)
    at = Problem(rows, objective.bind(rows.y, 3, rows.X), ridge)
    return at, normal(3, d, seed=1), objective.parameters(rows.X)


def outputs_of(X, theta, head):
    c, w, b = head.values()
    return torch.tanh(X @ theta.T + c) @ w.T + b


def left_out(move):
    return leave_out(move.minimum()).outputs


@pytest.mark.parametrize(("loss", "outputs"), [("logistic", 1), ("cross_entropy", 3)])
def test_jacobian_against_differences(loss, outputs):
    at, theta, head = posed(loss, outputs)
    result = _jacobian(at, theta, head, outputs)
    parts = [theta, *head.values()]
    sizes = [part.numel() for part in parts]
    flat = torch.cat([part.reshape(-1) for part in parts])
    assert result.shape == (30, outputs, len(flat))

    def said(vector):
        pieces = [p.reshape(q.shape) for p, q in zip(vector.split(sizes), parts, strict=True)]
        return outputs_of(at.rows.X, pieces[0], dict(zip(head, pieces[1:], strict=True)))

    for place in range(len(flat)):
        nudge = torch.zeros_like(flat)
        nudge[place] = 1e-5
        difference = (said(flat + nudge) - said(flat - nudge)) / 2e-5
        torch.testing.assert_close(result[:, :, place], difference, atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("size", [5, 60])  # fewer, and more, parameters than outputs
def test_the_factor_against_a_dense_hessian(size):
    n, count = 12, 2
    J, roots = normal(n, count, size, seed=1), normal(n, count, count, seed=2)
    hessians, penalty = roots @ roots.mT, normal(size, seed=3).abs() + 0.2
    factor = _Factor(J, hessians, penalty)
    assert factor.primal == (size == 5)
    H = torch.einsum("nap,nab,nbq->pq", J, hessians, J) + torch.diag(penalty)
    vector = normal(size, seed=4)
    torch.testing.assert_close(factor.solve(vector), torch.linalg.solve(H, vector))
    half = factor.half().reshape(-1, n * count)
    flat = J.reshape(n * count, size)
    torch.testing.assert_close(half.T @ half, flat @ torch.linalg.solve(H, flat.T))


def test_steps_descend_to_a_stationary_point():
    at, theta, head = posed()
    decrements = []
    for _ in range(40):
        move = gauss_newton.gauss_newton_step(at, theta, head)
        theta, head = move.theta, move.head
        decrements.append(move.decrement)
        if move.decrement < 1e-12:
            break
    assert decrements[-1] < 1e-12
    assert min(decrements) >= 0
    X, y = at.rows.X, at.rows.y

    def total(theta, head):
        predictions = outputs_of(X, theta, head)[:, 0]
        c, w, _ = head.values()
        penalised = sum(part.square().sum() for part in (theta, c, w))
        return (
            torch.nn.functional.softplus(predictions) - y * predictions
        ).sum() + 0.25 * penalised

    slope = grad(total)(theta, head)
    assert float(slope.abs().max()) < 1e-5


def test_left_out_rows_and_groups_agree_where_groups_are_rows():
    at, theta, head = posed()
    grouped, *_ = posed(groups=np.arange(30))
    rows, groups = (
        left_out(gauss_newton.gauss_newton_step(each, theta, head)) for each in (at, grouped)
    )
    torch.testing.assert_close(rows, groups)


def test_a_group_against_the_formula_with_dense_matrices():
    labels = np.arange(30) // 3
    at, theta, head = posed("cross_entropy", 3, groups=labels)
    move = gauss_newton.gauss_newton_step(at, theta, head)
    move = replace(move, second=lambda: torch.zeros_like(move.factor.system))  # tested below
    J = _jacobian(at, theta, head, 3)
    W = move.curvature.matrices()
    penalty = torch.full((J.shape[2],), 0.5).double()
    penalty[-3:] *= gauss_newton.BIAS_SHARE
    H = torch.einsum("nap,nab,nbq->pq", J, W, J) + torch.diag(penalty)
    mine = torch.tensor(labels == 4)
    slope = torch.einsum("nap,na->p", J[mine], move.curvature.slope[mine])
    without = H - torch.einsum("nap,nab,nbq->pq", J[mine], W[mine], J[mine])
    change = torch.linalg.solve(without, slope)
    expected = move.outputs[mine] + J[mine] @ change
    result = left_out(move)[mine]
    centred = [
        predictions - predictions.mean(1, keepdim=True) for predictions in (result, expected)
    ]
    torch.testing.assert_close(*centred, atol=1e-6, rtol=1e-6)  # a common shift changes nothing


def test_the_second_term_of_the_hessian(monkeypatch):
    monkeypatch.setattr(gauss_newton, "COLUMNS", 4)  # in several pieces
    at, theta, head = posed("cross_entropy", 3)
    parts = [theta, *head.values()]
    sizes = [part.numel() for part in parts]

    def total(vector):
        pieces = [p.reshape(q.shape) for p, q in zip(vector.split(sizes), parts, strict=True)]
        predictions = outputs_of(at.rows.X, pieces[0], dict(zip(head, pieces[1:], strict=True)))
        return torch.nn.functional.cross_entropy(predictions, at.rows.y, reduction="sum")

    move = gauss_newton.gauss_newton_step(at, theta, head)
    J, W = _jacobian(at, theta, head, 3), move.curvature.matrices()
    first = torch.einsum("nap,nab,nbq->pq", J, W, J)
    complete = hessian(total)(torch.cat([part.reshape(-1) for part in parts]))
    torch.testing.assert_close(first + move.second(), complete)


def test_the_second_term_brings_leave_one_out_closer_to_refits():
    X, y = problem("squared", 40, 4)
    head = dd.heads.TwoLayer(2, hidden_bias=True, bias=True, seed=0).double()
    objective, algorithm = dd.Objective(head, "squared"), dd.DecoupledNewton(1.0, 1e-12, repairs=0)
    run = dd.fit(X, y, objective, algorithm, 200, seed=0, progress=False)
    refits = []
    for row in range(40):
        kept = torch.arange(40) != row
        rows = dd.Rows(torch.tensor(X)[kept], torch.tensor(y)[kept])
        again = dd.fit(rows, None, objective, algorithm, 200, state=run.state, progress=False)
        refits.append(float(again.predict(torch.tensor(X)[row : row + 1])))
    at = Problem(dd.Rows(X, y), run.bound, 1.0)
    move = gauss_newton.gauss_newton_step(at, run.theta, run.state.head)
    plain = replace(move, second=lambda: torch.zeros_like(move.factor.system))
    errors = [
        float((left_out(each)[:, 0] - torch.tensor(refits).double()).abs().median())
        for each in (move, plain)
    ]
    assert errors[0] < 0.5 * errors[1]


def test_a_term_that_makes_the_hessian_indefinite_is_left_out():
    factor = _Factor(
        normal(12, 1, 3, seed=1), torch.ones(12, 1, 1).double(), torch.ones(3).double()
    )
    assert factor.with_term(-1e3 * torch.eye(3).double()) is factor


def test_single_precision_rows_and_a_head_in_double():
    """The head is trained in the dtype of the rows, as by every algorithm."""
    X, y = binary(40, 5)
    runs = [
        dd.fit(X.to(dtype), y, two_layer(), dd.DecoupledNewton(1.0, 1e-5), 50)
        for dtype in (torch.float32, torch.float64)
    ]
    assert {run.theta.dtype for run in runs} == {torch.float32, torch.float64}
    assert runs[0].state.head["1.weight"].dtype == torch.float32
    assert runs[0].train_error[-1] == pytest.approx(float(runs[1].train_error[-1]), rel=1e-3)


def test_a_head_whose_parameter_is_a_scalar():
    X, y, theta = normal(20, 4, seed=1), (normal(20, seed=2) > 0).double(), normal(2, 4, seed=3)
    objective = dd.Objective(dd.heads.Product(a=0.7).double(), "logistic")
    at = Problem(dd.Rows(X, y), objective.bind(y, 2, X), 0.5)
    result = _jacobian(at, theta, objective.parameters(X), 1)[:, 0]
    u, v = (X @ theta.T).T.unsqueeze(2)
    torch.testing.assert_close(result, torch.cat([0.7 * v * X, 0.7 * u * X, u * v], 1))
    run = dd.fit(X, y, objective, dd.DecoupledNewton(0.5), theta=theta, progress=False)
    assert run.stop_reason is StopReason.MINIMUM


def test_networks_state_their_size_and_the_time_of_the_last_step():
    y, algorithm = torch.zeros(3000), dd.DecoupledNewton(1.0)
    rows = dd.Rows(torch.zeros(3000, 50), y)
    head = dd.heads.TwoLayer(40, seed=0)
    bound = algorithm.bind(rows, dd.Objective(head, "squared"))
    assert algorithm.forecast(rows, bound) == "2040 parameters, the last step takes about 25 s"
    linear = algorithm.bind(rows, dd.Objective(dd.heads.Linear(), "squared"))
    assert algorithm.forecast(rows, linear) == ""
    rows = dd.Rows(torch.zeros(30, 5), y[:30])
    assert algorithm.forecast(rows, algorithm.bind(rows, bound.objective)) == "240 parameters"


def test_the_forecast_of_a_newton_run_is_on_its_bar(capsys):
    X, y = binary(24, 4)
    dd.fit(X, y, two_layer(3), dd.DecoupledNewton(1.0), 200, progress=True)
    assert "DecoupledNewton (15 parameters)" in " ".join(capsys.readouterr().err.split())


def test_single_precision_has_the_steps_and_the_influence_of_double_precision():
    """Long rows, a small ridge and more parameters than rows: products lose seven digits."""
    J, ridge = 300 * normal(30, 1, 80, seed=1), torch.full((80,), 0.1).double()
    W = torch.linspace(0.01, 0.25, 30).double().reshape(30, 1, 1)
    vector = normal(80, seed=2)
    single, double = (
        _Factor(J.to(dtype), W.to(dtype), ridge.to(dtype))
        for dtype in (torch.float32, torch.float64)
    )
    found, wanted = single.solve(vector.float()), double.solve(vector)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-4)
    found, wanted = (each.half().double()[:, :, 0] for each in (single, double))
    torch.testing.assert_close(found.T @ found, wanted.T @ wanted, rtol=1e-3, atol=1e-3)
