import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import decoupled_descent as dd
from decoupled_descent.state_evolution.engines import HermiteEngine, PathEngine, Request
from decoupled_descent.state_evolution.gaussian import (
    BlockFactor,
    Normals,
    Paths,
    hermite_basis,
    hermite_rule,
    product_rule,
    psd_root,
)
from decoupled_descent.state_evolution.populations import (
    quadrature_nodes,
    sampled_nodes,
    sampled_population,
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


def test_sampled_population_has_the_mixture_exactly():
    mixture = dd.GaussianMixture(
        torch.zeros(3, 4),
        [0.7, 0.299, 0.001],
        [dd.responses.flipped(1.0, 0.0, 0.2), 5.0, dd.responses.Noisy(3.0, 0.5)],
    )
    population = sampled_population(mixture, Normals(256, 2, seed=0, auxiliary=2))
    ones = torch.ones(256, dtype=torch.float64)
    np.testing.assert_allclose(population.by_mode(ones), [0.7, 0.299, 0.001], atol=1e-15)
    zero = (population.responses == 0) & (population.modes == 0)
    assert float(population.weights[zero].sum()) == pytest.approx(0.14, abs=1e-15)
    noisy = population.responses[population.modes == 2]
    assert len(noisy) >= 2
    assert not np.isclose(noisy[0], 3.0)


def test_too_few_paths_for_the_modes():
    mixture = dd.mixtures.discrete_regression(4, modes=100)
    with pytest.raises(ValueError, match=r"paths=64 are too few for 100 .* at least 256"):
        sampled_population(mixture, Normals(64, 1, seed=0, auxiliary=2))


def test_sampled_and_quadrature_nodes_agree():
    mixture = dd.mixtures.xor(2, snr=1.0)
    alignment = torch.tensor([[1.0, 0.2], [-1.0, -0.2], [0.3, -0.5], [-0.3, 0.5]]).double()
    overlap = torch.tensor([[1.5, 0.4], [0.4, 0.8]]).double()

    def mean(nodes):
        h = nodes.place(alignment, overlap)
        return float(nodes.population.weights @ torch.tanh(h[:, 0] * h[:, 1] + h[:, 0]))

    exact = mean(quadrature_nodes(mixture, 2))
    drawn = [mean(sampled_nodes(mixture, 2, 4096, seed)) for seed in range(8)]
    assert abs(np.mean(drawn) - exact) < 4 * np.std(drawn, ddof=1) / 8**0.5 + 1e-6
    assert np.std(drawn) < 0.2 / 4096**0.5  # plain sampling: the function has a spread near 0.6


def test_responses_and_later_normals_are_independent():
    """Both beyond the Sobol points, both plain draws of one randomisation."""

    def drawn(count, generator):
        return torch.randn(count, generator=generator, dtype=torch.float64)

    mixture = dd.MixtureLimit([[0.0]], [1.0], [drawn])
    normals = Normals(4096, directions=1, seed=5, auxiliary=2)
    responses = sampled_population(mixture, normals).responses
    later = normals.columns(3)[1:]
    overlap = (later[:, :2048] @ responses[:2048]) / 2048
    assert (overlap.abs() < 4 / 2048**0.5).all()


def test_turned_nodes_are_nodes_of_the_same_law():
    nodes = quadrature_nodes(dd.mixtures.xor(2), 2, 20)
    turned = nodes.turned(torch.Generator().manual_seed(0))
    assert (turned.normals - nodes.normals).abs().max() > 0.5
    z, weights = turned.normals, turned.population.weights
    np.testing.assert_allclose(z.T @ (weights.unsqueeze(1) * z), np.eye(2), atol=1e-10)
    assert float(weights @ (z[:, 0] ** 4 * z[:, 1] ** 2)) == pytest.approx(3, abs=1e-8)


def test_grids_at_random_offsets():
    """L = 1, discrete responses: smooth averages are exact, jumps are told within the spacing."""
    mixture = dd.mixtures.flipped_classes(2, flip=0.3)
    for seed in range(5):
        nodes = sampled_nodes(mixture, 1, 4096, seed)
        z, weights = nodes.normals[:, 0], nodes.population.weights
        assert len(z) == 4096
        assert float(weights @ z**4) == pytest.approx(3, abs=1e-12)
        assert float(weights @ torch.exp(z)) == pytest.approx(math.exp(0.5), abs=1e-12)
        below = float(weights @ (z < 0.7).double())
        assert abs(below - 0.758036347776927) < 18 / 1024 * 0.4
        flipped = nodes.population.responses * (2 * nodes.population.modes - 1) < 0
        assert float(weights[flipped].sum()) == pytest.approx(0.3, abs=1e-14)


def test_mehler_sum_is_the_two_dimensional_expectation():
    """Against brute force, at correlations up to one."""
    mixture = dd.mixtures.flipped_classes(4, labels=(0.0, 1.0), flip=0.3)
    objective = dd.Objective(dd.heads.Linear(), "logistic")
    engine = HermiteEngine(mixture, objective, dd.DecoupledDescent(0.1), steps=3, order=80)
    omega = torch.tensor([[1.0, 0.9, -1.2], [0.9, 1.5, -1.08], [-1.2, -1.08, 1.44]]).double()
    alignment = torch.tensor([[[0.3], [-0.3]], [[0.5], [-0.2]], [[0.0], [1.0]]]).double()
    for t in range(3):
        row = omega[t : t + 1, : t + 1]
        column = engine.step(Request(row, alignment[t], {}, row, row)).correlation
    z, w = product_rule(2, 80)
    for r in range(3):
        joint = omega[[[r, r], [2, 2]], [[r, 2], [r, 2]]]
        G, total = z @ psd_root(joint), 0.0
        for j, (first, flip) in enumerate([(0.0, 0.3), (1.0, 0.3)]):
            for y, p in ((first, 1 - flip), (1 - first, flip)):
                g_r = torch.sigmoid(G[:, 0] + alignment[r, j, 0]) - y
                g_s = torch.sigmoid(G[:, 1] + alignment[2, j, 0]) - y
                total += 0.5 * p * float(w @ (g_r * g_s))
        assert float(column[r, 0]) == pytest.approx(total, abs=1e-8)


def test_path_engine_draws_the_covariance_it_is_given():
    """With g the identity, Σ is Ω itself, whatever the order of the blocks."""
    mixture = dd.mixtures.signalless(4)
    objective = dd.Objective(torch.nn.Identity(), "squared", width=2)
    algorithm = dd.DecoupledDescent(0.1, g=lambda h, y, a: h, f=lambda h, y, a: {})
    rows = torch.randn(6, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gram = rows @ rows.T / 9
    engine = PathEngine(mixture, objective, algorithm, 3, 2, 64, 0, None)
    for t in range(3):
        own = torch.zeros(2, 2 * (t + 1), dtype=torch.float64)
        own[:, -2:] = torch.eye(2)
        row = gram[2 * t : 2 * t + 2, : 2 * t + 2]
        seen = engine.step(Request(row, torch.zeros(1, 2).double(), {}, own, row))
        np.testing.assert_allclose(seen.correlation, row.T, atol=1e-10)
