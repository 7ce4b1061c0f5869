import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoupled_descent.theory.gaussian import (
    BlockFactor,
    Normals,
    Paths,
    hermite_basis,
    hermite_rule,
    product_rule,
    psd_root,
)


@pytest.mark.parametrize("order", [1, 2, 8, 64, 128])
def test_hermite_rule_is_exact_up_to_its_degree(order):
    nodes, weights = hermite_rule(order)
    for power in range(0, min(2 * order, 16), 2):
        expected = math.prod(range(1, power, 2))
        assert float(weights @ nodes**power) == pytest.approx(expected, rel=1e-11)


def test_hermite_rule_refuses_order_zero():
    with pytest.raises(ValueError, match="order=0"):
        hermite_rule(0)


@pytest.mark.parametrize("width", [2, 3])
def test_product_rule_keeps_moments_without_its_corners(width):
    nodes, weights = product_rule(width, 24)
    assert len(nodes) < 24**width
    assert float(weights.sum()) == pytest.approx(1, abs=1e-14)
    second = nodes.T @ (weights.unsqueeze(1) * nodes)
    np.testing.assert_allclose(second, np.eye(width), atol=1e-10)
    assert float(weights @ (nodes[:, 0] ** 4 * nodes[:, 1] ** 2)) == pytest.approx(3, abs=1e-8)


def test_hermite_basis_is_orthonormal():
    nodes, weights = hermite_rule(64)
    basis = hermite_basis(nodes, 64)
    np.testing.assert_allclose(basis.T @ (weights.unsqueeze(1) * basis), np.eye(64), atol=1e-10)


def test_psd_root_of_a_singular_matrix():
    matrix = torch.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=torch.float64)
    root = psd_root(matrix)
    np.testing.assert_allclose(root @ root, matrix, atol=1e-12)


def extended(gram, width):
    factor = BlockFactor(width, len(gram) // width)
    for stop in range(width, len(gram) + 1, width):
        factor.extend(gram[stop - width : stop, :stop])
    return factor


@given(
    st.integers(1, 3), st.integers(1, 6), st.integers(1, 8), st.integers(0, 2**31), st.floats(-3, 3)
)
@settings(max_examples=40, deadline=None)
def test_factor_reproduces_any_gram_matrix(width, blocks, rank, seed, exponent):
    """Of full rank or not, and at any scale."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(width * blocks, rank, generator=generator, dtype=torch.float64)
    gram = 10**exponent * rows @ rows.T
    factor = extended(gram, width)
    rebuilt = factor.triangle @ factor.triangle.T
    np.testing.assert_allclose(rebuilt, gram, rtol=0, atol=1e-10 * float(gram.abs().max()))
    assert float(factor.triangle.triu(1).abs().max()) == 0


def smooth(size=150):
    times = torch.linspace(0, 3, size, dtype=torch.float64)
    return torch.exp(-0.5 * (times.unsqueeze(0) - times.unsqueeze(1)) ** 2)


def test_factor_of_a_smooth_process_whose_matrix_is_numerically_singular():
    gram = smooth()
    assert torch.linalg.eigvalsh(gram)[0] < 1e-14
    factor = extended(gram, 1)
    np.testing.assert_allclose(factor.triangle @ factor.triangle.T, gram, rtol=0, atol=1e-10)


def test_paths_have_the_covariance_and_few_normals():
    gram = smooth(60)
    paths = Paths(1, 60, Normals(1024, directions=20, seed=0))
    rows = []
    for t in range(60):
        own = torch.zeros(1, t + 1, dtype=torch.float64)
        own[0, t] = 1.0
        rows.append(paths.combine(own, gram[t : t + 1, : t + 1]))
    samples = torch.cat(rows)
    assert paths.rank < 35
    np.testing.assert_allclose(samples @ samples.T / 1024, gram, rtol=0, atol=1e-5)


def test_paths_of_repeated_blocks_repeat():
    gram = torch.ones(5, 5, dtype=torch.float64)
    paths = Paths(1, 5, Normals(64, directions=2, seed=0))
    rows = [
        paths.combine(torch.eye(5).double()[t : t + 1, : t + 1], gram[t : t + 1, : t + 1])
        for t in range(5)
    ]
    assert paths.rank == 1
    for row in rows[1:]:
        np.testing.assert_allclose(row, rows[0], atol=1e-4)


def test_factor_of_zero_is_zero():
    factor = extended(torch.zeros(4, 4, dtype=torch.float64), 2)
    assert float(factor.triangle.abs().max()) < 1e-90


def test_normals_have_exact_moments_beyond_the_sobol_directions():
    normals = Normals(512, directions=3, seed=1)
    z = normals.columns(40)
    np.testing.assert_allclose(z @ z.T / 512, np.eye(40), atol=1e-12)
    np.testing.assert_allclose(z.mean(1), 0, atol=1e-13)
    assert float(z.pow(4).mean()) == pytest.approx(3, abs=0.15)
    np.testing.assert_array_equal(z[:20], Normals(512, 3, seed=1).columns(20))
    assert (z[:3] - Normals(512, 3, seed=2).columns(3)).abs().max() > 1


@pytest.mark.parametrize("paths", [2, 100, 0])
def test_paths_must_be_a_power_of_two(paths):
    with pytest.raises(ValueError, match=f"paths={paths} must be a power of two"):
        Normals(paths, 1, seed=0)
