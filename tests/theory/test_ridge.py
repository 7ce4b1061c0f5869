import math

import numpy as np
import pytest
import torch

from decoupled_descent.datasets.responses import Noisy
from decoupled_descent.theory.ridge import decompose, ridge_step, rotated, teacher
from tests.theory.ridge_oracle import ridge_limits


def limit_of(tau, means, p, ratio, ridge):
    tau, means, p = (torch.as_tensor(value, dtype=torch.float64) for value in (tau, means, p))
    return ridge_step(tau, lambda f: (means * f) @ means.T / len(f), p, ratio, ridge)


@pytest.mark.parametrize(("ratio", "ridge"), [(0.4, 0.2), (1.0, 1.0), (2.5, 0.3), (1.5, 30.0)])
def test_limits_of_a_step(ratio, ridge):
    """Closed forms for a, H and D against derivatives and a silent mode."""
    rng = np.random.default_rng(0)
    d, p = 50, np.array([0.2, 0.5, 0.3])
    tau, means = rng.exponential(size=d) + 0.05, 2 * rng.standard_normal((3, d))
    vector = rng.standard_normal(d)
    signal, root = rng.standard_normal((3, 2)), rng.standard_normal((4, 2))
    second = root.T @ root + signal.T @ (signal / p[:, None])
    result = limit_of(tau, means, p, ratio, ridge)
    expected = ridge_limits(tau, means, p, ratio, ridge, second, signal, vector)
    assert result.leverage == pytest.approx(expected.e / (1 + expected.e), rel=1e-10)
    np.testing.assert_allclose(result.align.numpy() @ signal, expected.alignment, rtol=1e-9)
    overlap = result.noise * second + signal.T @ result.signal.numpy() @ signal
    np.testing.assert_allclose(overlap, expected.overlap, rtol=1e-6)
    pull = (means * result.weights.numpy() * tau) @ vector / d
    np.testing.assert_allclose(pull @ result.start.numpy() @ signal, expected.cross, rtol=1e-9)


def test_a_large_ridge_tends_to_none_at_all():
    rng = np.random.default_rng(1)
    tau, means, p = rng.exponential(size=30), rng.standard_normal((2, 30)), [0.4, 0.6]
    large, limit = (limit_of(tau, means, p, 1.7, ridge) for ridge in (1e9, math.inf))
    for name in ("align", "noise", "signal", "start", "weights"):
        np.testing.assert_allclose(getattr(large, name), getattr(limit, name), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(limit.align, 1.7 * means @ means.T / 30, rtol=1e-12)
    assert limit.noise == pytest.approx(1.7 * np.mean(tau**2), rel=1e-12)


def test_decomposition_restores_the_covariance():
    root = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).double()
    covariance = root @ root.T  # of rank four
    spectrum, axes = decompose(covariance, 6)
    np.testing.assert_allclose((axes * spectrum) @ axes.T, covariance, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(rotated(covariance, axes), axes * spectrum, rtol=1e-9, atol=1e-12)
    assert float(spectrum.min()) >= 0
    assert decompose(None, 3)[0].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: decompose(torch.ones(5), 6), r"shape \(5,\).*\(6, 6\)"),
        (lambda: decompose(torch.ones(6, 5), None), r"shape \(6, 5\)"),
        (lambda: decompose(torch.zeros(6), 6), "from 0 to 0"),
        (lambda: decompose(-torch.ones(6), 6), "from -1 to -1"),
        (lambda: decompose(torch.tensor([1.0, math.nan]), 2), "from nan to nan"),
        (lambda: decompose(-torch.eye(6), 6), "semi-definite"),
        (lambda: teacher(torch.zeros(3), lambda s: Noisy(s, 1.0)), "positive and finite"),
        (lambda: teacher(torch.ones(3, 1), lambda s: Noisy(s, 1.0)), "beta has shape"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(attempt, message):
    with pytest.raises(ValueError, match=message) as refusal:
        attempt()
    assert "\n" not in str(refusal.value)


def test_decoupled_descent_is_the_case_of_white_rows_without_ridge():
    """Definition "ddState": K = αχ, a = α, H = α²χ, D = αI."""
    rng = np.random.default_rng(2)
    means = rng.standard_normal((3, 40))
    chi, alpha = torch.from_numpy(means @ means.T / 40), 1.7
    for spectrum in (torch.ones(1).double(), torch.ones(40).double()):
        weights = torch.tensor([0.2, 0.5, 0.3]).double()
        result = ridge_step(spectrum, lambda f: chi * f.mean(), weights, alpha, math.inf)
        np.testing.assert_allclose(result.align, alpha * chi, rtol=1e-12)
        np.testing.assert_allclose(result.signal, alpha**2 * chi, rtol=1e-12)
        np.testing.assert_allclose(result.start, alpha * np.eye(3), rtol=1e-12)
        assert result.noise == pytest.approx(alpha, rel=1e-12)
        assert result.leverage == 0
