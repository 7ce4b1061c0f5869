"""The bias of folds of fewer rows, on a model where everything can be computed."""

from __future__ import annotations

import pytest
import torch

from decoupled_descent.evaluation.folds import FoldAssignment, assign_folds
from decoupled_descent.networks.folds.sample_size_bias import expected_bias, size_ratio


def test_ratio_of_folds_and_of_time():
    assert size_ratio(FoldAssignment(torch.arange(100) % 10, 10)) == pytest.approx(10 / 9)
    found = assign_folds(60, 2, time=range(60))  # 20 and 40 rows of 60
    assert size_ratio(found) == pytest.approx((3 + 1.5) / 2)


def test_never_below_zero():
    assert expected_bias(0.5, 0.6, 1.1) == 0.0
    assert expected_bias(1.0, 0.0, 20 / 19) == pytest.approx(1 / 39)


def test_least_squares():
    """Linear regression, n = 100, p = 10, K = 5: the bias is that of theory and of experiment.

    The error on new rows is σ²(1 + p/(m − p − 1)) for Gaussian rows, so the bias is known exactly.
    The formula is its leading order in 1/m.
    """
    generator = torch.Generator().manual_seed(0)
    n, p, folds = 100, 10, torch.arange(100) % 5
    ratio, found = size_ratio(FoldAssignment(folds, 5)), []
    for _ in range(200):
        X = torch.randn(n, p, generator=generator, dtype=torch.float64)
        y = torch.randn(n, generator=generator, dtype=torch.float64)
        left_out = torch.empty(n, dtype=torch.float64)
        for k in range(5):
            at = folds == k
            left_out[at] = y[at] - X[at] @ torch.linalg.lstsq(X[~at], y[~at]).solution
        fitted = y - X @ torch.linalg.lstsq(X, y).solution
        errors = float(left_out.square().mean()), float(fitted.square().mean())
        found.append(expected_bias(*errors, ratio))
    exact = p / (80 - p - 1) - p / (n - p - 1)
    mean = float(torch.tensor(found).mean())
    assert exact == pytest.approx(0.0326, abs=1e-4)
    assert mean == pytest.approx(exact, rel=0.3)  # leading order: p/m is 1/8
