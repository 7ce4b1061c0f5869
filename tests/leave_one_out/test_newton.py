"""The Newton method against literal refits, and what it says where it cannot estimate."""

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression, Ridge
from torch.nn import functional

import decoupled_descent as dd
from decoupled_descent.leave_one_out import minimum, newton
from decoupled_descent.leave_one_out.problem import Problem
from decoupled_descent.objective.losses import get_loss
from decoupled_descent.objective.second_order import second_order
from decoupled_descent.training import StopReason
from tests.oracles import newton as oracle
from tests.oracles.left_out import one_step
from tests.problems import normal

N, D = 40, 6
LOSSES = {
    "squared": oracle.squared,
    "logistic": oracle.logistic,
    "cross_entropy": oracle.cross_entropy,
    "poisson": oracle.poisson,
}


def problem(loss, n=N, d=D, seed=0, outputs=1):
    """Rows and labels with a signal and noise, as NumPy arrays."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.linspace(0.3, 1.5, d)
    score = X @ rng.normal(size=(d, outputs)) + rng.normal(size=(n, outputs)) + 0.5
    if loss == "cross_entropy":
        return X, score.argmax(1)
    if loss == "logistic":
        return X, (score[:, 0] > 0).astype(float)
    if loss == "poisson":
        return X, rng.poisson(np.exp(0.3 * score[:, 0])).astype(float)
    return X, score[:, 0] if outputs == 1 else score


def train(X, y, loss, ridge, outputs=1, intercept=True, rows=None, **options):
    """Train a linear model to its minimum."""
    objective = dd.Objective(dd.heads.Linear(outputs, intercept=intercept).double(), loss)
    algorithm = dd.DecoupledNewton(ridge, **{"tolerance": 1e-13, **options})
    rows = dd.Rows(X, y, **(rows or {}))
    return dd.fit(rows, None, objective, algorithm, progress=False)


def left_out(run):
    outputs = run.best_outputs.numpy()
    return outputs.reshape(len(outputs), -1)


def mean_loss(loss, outputs, y, weights=None):
    return np.average(LOSSES[loss](outputs, y)[0], weights=weights)


def drawn_weights(seed=5, n=N):
    return np.random.default_rng(seed).uniform(0.3, 3.0, n)


def read(X, y):
    """Rows that are read in blocks."""
    rows = dd.Rows(scipy.sparse.csr_array(X), y, block_size=7)
    assert not rows.in_memory
    return rows


@pytest.mark.parametrize(
    ("loss", "outputs"), [("squared", 1), ("squared", 2), ("logistic", 1), ("cross_entropy", 3)]
)
def test_rows_that_are_read_are_those_in_memory(loss, outputs, monkeypatch):
    monkeypatch.setattr(minimum, "SQUARE", 0)  # the form for many rows, which read ones always have
    X, y = problem(loss, outputs=outputs)
    X[3] *= 40  # rows that are refined and refitted, too
    objective = dd.Objective(dd.heads.Linear(outputs, intercept=True).double(), loss)
    algorithm = dd.DecoupledNewton(0.5, tolerance=1e-13)
    selected = dd.fit(X, y, objective, algorithm, progress=False)
    run = dd.fit(read(X, y), None, objective, algorithm, progress=False)
    torch.testing.assert_close(run.theta, selected.theta, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(run.best_losses, selected.best_losses, rtol=1e-8, atol=1e-9)
    assert run.last.info.notes == selected.last.info.notes


# Squared loss: everything is exact.


@pytest.mark.parametrize("shape", [(40, 6), (30, 45)])
@pytest.mark.parametrize("ridge", [0.01, 1.0, 30.0])
def test_squared_loss_is_a_literal_refit(shape, ridge):
    X, y = problem("squared", *shape)
    run = train(X, y, "squared", ridge)
    np.testing.assert_allclose(left_out(run), oracle.refits(X, y, oracle.squared, ridge), atol=1e-8)


def test_several_outputs_and_weights_with_squared_loss():
    X, y = problem("squared", outputs=3)
    weights = drawn_weights()
    run = train(X, y, "squared", 0.7, 3, rows={"weights": weights})
    expected = oracle.refits(X, y, oracle.squared, 0.7, weights, outputs=3)
    np.testing.assert_allclose(left_out(run), expected, atol=1e-8)
    losses = 0.5 * ((expected - y) ** 2).sum(1)
    assert run.best.train_error == pytest.approx(np.average(losses, weights=weights), rel=1e-8)


def test_groups_are_left_out_together():
    X, y = problem("squared")
    groups = np.arange(N) // 4
    for weights in (None, drawn_weights()):
        given = {"groups": groups} | ({} if weights is None else {"weights": weights})
        run = train(X, y, "squared", 1.0, rows=given)
        expected = oracle.refits(X, y, oracle.squared, 1.0, weights, groups=groups)
        np.testing.assert_allclose(left_out(run), expected, atol=1e-8)
    assert len(run.best.info.losses) == 10  # one value per group
    alone = train(X, y, "squared", 1.0, rows={"groups": np.arange(N)[::-1].copy()})
    plain = train(X, y, "squared", 1.0)
    np.testing.assert_allclose(left_out(alone), left_out(plain), atol=1e-10)


def test_without_an_intercept():
    X, y = problem("squared")
    run = train(X, y, "squared", 0.5, intercept=False)
    expected = oracle.refits(X, y, oracle.squared, 0.5, intercept=False)
    np.testing.assert_allclose(left_out(run), expected, atol=1e-8)


# Curved losses: second order and better, with repairs where the linearisation fails.


@pytest.mark.parametrize(
    ("loss", "outputs"), [("logistic", 1), ("cross_entropy", 3), ("poisson", 1)]
)
@pytest.mark.parametrize(
    ("shape", "ridge", "within"),
    [((40, 6), 1.0, 0.01), ((40, 6), 0.02, 0.03), ((30, 45), 1.0, 0.01)],
)
def test_curved_losses_against_literal_refits(loss, outputs, shape, ridge, within):
    X, y = problem(loss, *shape, outputs=outputs)
    run = train(X, y, loss, ridge, outputs)
    expected = oracle.refits(X, y, LOSSES[loss], ridge, outputs=outputs)
    truth = get_loss(loss).of(torch.from_numpy(expected), torch.from_numpy(y)).mean().item()
    assert run.best.train_error == pytest.approx(truth, rel=within)


def test_counts_against_literal_steps_and_refits():
    """Each row's output is that of a literal Newton step without it, near a literal refit's."""
    X, y = problem("poisson", 400, 3)
    outputs = left_out(train(X, y, "poisson", 1.0))[:, 0]
    extended, beta = np.hstack([X, np.ones((400, 1))]), oracle.fit(X, y, oracle.poisson, 1.0)[:, 0]
    step = one_step(extended, y, lambda u, y: np.exp(u) - y, lambda u, _: np.exp(u), 1.0, beta)
    assert (np.abs(outputs - step) > 1e-6).sum() == 1  # it moves so far that it gets more steps
    expected = oracle.refits(X, y, oracle.poisson, 1.0)
    means = [mean_loss("poisson", each, y) for each in (outputs[:, None], expected)]
    assert means[0] == pytest.approx(means[1], rel=2e-4)


@pytest.mark.parametrize(
    ("loss", "outputs"), [("logistic", 1), ("cross_entropy", 3), ("poisson", 1)]
)
def test_curved_losses_with_weights_and_groups(loss, outputs):
    X, y = problem(loss, outputs=outputs)
    weights = drawn_weights()
    for extra in ({}, {"groups": np.arange(N) // 2}):
        run = train(X, y, loss, 2.0, outputs, rows={"weights": weights, **extra})
        expected = oracle.refits(X, y, LOSSES[loss], 2.0, weights, outputs=outputs, **extra)
        losses = get_loss(loss).of(torch.from_numpy(expected), torch.from_numpy(y)).numpy()
        assert run.best.train_error == pytest.approx(np.average(losses, weights=weights), rel=0.02)


@pytest.mark.parametrize(("loss", "outputs"), [("logistic", 1), ("cross_entropy", 3)])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_without_signal_are_not_predicted_wrong(loss, outputs, weighted):
    """Strong ridge, balanced classes: plain leave-one-out makes the row's own class the rarer."""
    count = max(2, outputs)
    X, y = normal(12 * count, 3, seed=4).numpy(), np.arange(12 * count) % count
    weights = np.repeat([1.0, 5.0], 6 * count) if weighted else np.ones(12 * count)
    run = train(X, y, loss, 1e6, outputs, rows={"weights": weights})
    outputs_without = left_out(run)
    expected = oracle.refits(X, y, LOSSES[loss], 1e6, weights, outputs=outputs)
    np.testing.assert_allclose(
        outputs_without - outputs_without.mean(1, keepdims=True) * (outputs > 1),
        expected - expected.mean(1, keepdims=True) * (outputs > 1),
        atol=1e-5,
    )
    assert np.abs(expected - expected.mean(0)).max() < 1e-3  # all rows get the shares of classes


