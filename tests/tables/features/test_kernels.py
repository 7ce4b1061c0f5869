"""Kernels and distances against scikit-learn and literal formulas."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist, squareform
from sklearn.gaussian_process.kernels import Matern
from sklearn.metrics.pairwise import (
    laplacian_kernel,
    linear_kernel,
    polynomial_kernel,
    rbf_kernel,
)

from decoupled_descent.tables.features.kernels import (
    KERNELS,
    Geometry,
    Units,
    check_symmetric,
    own_kernel,
)


def rows(n=30, d=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=generator, dtype=torch.float64)


def mean_distances(A, weights):
    """Means over all pairs of rows, a row with itself included, literally."""
    share = np.outer(weights, weights) / weights.sum() ** 2
    squared = (share * squareform(pdist(A, "sqeuclidean"))).sum()
    return squared, (share * squareform(pdist(A, "cityblock"))).sum()


def naive_arccos(A, B, mean_norm, scale):
    result = np.empty((len(A), len(B)))
    for i, a in enumerate(A):
        for j, b in enumerate(B):
            u = np.append(a / math.sqrt(mean_norm), scale)
            v = np.append(b / math.sqrt(mean_norm), scale)
            size = np.linalg.norm(u) * np.linalg.norm(v)
            angle = math.acos(np.clip(u @ v / size, -1, 1))
            part = math.sin(angle) + (math.pi - angle) * math.cos(angle)
            result[i, j] = size * part / math.pi
    return result


def naive(kind, A, B, squared, l1, s):
    norm = squared / 2
    if kind == "linear":
        return linear_kernel(A, B) / norm
    if kind == "rbf":
        return rbf_kernel(A, B, gamma=1 / (2 * s**2 * squared))
    if kind == "matern":
        return Matern(s * math.sqrt(squared), nu=1.5)(A, B)
    if kind == "laplace":
        return Matern(s * math.sqrt(squared), nu=0.5)(A, B)
    if kind == "laplace1":
        return laplacian_kernel(A, B, gamma=1 / (s * l1))
    if kind == "poly2":
        return polynomial_kernel(A, B, degree=2, gamma=1 / norm, coef0=s**2) / (s**2 + 1) ** 2
    return naive_arccos(A, B, norm, s)


@pytest.mark.parametrize("scale", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("kind", KERNELS)
def test_kernels_are_those_of_other_libraries(kind, scale):
    A, B = rows(seed=1), rows(17, seed=2)
    squared, l1 = mean_distances(A.numpy(), np.ones(len(A)))
    geometry = Geometry(A, B, Units.of(A, torch.ones(len(A)).double()))
    expected = naive(kind, A.numpy(), B.numpy(), squared, l1, scale)
    np.testing.assert_allclose(KERNELS[kind](geometry, scale), expected, rtol=1e-10, atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000))
def test_units_are_weighted_means_over_pairs(seed):
    A = rows(seed=seed)
    A[3] = A[4]
    weights = np.random.default_rng(seed).integers(1, 5, len(A)).astype(float)
    result = Units.of(A, torch.from_numpy(weights))
    np.testing.assert_allclose(result, mean_distances(A.numpy(), weights), rtol=1e-12)


def test_equal_rows_have_distance_zero():
    A = 5 * rows(200, 50)
    A[100:] = A[:100]
    geometry = Geometry(A, A[:77].clone(), Units.of(A, torch.ones(200).double()))
    assert torch.equal(geometry.squared.diagonal(), torch.zeros(77).double())
    assert torch.equal(geometry.squared[100:177].diagonal(), torch.zeros(77).double())
    assert int((geometry.squared == 0).sum()) == 2 * 77


def test_kernels_share_distances():
    A = rows()
    geometry = Geometry(A, A, Units.of(A, torch.ones(len(A)).double()))
    first = {kind: KERNELS[kind](geometry, 2.0).clone() for kind in KERNELS}
    for kind in reversed(list(KERNELS)):  # no kernel spoils what the next one reads
        assert torch.equal(KERNELS[kind](geometry, 2.0), first[kind])
    assert geometry.squared is geometry.squared
    assert geometry.l1 is geometry.l1


@pytest.mark.parametrize("kind", KERNELS)
def test_kernels_are_positive_semidefinite(kind):
    A = rows(60, 3)
    geometry = Geometry(A, A, Units.of(A, torch.ones(len(A)).double()))
    values = torch.linalg.eigvalsh(KERNELS[kind](geometry, 1.0))
    assert float(values[0]) > -1e-12 * float(values[-1])


def test_own_kernel_may_return_an_array():
    A = rows()
    result = own_kernel(lambda A, B: rbf_kernel(A, B), A, A)
    assert torch.equal(result, torch.from_numpy(rbf_kernel(A, A)))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda A, B: A @ A.T, r"returned shape \(30, 30\) for 30 and 7 rows"),
        (lambda A, B: (A @ B.T).log(), "entries that are NaN"),
        (lambda A, B: None, "is None"),
    ],
)
def test_bad_results_of_own_kernels_are_refused(kernel, message):
    with pytest.raises(ValueError, match=message):
        own_kernel(kernel, rows(), rows(7))


def test_asymmetric_kernels_are_refused():
    def crooked(A, B):
        return A @ B.roll(1, 1).T

    with pytest.raises(ValueError, match="kernel crooked is not symmetric"):
        check_symmetric(crooked, crooked(rows(), rows()))
