"""Mini-batches in the limit, against shuffled rows and against mean-field theory."""

from itertools import islice, product

import numpy as np
import torch

import decoupled_descent as dd
from decoupled_descent.theory.batches import batch_masks, batch_sizes, path_factors
from decoupled_descent.theory.gaussian import Normals
from decoupled_descent.theory.populations import sampled_population
from tests.oracles import mean_field as oracle


def test_sizes_of_batches():
    assert batch_sizes(10, 4) == [4, 4, 2]
    assert batch_sizes(10, 40) == [10]


def test_factors_of_rows_in_batches():
    generator, drawn = torch.Generator().manual_seed(0), []
    for _ in range(4000):  # three batches of ten rows, twice; the factors of row 0
        order = torch.stack([torch.randperm(10, generator=generator) for _ in range(2)])
        place = torch.cat([(order < 4), (order >= 4) & (order < 8), order >= 8])[:, 0].double()
        drawn.append(place[[0, 2, 4, 1, 3, 5]] * 10 / torch.tensor([4, 4, 2, 4, 4, 2]))
    drawn = torch.stack(drawn)
    products = drawn.unsqueeze(2) * drawn.unsqueeze(1)
    wanted = batch_masks([4, 4, 2], 10, 6)
    assert ((products.mean(0) - wanted).abs() <= 4 * products.std(0) / 4000**0.5 + 1e-12).all()


def test_paths_are_dealt_out_like_rows():
    """Every batch has its share of every mode, and E[s_r s_t] is that of rows."""
    population = sampled_population(dd.mixtures.xor(4), Normals(4096, 1, 0, auxiliary=2))
    generator, sizes = torch.Generator().manual_seed(0), batch_sizes(10, 4)
    batches = path_factors(sizes, 10, population, generator)
    factors = torch.stack(list(islice(batches, 6)))
    shares = population.by_mode(factors.T)
    np.testing.assert_allclose(shares, population.by_mode(torch.ones(4096, 6).double()), rtol=0.01)
    result = (factors * population.weights) @ factors.T
    wanted = batch_masks(sizes, 10, 6)
    apart = wanted == 0
    assert torch.equal(result[apart], wanted[apart])
    share = 4 * 4096**-0.5 * (10 / min(sizes))  # of a mean of products at most (n/|B|)²
    np.testing.assert_allclose(result, wanted, atol=share)


def test_gradient_descent_in_batches_is_mean_field_theory():
    """Two batches, three passes, two modes, damping: all eight ways to be in a batch."""
    law = oracle.Law(
        np.array([[2.0, -0.5], [-0.5, 1.0]]),
        np.array([0.3, 0.7]),
        np.array([0.4, -1.0]),
        np.zeros(2),
    )
    halves = np.array([[2.0, 0.0], [0.0, 2.0]])
    factors = np.array([np.concatenate([*ways, [1.0]]) for ways in product(halves, repeat=3)])
    expected = oracle.squared_loss(law, 1.5, 0.95, 0.1, 7, np.ones(1), factors)
    means = 10 * torch.from_numpy(np.linalg.cholesky(law.chi)) @ torch.eye(2, 100).double()
    mixture = dd.GaussianMixture(means, [0.3, 0.7], [0.4, -1.0])
    objective = dd.Objective(dd.heads.Linear(), "squared")
    algorithm = dd.GradientDescent(0.1, 0.95, batch_size=75)
    result = dd.StateEvolution(mixture, objective, algorithm, 1.5, paths=4096).run(4)
    for name, values in (("train_error", expected.train), ("test_error", expected.test)):
        stderr = result.stderr[name].numpy()
        assert (np.abs(getattr(result, name).numpy() - values[::2]) < 5 * stderr + 1e-10).all(), (
            name
        )
        assert (stderr < 0.003 * values[::2]).all(), name
    gap = np.abs(result.alignment[:, :, 0].numpy() - expected.m[::2])
    assert (gap < 5 * result.stderr["alignment"][:, :, 0].numpy() + 1e-10).all()


def test_runs_in_batches_have_the_predicted_errors():
    n, passes, runs = 400, 4, 12
    mixture = dd.mixtures.flipped_classes(n, snr=1.5, labels=(0.0, 1.0))
    objective = dd.Objective(dd.heads.Linear(intercept=True), "logistic")
    theta = torch.randn(1, n, generator=torch.Generator().manual_seed(0)).double()
    algorithm = dd.GradientDescent(0.2, 0.97, head_lr=0.1, batch_size=100)
    result = dd.StateEvolution(mixture, objective, algorithm, paths=1024).run(passes, theta)
    train = torch.stack(
        [
            dd.fit(
                *mixture.sample(n, seed=seed),
                objective,
                dd.GradientDescent(0.2, 0.97, head_lr=0.1, batch_size=100, batch_seed=seed),
                passes,
                theta,
            ).train_error
            for seed in range(runs)
        ]
    ).double()
    gap = (train.mean(0) - result.train_error).abs()
    spread = (train.var(0) / runs + result.stderr["train_error"].square()).sqrt()
    assert bool((gap < 4 * spread).all())
    again = result.expect(lambda h, y, a: objective.losses(h, y, a), passes - 1)
    torch.testing.assert_close(float(again), float(result.train_error[-1]), rtol=1e-12, atol=0)