def test_repairs_help_near_interpolation():
    X, y = problem("logistic", 30, 25, seed=2)
    truth = mean_loss("logistic", oracle.refits(X, y, oracle.logistic, 1e-3), y)
    plain, repaired = (train(X, y, "logistic", 1e-3, repairs=k) for k in (0, 100))
    assert plain.best.info.notes["doubtful"] > 0
    assert repaired.best.info.notes["doubtful"] == 0
    assert repaired.best.info.notes["repaired"] == plain.best.info.notes["doubtful"]
    assert repaired.best.train_error == pytest.approx(truth, rel=0.03)
    assert abs(plain.best.train_error - truth) > abs(repaired.best.train_error - truth)


def own_loss(outputs, y):
    """A robust loss of a user's own."""
    return torch.log(torch.cosh(outputs.squeeze(1) - y))


def own_loss_in_numpy(outputs, y):
    residual = outputs - y.reshape(outputs.shape)
    return np.log(np.cosh(residual))[:, 0], np.tanh(residual)


def test_a_loss_of_the_users_own():
    X, y = problem("squared")
    run = train(X, y, own_loss, 1.0)
    expected = oracle.refits(X, y, own_loss_in_numpy, 1.0)
    truth = own_loss_in_numpy(expected, y)[0].mean()
    assert run.best.train_error == pytest.approx(truth, rel=0.01)


