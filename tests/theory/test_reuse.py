"""The limit of gradient descent against mean-field theory written out, and against runs."""

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.datasets.responses import Noisy
from tests.oracles import mean_field as oracle
from tests.problems import normal

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


SPARSE_D = 400


def sparse_classes():
    """Two classes whose means differ in a tenth of the columns."""
    mean = torch.zeros(SPARSE_D, dtype=torch.float64)
    mean[:40] = 8 * normal(40, seed=2)
    return dd.GaussianMixture(torch.stack([mean, -mean]), [0.5, 0.5], responses=[0.0, 1.0])


def hinge(outputs, y):
    return (1 - (2 * y - 1) * outputs.reshape(y.shape)).clamp(min=0)


LOGISTIC = dd.Objective(dd.heads.Linear(), "logistic")
HINGE = dd.Objective(dd.heads.Linear(), hinge, curvature="smoothed")
MAPPED = {
    "ista": (LOGISTIC, {"lr": 0.5, "prox": dd.prox.SoftThreshold(0.15)}),
    "fista": (LOGISTIC, {"lr": 0.3, "prox": dd.prox.SoftThreshold(0.1), "accelerated": True}),
    "box": (LOGISTIC, {"lr": 0.5, "prox": dd.prox.Box(-0.5, 0.5)}),
    "ista, batches": (
        LOGISTIC,
        {"lr": 0.3, "prox": dd.prox.SoftThreshold(0.15), "batch_size": 100},
    ),
    "hinge": (HINGE, {"lr": 0.1}),
    "hinge, box": (HINGE, {"lr": 0.2, "prox": dd.prox.Box(-0.5, 0.5)}),
}


@pytest.mark.parametrize("name", MAPPED)
def test_maps_of_theta_and_kinks_against_runs(name):
    """Sixteen independent runs; z at all steps together, which depend on each other."""
    objective, options = MAPPED[name]
    mixture, algorithm, theta = sparse_classes(), dd.GradientDescent(**options), normal(1, SPARSE_D)
    limit = dd.StateEvolution(mixture, objective, algorithm, paths=2048, randomisations=4)
    limit = limit.run(12, theta)
    errors = []
    for seed in range(16):
        rows = mixture.sample(SPARSE_D, seed, torch.float64)
        test = mixture.sample(4000, 100 + seed, torch.float64)
        run = dd.fit(*rows, objective, algorithm, 12, theta=theta, test=test)
        errors.append(torch.stack([run.train_error, run.test_error]).double())
    expected = torch.stack([limit.train_error, limit.test_error])
    sampled = torch.stack([limit.stderr["train_error"], limit.stderr["test_error"]])
    each = torch.stack(errors)
    stderr = (each.var(0) / 16 + sampled.square()).sqrt()
    z = ((each.mean(0) - expected) / stderr)[:, 1:]
    assert float(z.abs().max()) < 4.5
    assert float(expected[1, -1] - expected[0, -1]) > 5 * float(stderr[:, -1].max())


def test_a_ridge_map_is_damping():
    """θ ↦ θ/(1 + ηλ) is linear: coordinates without sampling say the same."""
    theta, mixture = normal(1, SPARSE_D), sparse_classes()
    mapped = dd.GradientDescent(0.4, prox=dd.prox.Ridge(0.25))
    linear = dd.GradientDescent(0.4 / 1.1, 1 / 1.1)
    options = {"paths": 1024, "randomisations": 4}
    ours = dd.StateEvolution(mixture, LINEAR, mapped, **options).run(10, theta)
    theirs = dd.StateEvolution(mixture, LINEAR, linear, **options).run(10, theta)
    np.testing.assert_allclose(ours.train_error, theirs.train_error, rtol=1e-9)
    np.testing.assert_allclose(ours.test_error, theirs.test_error, rtol=1e-9)


def test_ista_ends_at_the_lasso_of_bayati_and_montanari():
    """1008.2581: τ² = σ² + E η(τZ; aτ)²/δ and λ = aτ (1 − P(|Z| > a)/δ), without a signal."""
    from scipy import optimize, stats

    ratio, sigma, penalty = 2.0, 1.0, 0.3

    def level(a):
        squares = 2 * ((1 + a * a) * stats.norm.sf(a) - a * stats.norm.pdf(a))
        return sigma / np.sqrt(1 - squares / ratio)

    def gap(a):
        slack = 1 - 2 * stats.norm.sf(a) / ratio
        return a * level(a) * slack - penalty / ratio**0.5

    a = optimize.brentq(gap, 0.01, 5)
    tau, slack = level(a), 1 - 2 * stats.norm.sf(a) / ratio
    mixture = dd.GaussianMixture(torch.zeros(1, 64), [1.0], responses=[Noisy(0.0, sigma)])
    algorithm = dd.GradientDescent(0.3, prox=dd.prox.SoftThreshold(penalty))
    theory = dd.StateEvolution(mixture, LINEAR, algorithm, ratio, paths=4096, randomisations=4)
    result = theory.run(50, torch.zeros(1, 64))
    for name, expected in (("test_error", tau**2 / 2), ("train_error", (tau * slack) ** 2 / 2)):
        value, stderr = float(getattr(result, name)[-1]), float(result.stderr[name][-1])
        assert abs(value - expected) < 5 * stderr + 1e-6
        assert stderr < 2e-3 * expected


def test_a_map_of_theta_needs_its_entries():
    algorithm = dd.GradientDescent(0.4, prox=dd.prox.SoftThreshold(0.1))
    limits = dd.theory.MixtureLimit([[1.0]], [1.0], [0.0])
    with pytest.raises(ValueError, match="pass a GaussianMixture instead of a MixtureLimit"):
        dd.StateEvolution(limits, LINEAR, algorithm).run(3)
    theory = dd.StateEvolution(sparse_classes(), LINEAR, algorithm)
    with pytest.raises(ValueError, match="pass theta instead of alignment and overlap"):
        theory.run(3, overlap=torch.eye(1))
    with pytest.raises(ValueError, match="and leave rows and covariance out"):
        theory.run(3, rows=400)
    with pytest.raises(ValueError, match="no batch_size and no prox"):
        dd.theory.finite_size(theory, 100, 3)
    mixed = dd.GradientDescent(0.4, prox=dd.prox.Entrywise(lambda v, rate: v - v.mean()))
    with pytest.raises(ValueError, match="is not separable"):
        dd.StateEvolution(sparse_classes(), LINEAR, mixed)
