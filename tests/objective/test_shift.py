"""Rows weighted for other frequencies of the labels."""

import numpy as np
import pytest
import torch

import decoupled_descent as dd

BEFORE, AFTER = {0.0: 0.5, 1.0: 0.5}, {0.0: 0.85, 1.0: 0.15}


def mixture(d, shares):
    v = torch.full((1, d), 1.5, dtype=torch.float64)
    return dd.GaussianMixture(torch.cat([v, -v]), list(shares.values()), list(shares))


def test_training_is_descent_with_row_weights():
    """Against equation "dd" with weights on every row, written out for one logistic unit."""
    d, n, lr, damping = 40, 60, 0.3, 0.9
    X, y = mixture(d, BEFORE).sample(n, seed=0, dtype=torch.float64)
    objective = dd.objective.label_shift(dd.Objective(dd.heads.Linear(), "logistic"), BEFORE, AFTER)
    start = torch.randn(1, d, generator=torch.Generator().manual_seed(1)).double()
    run = dd.fit(X, y, objective, dd.DecoupledDescent(lr, damping), 8, start)
    X, y, theta = X.numpy(), y.numpy(), start[0].numpy()
    s = np.where(y == 1, 0.15 / 0.5, 0.85 / 0.5)
    memory, errors = np.zeros(n), []
    for _ in range(8):
        h = X @ theta + memory
        sigma = 1 / (1 + np.exp(-h))
        errors.append(np.mean(s * (np.logaddexp(0, h) - y * h)))
        hat, bend = s * (sigma - y), np.mean(s * sigma * (1 - sigma))
        theta = damping * theta - lr * (X.T @ hat - n / d * bend * theta)
        memory = damping * memory + lr * hat
    np.testing.assert_allclose(run.train_error, errors, rtol=1e-10)


def test_weighted_errors_before_are_errors_after():
    """The same number from either side of the shift, in the limit."""
    plain = dd.Objective(dd.heads.Linear(), "logistic")
    weighted = dd.objective.label_shift(plain, BEFORE, AFTER)
    m, omega = [[-0.7], [0.7]], [[1.1]]
    before = dd.theory.asymptotic_test_error(mixture(10, BEFORE), weighted, m, omega)
    after = dd.theory.asymptotic_test_error(mixture(10, AFTER), plain, m, omega)
    np.testing.assert_allclose(before.value, after.value, rtol=1e-10)


def test_the_train_error_estimates_the_error_after_the_shift():
    n, steps, runs = 800, 10, 8
    plain = dd.Objective(dd.heads.Linear(), "logistic")
    weighted = dd.objective.label_shift(plain, BEFORE, AFTER)
    gaps, naive = [], []
    for seed in range(runs):
        X, y = mixture(n, BEFORE).sample(n, seed=seed)
        for objective, result in ((weighted, gaps), (plain, naive)):
            seen = []
            algorithm = dd.DecoupledDescent(0.2, 0.95)
            dd.fit(X, y, objective, algorithm, steps, seed=seed, callbacks=[seen.append])
            theta = seen[-1].state.theta
            truth = dd.theory.population_test_error(mixture(n, AFTER), plain, theta)
            result.append(seen[-1].info.train_error - float(truth))
    stderr = np.std(gaps, ddof=1) / runs**0.5
    assert abs(np.mean(gaps)) < 4 * stderr


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ({0.0: 1.0}, {1.0: 1.0}, "must be the same"),
        ({0.0: 0.5, 1.0: 0.6}, AFTER, "before sums to 1.1"),
        ({0.0: 1.0, 1.0: 0.0}, AFTER, "frequency 0"),
    ],
)
def test_frequencies_that_make_no_sense_are_refused(before, after, message):
    with pytest.raises(ValueError, match=message):
        dd.objective.label_shift(dd.Objective(dd.heads.Linear(), "logistic"), before, after)