def own_softmax(outputs, y):
    """Softmax as a user would write it: its Hessian is known to autodiff alone."""
    return functional.cross_entropy(outputs, y, reduction="none")


def test_a_coupled_loss_of_the_users_own_is_the_builtin_one():
    X, y = problem("cross_entropy", outputs=3)
    own, builtin = (train(X, y, loss, 1.0, 3) for loss in (own_softmax, "cross_entropy"))
    np.testing.assert_allclose(own.theta, builtin.theta, atol=1e-6)

    def numbers(outputs, y):  # nothing says that labels are classes: their shares are not kept
        return oracle.cross_entropy(outputs, y)

    expected = oracle.refits(X, y, numbers, 1.0, outputs=3)
    truth = mean_loss("cross_entropy", expected, y)
    assert own.best.train_error == pytest.approx(truth, rel=0.01)


def test_absolute_loss_is_that_of_the_smoothed_problem():
    X, y = problem("squared")
    run = train(X, y, "absolute", 1.0, tolerance=1e-9)
    assert run.stop_reason is StopReason.MINIMUM
    spread = 1.4826 * np.median(np.abs(y - np.sort(y)[(N - 1) // 2]))
    smooth = oracle.huber(0.5 * spread / N**0.2)
    expected = oracle.refits(X, y, smooth, 1.0)
    truth = np.abs(expected[:, 0] - y).mean()
    assert run.best.train_error == pytest.approx(truth, rel=0.03)


def test_a_smoothed_absolute_loss_is_hubers():
    generator = torch.Generator().manual_seed(0)
    outputs, y = torch.randn(2, 20, 2, generator=generator, dtype=torch.float64)
    bends = second_order(get_loss("absolute"), outputs, y, 0.4)
    value, slope = oracle.huber(0.4)(outputs.numpy(), y.numpy())
    np.testing.assert_allclose(bends.value, value, atol=1e-12)
    np.testing.assert_allclose(bends.slope, slope, atol=1e-12)


# The minimum itself.


def test_minima_are_scikit_learns():
    X, y = problem("logistic")
    run = train(X, y, "logistic", 0.5)
    model = LogisticRegression(C=2.0, tol=1e-12, max_iter=10000).fit(X, y)
    np.testing.assert_allclose(run.theta, model.coef_, atol=1e-6)
    np.testing.assert_allclose(run.head[0].bias.detach(), model.intercept_, atol=1e-6)
    X, y = problem("squared")
    run = train(X, y, "squared", 0.5)
    model = Ridge(alpha=0.5).fit(X, y)
    np.testing.assert_allclose(run.theta[0], model.coef_, atol=1e-6)
    np.testing.assert_allclose(float(run.head[0].bias.detach()), model.intercept_, atol=1e-6)
    X, y = problem("cross_entropy", outputs=3)
    run = train(X, y, "cross_entropy", 0.5, 3)
    model = LogisticRegression(C=2.0, tol=1e-12, max_iter=10000).fit(X, y)
    np.testing.assert_allclose(run.theta, model.coef_, atol=1e-6)


@pytest.mark.parametrize(
    ("loss", "outputs"), [("squared", 1), ("logistic", 1), ("cross_entropy", 3)]
)
def test_weight_two_is_the_row_twice(loss, outputs):
    X, y = problem(loss, outputs=outputs)
    weights = 1.0 + (np.arange(N) % 3 == 0)
    once = train(X, y, loss, 1.0, outputs, rows={"weights": weights}, tolerance=1e-16)
    twice = np.repeat(np.arange(N), weights.astype(int))
    copies = train(X[twice], y[twice], loss, 1.0, outputs, tolerance=1e-16)
    np.testing.assert_allclose(once.theta, copies.theta, atol=1e-8)
    bias = [run.head[0].bias.detach() for run in (once, copies)]
    np.testing.assert_allclose(bias[0] - bias[0].mean(), bias[1] - bias[1].mean(), atol=1e-8)


@pytest.mark.parametrize(
    ("loss", "outputs"), [("squared", 1), ("logistic", 1), ("cross_entropy", 3)]
)
def test_weight_two_is_the_row_twice_in_one_group(loss, outputs):
    """Also when it is left out: a row leaves with all of its weight. One Newton step each."""
    X, y = problem(loss, outputs=outputs)
    weights = 1.0 + (np.arange(N) % 3 == 0)
    twice = np.repeat(np.arange(N), weights.astype(int))
    alone = {"weights": weights, "groups": np.arange(N)}
    options = {"tolerance": 1e-16, "repairs": 0}
    once = train(X, y, loss, 1.0, outputs, rows=alone, **options)
    copies = train(X[twice], y[twice], loss, 1.0, outputs, rows={"groups": twice}, **options)
    expected, result = left_out(once)[twice], left_out(copies)
    if outputs > 1:
        expected, result = (each - each.mean(1, keepdims=True) for each in (expected, result))
    np.testing.assert_allclose(result, expected, atol=1e-8)
    assert copies.best.train_error == pytest.approx(once.best.train_error, rel=1e-8)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), loss=st.sampled_from(["squared", "logistic"]))
def test_order_of_rows_and_rotations_of_features_do_not_matter(seed, loss):
    X, y = problem(loss, seed=seed)
    rng = np.random.default_rng(seed)
    order, turn = rng.permutation(N), np.linalg.qr(rng.normal(size=(D, D)))[0]
    run, other = train(X, y, loss, 1.0), train(X[order] @ turn, y[order], loss, 1.0)
    np.testing.assert_allclose(left_out(other), left_out(run)[order], atol=1e-5)
    assert other.best.train_error == pytest.approx(run.best.train_error, rel=1e-6)


# How it runs.


def test_away_from_the_minimum_there_is_no_estimate():
    X, y = problem("logistic", 30, 25)
    objective = dd.Objective(dd.heads.Linear(intercept=True).double(), "logistic")
    with pytest.warns(dd.DivergenceWarning, match="the minimum was not reached"):
        run = dd.fit(X, y, objective, dd.DecoupledNewton(1e-3), 2, progress=False)
    assert not run.best.info.estimates
    assert run.stop_reason is StopReason.STEPS
    run = dd.fit(X, y, objective, dd.DecoupledNewton(1e-3), progress=False)
    assert run.best.info.estimates
    assert str(run.stop_reason) == "at the minimum"
    assert run.best_step == len(run.train_error) - 1


def test_one_step_reaches_the_minimum_of_squared_loss():
    X, y = problem("squared")
    assert len(train(X, y, "squared", 1.0, tolerance=1e-9).train_error) <= 4


def test_sweep_chooses_a_ridge_and_callbacks_are_called():
    X, y = problem("logistic")
    objective = dd.Objective(dd.heads.Linear(intercept=True).double(), "logistic")
    ridges = [0.01, 1.0, 100.0]
    seen = []
    result = dd.sweep(
        X,
        y,
        objective,
        [dd.DecoupledNewton(ridge) for ridge in ridges],
        callbacks=lambda step: seen.append(step.index),
        progress=False,
    )
    alone = [train(X, y, "logistic", ridge, tolerance=1e-9).best.train_error for ridge in ridges]
    assert result.best.algorithm.ridge == ridges[int(np.argmin(alone))]
    np.testing.assert_allclose([run.best.train_error for run in result.runs], alone, rtol=1e-6)
    assert seen.count(0) == 3


def test_moves_are_measured_in_the_metric_of_the_loss():
    X, y = problem("cross_entropy", outputs=3)
    rows = dd.Rows(X, y)
    objective = dd.Objective(dd.heads.Linear(3, intercept=True), "cross_entropy")
    at = Problem(rows, objective.bind(rows.y, 3, rows.X), 1.0)
    outputs = torch.zeros(40, 3).double()
    outputs[:, 2] = -30.0  # two classes that are equally likely, and one that is not possible
    moved = outputs.clone()
    moved[:20, 0] += 0.01
    moved[20:, 2] += 5.0
    sizes = newton._move_sizes(at, outputs, moved)
    torch.testing.assert_close(sizes[:20], torch.full((20,), 0.01).double(), rtol=1e-4, atol=0)
    assert float(sizes[20:].max()) < 1e-4
