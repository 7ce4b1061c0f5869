"""Means with standard errors against formulas written out, and against many draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from decoupled_descent.evaluation.means import (
    effective_count,
    mean_with_stderr,
    share_with_stderr,
    unit_values,
    variance_with_one_more,
)


def test_rows_groups_and_weights_written_out():
    rng = np.random.default_rng(0)
    losses, weights, groups = rng.normal(size=30), rng.uniform(1, 3, 30), np.arange(30) % 7
    mean = (weights * losses).sum() / weights.sum()
    sums = [(weights * (losses - mean))[groups == g].sum() / weights.sum() for g in range(7)]
    expected = math.sqrt(np.square(sums).sum() * 7 / 6)
    found = mean_with_stderr(losses, weights, groups)
    assert found == pytest.approx((mean, expected), rel=1e-12)
    assert unit_values(losses, weights, groups).mean() == pytest.approx(mean)
    plain = mean_with_stderr(torch.tensor([1.0, 2.0, 4.0]))
    assert plain == pytest.approx((7 / 3, np.std([1, 2, 4], ddof=1) / 3**0.5))


def test_what_rows_have_in_common_and_what_has_not_occurred_widens():
    losses = np.array([0.0, 0.0, 1.0, 0.0])
    alone = mean_with_stderr(losses).stderr
    assert mean_with_stderr(losses, pairs=0.01).stderr == pytest.approx(math.hypot(alone, 0.1))
    wider = mean_with_stderr(losses, least_variance=4.0).stderr
    assert wider == pytest.approx(1.0)
    assert variance_with_one_more(losses) == pytest.approx(np.var([0, 0, 1, 0, 1], ddof=1))


def test_values_that_are_not_finite_or_whose_squares_are_not():
    assert math.isnan(mean_with_stderr([1.0, math.inf]).stderr)
    assert mean_with_stderr([1e200, 3e200]).stderr == pytest.approx(1e200)
    assert math.isnan(mean_with_stderr([1.0]).stderr)


@pytest.mark.parametrize("groups", [None, np.repeat(np.arange(50), 2)])
def test_the_standard_error_is_the_spread_of_means(groups):
    """400 draws of 100 weighted losses, alike within groups: to four of its standard errors."""
    rng, means, errors = np.random.default_rng(1), [], []
    weights = rng.uniform(0.2, 2.0, 100)
    for _ in range(400):
        shared = 0 if groups is None else rng.normal(size=50)[groups]
        mean, stderr = mean_with_stderr(rng.normal(size=100) + shared, weights, groups)
        means.append(mean)
        errors.append(stderr**2)
    assert np.sqrt(np.mean(errors)) == pytest.approx(np.std(means), rel=4 / 800**0.5)


def test_one_heavy_row_is_one_row():
    heavy = np.array([1000.0] + [1.0] * 199)
    assert effective_count(heavy) == pytest.approx(1199**2 / (1e6 + 199))
    assert effective_count(np.ones(10), np.arange(10) // 2) == pytest.approx(5)
    assert effective_count(n=7) == 7


def test_shares_of_rows_that_agree_and_of_groups():
    """Agresti and Coull: two rows of each kind are added."""
    value, stderr = share_with_stderr(np.ones(80))
    assert (value, stderr) == (1.0, pytest.approx(math.sqrt(82 / 84 * 2 / 84 / 84)))
    right = np.arange(40) % 4 > 0
    share, alone = share_with_stderr(right)
    assert (share, alone) == pytest.approx((0.75, math.sqrt(32 / 44 * 12 / 44 / 44)))
    together = share_with_stderr(right, groups=np.arange(40) % 4 // 2).stderr
    assert together > 2 * alone
    assert share_with_stderr(right, expected=np.full(40, 0.6)).value == pytest.approx(0.6)


def test_a_share_of_one_group_is_that_of_one_unit():
    """Nothing is known of how groups differ; several groups that agree are as many rows."""
    right = np.array([1.0, 1.0, 0.0, 0.0])
    one = share_with_stderr(right, None, np.zeros(4, int))
    assert one == pytest.approx((0.5, math.sqrt(0.25 / 5)))
    assert share_with_stderr(right, None, np.array([0, 1, 0, 1])).stderr == pytest.approx(
        share_with_stderr(right).stderr
    )
