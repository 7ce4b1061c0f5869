import math

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.theory.gaussian import Normals
from decoupled_descent.theory.populations import (
    quadrature_nodes,
    sampled_nodes,
    sampled_population,
)


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
        h = nodes.preactivations(alignment, overlap)
        return float(nodes.population.weights @ torch.tanh(h[:, 0] * h[:, 1] + h[:, 0]))

    exact = mean(quadrature_nodes(mixture, 2, 64))
    drawn = [mean(sampled_nodes(mixture, 2, 4096, seed)) for seed in range(8)]
    assert abs(np.mean(drawn) - exact) < 4 * np.std(drawn, ddof=1) / 8**0.5 + 1e-6
    assert np.std(drawn) < 0.2 / 4096**0.5  # plain sampling: the function has a spread near 0.6


def test_responses_and_later_normals_are_independent():
    """Both beyond the Sobol points, both plain draws of one randomisation."""

    def drawn(count, generator):
        return torch.randn(count, generator=generator, dtype=torch.float64)

    mixture = dd.theory.MixtureLimit([[0.0]], [1.0], [drawn])
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
