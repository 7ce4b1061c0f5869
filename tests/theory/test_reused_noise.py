import numpy as np
import torch

import decoupled_descent as dd
from decoupled_descent.theory.gaussian import Normals
from decoupled_descent.theory.populations import sampled_population
from decoupled_descent.theory.reused_noise import ReusedNoise


def test_products_with_the_noise_are_those_of_one_matrix():
    """α ⟨u, Zv⟩ = (Zᵀu, v) for everything that was ever asked."""
    mixture = dd.mixtures.xor(4)
    normals = Normals(256, 8, 0, auxiliary=2)
    population = sampled_population(mixture, normals)
    noise = ReusedNoise(population, normals, 1.7, torch.ones(20).double(), 12)
    generator, weights = torch.Generator().manual_seed(0), population.weights
    asked, images, rows, pulled = [], [], [], []
    for t in range(4):
        x = torch.randn(2, 20, generator=generator).double()
        x[:, 4 + 2 * t :] = 0  # what is fresh has not been used before
        u = torch.randn(2, 256, generator=generator).double()
        asked.append(x)
        images.append(noise.multiply(x))
        fresh = torch.zeros(2, 20).double()
        fresh[0, 4 + 2 * t], fresh[1, 5 + 2 * t] = 1, 1
        rows.append(u + images[-1].sin())
        pulled.append(noise.multiply_transposed(rows[-1], fresh))
    asked, images, rows, pulled = (torch.cat(part) for part in (asked, images, rows, pulled))
    np.testing.assert_allclose(noise.multiply(asked), images, atol=1e-10)
    np.testing.assert_allclose(1.7 * (rows * weights) @ images.T, pulled @ asked.T, atol=1e-10)
