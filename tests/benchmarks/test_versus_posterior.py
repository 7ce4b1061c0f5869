"""Posterior draws and leave-one-out by importance, against sums over a grid."""

import numpy as np
import pytest
from scipy.stats import genpareto

from benchmarks.versus import posterior
from benchmarks.versus.ridge import logistic_path

RIDGE = 2.0


def problem(n=12, seed=0):
    """One column: slope and intercept can be integrated over."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, 1))
    return A, (rng.uniform(size=n) < 1 / (1 + np.exp(-1.5 * A[:, 0]))).astype(float)


@pytest.fixture(scope="module")
def grid():
    """(slope, intercept) pairs that cover the posterior."""
    axis = np.linspace(-6, 6, 241)
    return np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)


def density(log_chance, betas):
    found = np.exp(log_chance.sum(1) - RIDGE / 2 * betas[:, 0] ** 2)
    return found / found.sum()


def drawn(A, y):
    slopes, intercepts = logistic_path(A, y, np.array([RIDGE]))
    top = np.r_[slopes[0], intercepts]
    return posterior.draws(posterior.with_ones(A), y, top, RIDGE, np.random.default_rng(1))


def test_draws_have_the_moments_of_the_posterior(grid):
    A, y = problem()
    weights = density(posterior.log_chances(posterior.with_ones(A), y, grid), grid)
    mean = weights @ grid
    covariance = (grid - mean).T @ (weights[:, None] * (grid - mean))
    found = drawn(A, y)
    assert len(found) == posterior.CHAINS * posterior.KEPT
    chains = found.reshape(posterior.KEPT, posterior.CHAINS, 2)  # chains are independent
    stderr = chains.mean(0).std(0, ddof=1) / posterior.CHAINS**0.5
    assert (abs(found.mean(0) - mean) < 4 * stderr).all()
    squares = ((chains - mean) ** 2).mean(0)
    stderr = squares.std(0, ddof=1) / posterior.CHAINS**0.5
    assert (abs(squares.mean(0) - np.diag(covariance)) < 4 * stderr).all()


def test_rows_are_left_out_as_by_integration(grid):
    A, y = problem()
    B = posterior.with_ones(A)
    log_chance = posterior.log_chances(B, y, grid)
    exact = [
        -np.log(density(np.delete(log_chance, row, 1), grid) @ np.exp(log_chance[:, row]))
        for row in range(len(y))
    ]
    found, shapes = posterior.left_out(posterior.log_chances(B, y, drawn(A, y)))
    assert shapes.max() < posterior.RELIABLE
    plain = -np.log(density(log_chance, grid) @ np.exp(log_chance))
    assert np.mean(exact) - plain.mean() > 0.05  # there is something to correct
    np.testing.assert_allclose(found, exact, atol=0.06)
    assert found.mean() == pytest.approx(np.mean(exact), abs=0.02)


@pytest.mark.parametrize("shape", [-0.2, 0.3, 0.8])
def test_tails_are_fitted(shape):
    excess = np.sort(genpareto(shape, scale=2.0).rvs(2000, random_state=0))
    found, scale = posterior.pareto(excess)
    assert found == pytest.approx(shape, abs=4 * (1 + shape) / 2000**0.5)  # its standard error
    assert scale == pytest.approx(2.0, rel=4 * (2 * (1 + shape) / 2000) ** 0.5)


def test_smoothing_touches_the_largest_weights_alone():
    log_weights = np.random.default_rng(0).standard_normal(1000)
    found, shape = posterior.smoothed(log_weights)
    order = np.argsort(log_weights)
    np.testing.assert_allclose(found[order[:-95]], (log_weights - log_weights.max())[order[:-95]])
    assert (np.diff(found[order[-95:]]) >= 0).all()
    assert found.max() <= 0
    assert 0 < shape < 0.7


def test_the_way_scores_the_mean_of_its_draws():
    A, y = problem(30)
    fresh, answers = problem(200, seed=5)
    answer = posterior.psis_loo(False, np.array([3.0, 1.0]), logistic_path)(A, y)
    losses = answer.losses(fresh, answers)
    assert losses.shape == (200,)
    # both labels' probabilities add up to one, as those of a mean over draws do
    other = answer.losses(fresh, 1 - answers)
    np.testing.assert_allclose(np.exp(-losses) + np.exp(-other), 1.0)
    assert abs(answer.estimate - losses.mean()) < 4 * np.hypot(
        answer.stderr, losses.std() / 200**0.5
    )


def test_ridges_that_cannot_be_judged_are_not_chosen(monkeypatch):
    """Weights of the second ridge are called unreliable, although its score is the best."""
    A, y = problem(30)
    scores = iter([(np.full(30, 0.6), np.full(30, 0.1)), (np.full(30, 0.2), np.full(30, 0.9))])
    monkeypatch.setattr(posterior, "left_out", lambda _: next(scores))
    answer = posterior.psis_loo(False, np.array([3.0, 0.01]), logistic_path)(A, y)
    assert answer.estimate == pytest.approx(0.6)
