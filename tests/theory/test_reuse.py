"""The limit of gradient descent against mean-field theory written out, and against runs."""

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.datasets.responses import Noisy
from tests.oracles import mean_field as oracle

from . import problems
from .test_recursion import Momentum

LINEAR = dd.Objective(dd.heads.Linear(), "squared")


@pytest.mark.parametrize("ratio", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("damping", [1.0, 0.9])
def test_signalless_errors_are_integrals_over_the_spectrum(ratio, damping):
    """θ_t is a polynomial of XᵀX, whose eigenvalues have the Marchenko–Pastur law."""
    lr, steps = 0.1, 50
    low, high = (1 - ratio**0.5) ** 2, (1 + ratio**0.5) ** 2
    angle = (np.arange(4000) + 0.5) / 4000 * np.pi
    values = low + (high - low) * (1 - np.cos(angle)) / 2
    weights = (high - low) ** 2 * np.sin(angle) ** 2 / (8 * np.pi * values) * np.pi / 4000
    values, weights = np.append(values, 0.0), np.append(weights, max(0.0, 1 - ratio))
    np.testing.assert_allclose(weights.sum(), 1, atol=1e-12)
    factors = np.stack([(damping - lr * values) ** (2 * t) for t in range(steps)])
    algorithm = dd.GradientDescent(lr, damping)
    theory = dd.StateEvolution(
        dd.mixtures.signalless(4), LINEAR, algorithm, ratio, paths=512, randomisations=2
    )
    result = theory.run(steps)
    np.testing.assert_allclose(result.test_error, factors @ weights / 2, atol=1e-12)
    np.testing.assert_allclose(
        result.train_error, factors @ (weights * values) / ratio / 2, atol=1e-12
    )
    assert float(result.stderr["train_error"].max()) < 1e-12


@pytest.mark.parametrize("spectrum", [[1.0], [0.1, 0.5, 2.0]])
def test_squared_loss_is_mean_field_theory_to_rounding(spectrum):
    """Two modes with signal, noisy responses, rows of another covariance, damping."""
    law = oracle.Law(
        np.array([[2.0, -0.5], [-0.5, 1.0]]),
        np.array([0.3, 0.7]),
        np.array([0.4, -1.0]),
        np.zeros(2),
    )
    mixture = dd.theory.MixtureLimit(law.chi.tolist(), [0.3, 0.7], [0.4, -1.0])
    expected = oracle.squared_loss(law, 1.5, 0.95, 0.2, 12, np.array(spectrum))
    given = None if spectrum == [1.0] else torch.tensor(spectrum, dtype=torch.float64)
    algorithm = dd.GradientDescent(0.2, 0.95)
    theory = dd.StateEvolution(mixture, LINEAR, algorithm, 1.5, given, paths=512, randomisations=2)
    result = theory.run(12)
    np.testing.assert_allclose(result.train_error, expected.train, rtol=1e-10)
    np.testing.assert_allclose(result.test_error, expected.test, rtol=1e-10)
    np.testing.assert_allclose(result.alignment[:, :, 0], expected.m, atol=1e-10)
    np.testing.assert_allclose(result.omega[:, :, 0, 0], expected.omega, atol=1e-10)


def test_gaussian_responses_only_add_the_error_of_their_samples():
    mixture = dd.theory.MixtureLimit([[2.0]], [1.0], [Noisy(0.5, 1.0)])
    law = oracle.Law(np.array([[2.0]]), np.ones(1), np.array([0.5]), np.ones(1))
    expected = oracle.squared_loss(law, 1.0, 1.0, 0.2, 10, np.ones(1))
    result = dd.StateEvolution(mixture, LINEAR, dd.GradientDescent(0.2), paths=4096).run(10)
    np.testing.assert_allclose(result.train_error, expected.train, rtol=1e-3)


def test_logistic_loss_is_mean_field_theory():
    """Path-wise responses by a product rule, against paths that never compute one."""
    mixture, objective, _, _ = problems.flipped(10)
    modes = [(j, float(y), 0.5 * (0.9 if y == j else 0.1)) for j in (0, 1) for y in (0, 1)]

    def sigmoid(h):
        return 1 / (1 + np.exp(-h))

    m1, omega1, steps = np.array([-0.3, 0.3]), 1.2, 4
    expected = oracle.by_quadrature(
        lambda h, y: sigmoid(h) - y,
        lambda h, y: sigmoid(h) * sigmoid(-h),
        lambda h, y: np.logaddexp(0, h) - y * h,
        modes,
        mixture.overlaps.numpy(),
        1.3,
        m1,
        omega1,
        0.6,
        steps,
        18,
    )
    theory = dd.StateEvolution(mixture, objective, dd.GradientDescent(0.6), 1.3, paths=8192)
    result = theory.run(
        steps, alignment=torch.tensor(m1)[:, None], overlap=torch.tensor([[omega1]])
    )
    for name, values in (("train_error", expected.train), ("test_error", expected.test)):
        gap = np.abs(getattr(result, name).numpy() - values)
        assert (gap < 5 * result.stderr[name].numpy() + 1e-7).all(), name
        assert float(result.stderr[name].max()) < 1e-4
    assert float((result.train_error[-1] - result.test_error[-1]).abs()) > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("problem", [problems.flipped, problems.four_modes])
def test_runs_have_the_predicted_errors(problem):
    n, steps, runs = 1500, 25, 6
    mixture, objective, _, theta = problem(n)
    algorithm = dd.GradientDescent(0.3, head_lr=0.2)
    predicted = dd.StateEvolution(mixture, objective, algorithm, paths=4096).run(steps, theta)
    train, test = [], []
    for seed in range(runs):
        X, y = mixture.sample(n, seed=seed)
        seen = []
        run = dd.fit(X, y, objective, algorithm, steps, theta, callbacks=[seen.append])
        train.append(run.train_error.double())
        test.append(
            [
                float(
                    dd.theory.population_test_error(mixture, objective, s.state.theta, s.state.head)
                )
                for s in (seen[8], seen[-1])
            ]
        )
    train, test = torch.stack(train), torch.tensor(test)
    gap = (train.mean(0) - predicted.train_error).abs()
    assert bool((gap < 4 * train.std(0) / runs**0.5).all())
    gap = (test.mean(0) - predicted.test_error[[8, -1]]).abs()
    assert bool((gap < 4 * test.std(0) / runs**0.5 + 1e-3).all())
    assert float(predicted.test_error[-1] - predicted.train_error[-1]) > 0.05


def test_rules_move_theta_as_in_training():
    """Momentum on a linear problem: four steps by hand from the moments of XᵀX at n = d."""
    moments = [1.0, 1.0, 2.0, 5.0, 14.0]  # of the Marchenko–Pastur law with ratio one
    theory = dd.StateEvolution(
        dd.mixtures.signalless(4),
        LINEAR,
        dd.GradientDescent(0.1, rule=Momentum(0.1, 0.5)),
        paths=64,
        randomisations=2,
    )
    result = theory.run(3).test_error
    # θ_2 = 1 − 0.1 x, θ_3 = θ_2 − 0.1 (0.5 x + x θ_2) = 1 − 0.25 x + 0.01 x²
    polynomial = np.convolve([1, -0.25, 0.01], [1, -0.25, 0.01])
    np.testing.assert_allclose(float(result[2]), polynomial @ moments / 2, rtol=1e-12)


def test_fluctuations_along_the_means_are_those_of_runs():
    """The variance of the second iterate's alignment: by hand, in the limit and in runs."""
    n, ratio, lr, repeats = 240, 1.5, 0.3, 100
    d = round(n / ratio)
    mixture = dd.mixtures.flipped_classes(d, snr=1.2, flip=0.2)
    theta = torch.randn(1, d, generator=torch.Generator().manual_seed(3)).double()
    v = mixture.means[0]
    theta = theta - (theta @ v / v.square().sum()) * v  # no signal at the start
    algorithm = dd.GradientDescent(lr)
    theory = dd.StateEvolution(mixture, LINEAR, algorithm, ratio, paths=64, randomisations=repeats)
    result = theory.run(2, theta, rows=n)
    predicted = repeats * float(result.stderr["alignment"][1, 0, 0]) ** 2
    # −η (vᵀZᵀĥ/d + α χ mean(±ĥ)), with ĥ = h − y, E ĥ² = Ω + 1 and E ±ĥ = −(1 − 2 · flip)
    chi, sigma = float(v.square().mean()), float(theta.square().mean()) + 1
    by_hand = lr**2 * (ratio * chi * sigma / d + ratio**2 * chi**2 * (sigma - 0.36) / n)
    moved = []
    for seed in range(repeats):
        X, y = mixture.sample(n, seed, torch.float64)
        moved.append(float(-lr * (X.T @ (X @ theta[0] - y)) @ v / d))
    share = 4 * (2 / repeats) ** 0.5
    assert abs(predicted / by_hand - 1) < share
    assert abs(np.var(moved) / by_hand - 1) < share
    without = dd.StateEvolution(mixture, LINEAR, algorithm, ratio, paths=64, randomisations=2).run(
        2, theta
    )
    assert float(without.stderr["alignment"].max()) < 1e-10


def test_what_is_not_possible_is_refused():
    corrected = dd.StateEvolution(dd.mixtures.xor(4), LINEAR, dd.DecoupledDescent(0.1))
    with pytest.raises(ValueError, match="rows=10: fluctuations are known for GradientDescent"):
        corrected.run(3, overlap=[[1.0]], rows=10)
    mixture, algorithm = dd.mixtures.signalless(4), dd.GradientDescent(0.1)
    with pytest.raises(ValueError, match="method='quadrature' needs"):
        dd.StateEvolution(mixture, LINEAR, algorithm, method="quadrature").run(3)
    with pytest.raises(ValueError, match="paths=8 are too few"):
        dd.StateEvolution(mixture, LINEAR, algorithm, paths=8).run(30)
    theory = dd.StateEvolution(mixture, LINEAR, algorithm, paths=64)
    with pytest.raises(ValueError, match="without a correction"):
        dd.theory.taylor_terms(theory.run(3))
    with pytest.raises(ValueError, match="without a correction"):
        dd.theory.fixed_point(theory)
