import functools
import math

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.datasets.responses import Discrete, Noisy, flipped
from decoupled_descent.descent.noise import Covariance
from decoupled_descent.theory.populations import quadrature_nodes
from decoupled_descent.theory.ridge import teacher
from tests.theory.ridge_oracle import ridge_limits

LINEAR = dd.Objective(dd.heads.Linear(), "logistic")
RIDGES = (0.3, 1.0, math.inf)


def spectrum(kind, d):
    """Eigenvalues of mean one; "mixed" has every other one from a power law, the rest in pairs."""
    index = torch.arange(d)
    power = 1 / ((index.double() + 0.5) / d + 0.05)
    pairs = torch.where(index % 4 < 2, 0.2, 1.8).double()
    mixed = torch.where(index % 2 == 0, power, pairs * power.mean())
    tau = {"power": power, "two-point": pairs, "mixed": mixed}[kind]
    return tau / tau.mean()


def three_modes(tau, snr=2.5):
    """Means that differ in how they lie to the eigenvectors of C, and three directions to spare."""
    d = len(tau)
    drawn = torch.randn(d, 6, generator=torch.Generator().manual_seed(5)).double()
    axes = torch.linalg.qr(drawn).Q.T * d**0.5
    means = snr * torch.stack([axes[0], axes[1] * tau.sqrt(), axes[2] - axes[0] / 2])
    laws = [flipped(1.0, 0.0, 0.1), flipped(0.0, 1.0, 0.1), 1.0]
    return dd.GaussianMixture(means, [0.3, 0.4, 0.3], laws), axes[3:]


@pytest.mark.parametrize("ridge", [0.3, 3.0])
def test_squared_loss_is_ridge_regression(ridge):
    """q = −y at every step: θ_t = η₀^{t−1}θ_1 + s_t b with b fixed, so the error is a quadratic."""
    tau = spectrum("power", 60)
    mixture, spare = three_modes(tau)
    mixture = dd.GaussianMixture(mixture.means, mixture.weights, [1.0, -0.5, Noisy(2.0, 0.3)])
    theta = (spare[:1] + 0.3 * mixture.means[:1] + 0.2 * tau * mixture.means[2:]).clone()
    eta0, eta1, ratio, steps = 0.9, 0.2, 1.3, 12
    objective = dd.Objective(dd.heads.Linear(), "squared")
    algorithm = dd.OrthogonalDecoupledDescent(eta1, eta0, ridge=ridge, head_lr=0.0)
    evolution = dd.StateEvolution(mixture, objective, algorithm, ratio, tau).run(steps, theta)
    p, y, squares = mixture.weights.numpy(), np.array([1.0, -0.5, 2.0]), 0.3 * 0.3**2
    t, M, v = tau.numpy(), mixture.means.numpy(), theta[0].numpy()
    moments = np.array([[p @ y**2 + squares]]), (p * y)[:, None]
    b = ridge_limits(t, M, p, ratio, ridge, *moments, v)
    kept = eta0 ** np.arange(steps)
    moved = eta1 * (1 - kept) / (1 - eta0)
    alignment = np.outer(kept, M @ v / len(t)) + np.outer(moved, b.alignment[:, 0])
    crossed = 2 * kept * moved * b.cross[0] + moved**2 * b.overlap[0, 0]
    overlap = kept**2 * (v**2 * t).mean() + crossed
    error = (((alignment - y) ** 2) @ p + overlap + squares) / 2
    np.testing.assert_allclose(evolution.alignment[..., 0], alignment, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(evolution.overlap[:, 0, 0], overlap, rtol=1e-6)
    np.testing.assert_allclose(evolution.test_error, error, rtol=1e-6)


def test_white_rows_without_ridge_are_the_paper_s_general_family():
    """λ = ∞ and C = I: decoupled descent along ∇Ψ − hJ̄ᵀ, of which StateEvolution knows."""
    mixture, spare = three_modes(torch.ones(80).double())
    rules = [quadrature_nodes(mixture, 1, order).population.weights for order in (64, 65)]
    theta = spare[:1] + 0.2 * mixture.means[:1]

    def g(h, y, a):
        s = torch.sigmoid(h)
        weights = rules[len(h) == len(rules[1])]
        return s - y.unsqueeze(1) - (weights @ (s * (1 - s))) * h

    reference = dd.StateEvolution(mixture, LINEAR, dd.DecoupledDescent(0.1, 0.95, g=g), 1.6)
    expected = reference.run(30, theta)
    algorithm = dd.OrthogonalDecoupledDescent(0.1, 0.95, ridge=math.inf)
    evolution = dd.StateEvolution(mixture, LINEAR, algorithm, 1.6).run(30, theta)
    for name in ("test_error", "alignment", "overlap", "omega", "sigma", "signal"):
        result = getattr(evolution, name)
        np.testing.assert_allclose(result, getattr(expected, name), rtol=1e-9, atol=1e-11)


HEADS = {
    "linear": (LINEAR, {"lr": 0.2, "damping": 0.9}),
    "two-layer": (
        dd.Objective(dd.heads.TwoLayer(2, seed=3).double(), "logistic"),
        {"lr": 0.3, "damping": 0.95, "head_lr": 0.5},
    ),
}
#: Runs approach the limit as 1/n, their means' standard errors fall as 1/√n only: few large runs.
D, N, STEPS, SEEDS = 800, 1600, 20, 8


@functools.cache
def problem():
    """Spectrum, mixture, spare directions and rows; those keep their decomposition for all."""
    tau = spectrum("mixed", D)
    mixture, spare = three_modes(tau)
    drawn = []
    for seed in range(SEEDS):
        X, y, modes = mixture.sample_with_modes(N, seed, torch.float64)
        centres = mixture.means[modes] / D
        drawn.append(dd.Rows(centres + (X - centres) * tau.sqrt(), y))
    return tau, mixture, spare, drawn


def follow(rows, objective, algorithm, theta, steps=STEPS):
    """Train errors, and θ and head of every iterate."""
    state = algorithm.init(rows, objective, theta)
    errors, states = [], []
    for _ in range(steps):
        states.append(state)
        state, info = algorithm.step(state, rows, objective)
        errors.append(info.train_error)
    return np.array(errors), states


def population(mixture, tau, objective, states):
    """Test errors, alignments and overlaps of actual parameters."""
    theta = torch.stack([state.theta for state in states])
    alignment = (theta @ mixture.means.T).transpose(1, 2) / len(tau)
    overlap = (theta * tau) @ theta.transpose(1, 2) / len(tau)
    nodes = quadrature_nodes(mixture, theta.shape[1], 24)
    errors = []
    for m, omega, state in zip(alignment, overlap, states, strict=True):
        losses = objective.losses(
            nodes.preactivations(m, omega), nodes.population.responses, state.head
        )
        errors.append(float(nodes.population.weights @ losses))
    return np.array(errors), alignment.numpy(), overlap.numpy()


def z_scores(runs, predicted):
    runs, predicted = np.stack(runs), np.asarray(predicted)
    spread = runs.std(0, ddof=1)
    random = spread > 1e-10 * np.abs(predicted).max()
    stderr = spread[random] / math.sqrt(len(runs))
    return (runs.mean(0) - predicted)[random] / stderr


def runs_of(drawn, mixture, tau, objective, algorithm, theta):
    """Train errors, test errors, alignments and overlaps of all runs."""
    columns = []
    for rows in drawn:
        errors, states = follow(rows, objective, algorithm, theta)
        columns.append((errors, *population(mixture, tau, objective, states)))
    return [list(column) for column in zip(*columns, strict=True)]


def assert_standard(z, name):
    assert np.sqrt((z**2).mean()) < 3, name
    assert np.abs(z).max() < 5, name


@pytest.mark.slow
@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("ridge", RIDGES)
def test_runs_follow_the_limit(name, ridge):
    tau, mixture, spare, drawn = problem()
    objective, rates = HEADS[name]
    algorithm = dd.OrthogonalDecoupledDescent(**rates, ridge=ridge)
    width = 1 if name == "linear" else 2
    theta = spare[:width] + 0.1 * mixture.means[:width]
    options = {"paths": 2048, "randomisations": 2}
    theory = dd.StateEvolution(mixture, objective, algorithm, N / D, tau, **options)
    evolution = theory.run(STEPS, theta)
    compare(evolution, *runs_of(drawn, mixture, tau, objective, algorithm, theta))


def compare(evolution, train, test, alignment, overlap):
    assert evolution.test_error[0] - evolution.test_error[-1] > 0.1  # there is something to follow
    gaps = {
        "train": z_scores(train, evolution.test_error),
        "test": z_scores(test, evolution.test_error),
        "alignment": z_scores(alignment, evolution.alignment),
        "overlap": z_scores(overlap, evolution.overlap),
        "train - test": z_scores(np.subtract(train, test), np.zeros(STEPS)),
    }
    for quantity, z in gaps.items():
        assert_standard(z, quantity)


@pytest.mark.parametrize("name", HEADS)
def test_runs_of_decoupled_descent_that_knows_the_covariance(name):
    """Its two corrections do for ∇Ψ what freedom of divergence does for q, at λ = ∞."""
    tau, mixture, spare, drawn = problem()
    objective, rates = HEADS[name]
    algorithm = dd.DecoupledDescent(**rates, noise=Covariance(tau))
    width = 1 if name == "linear" else 2
    theta = spare[:width] + 0.1 * mixture.means[:width]
    options = {"paths": 2048, "randomisations": 2}
    evolution = dd.StateEvolution(mixture, objective, algorithm, N / D, **options).run(STEPS, theta)
    result = runs_of(drawn, mixture, tau, objective, algorithm, theta)
    compare(evolution, *result)
    white = dd.StateEvolution(mixture, objective, dd.DecoupledDescent(**rates), N / D, **options)
    off = z_scores(result[3], white.run(STEPS, theta).overlap)
    assert np.abs(off).max() > 10  # rows of another covariance have another limit


def test_the_identity_may_be_said_or_left_out():
    mixture, spare = three_modes(torch.ones(50).double())
    theta = spare[:1] + 0.2 * mixture.means[:1]
    for algorithm in (dd.DecoupledDescent(0.1, 0.95), dd.OrthogonalDecoupledDescent(0.1, 0.95)):
        expected = dd.StateEvolution(mixture, LINEAR, algorithm, 1.6).run(10, theta)
        for identity in (torch.ones(50), torch.eye(50)):
            result = dd.StateEvolution(mixture, LINEAR, algorithm, 1.6, identity).run(10, theta)
            for quantity in ("test_error", "alignment", "omega", "xi"):
                ours, theirs = getattr(result, quantity), getattr(expected, quantity)
                np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_a_teacher_is_a_mixture():
    """Covariance not diagonal, teacher aligned with it, and a head with kinks."""
    d, n, steps, seeds = 250, 500, 15, 8
    generator = torch.Generator().manual_seed(0)
    axes = torch.linalg.qr(torch.randn(d, d, generator=generator).double()).Q
    tau = spectrum("power", d)
    beta = 2 * axes @ (torch.randn(d, generator=generator).double() * tau.sqrt())
    covariance, root = (axes * tau) @ axes.T, (axes * tau.sqrt()) @ axes.T

    def law(s):
        return Discrete((0.0, 1.0), (1 / (1 + math.exp(s)), 1 / (1 + math.exp(-s))))

    mixture, rest = teacher(beta, law, covariance, order=16)
    total = rest + mixture.means.T @ (mixture.weights.unsqueeze(1) * mixture.means) / d
    np.testing.assert_allclose(total, covariance, rtol=1e-9, atol=1e-9)
    assert float((rest @ beta).abs().max()) < 1e-9
    head = dd.heads.TwoLayer(2, activation="relu", seed=1).double()
    objective = dd.Objective(head, "logistic", curvature="smoothed")
    algorithm = dd.OrthogonalDecoupledDescent(0.3, 0.9, ridge=0.5)
    theta = torch.randn(2, d, generator=generator).double() + 0.1 * beta
    options = {"paths": 2048, "randomisations": 2}
    theory = dd.StateEvolution(mixture, objective, algorithm, n / d, rest, **options)
    evolution = theory.run(steps, theta)
    train, test, variance = [], [], []
    for seed in range(seeds):
        drawn = torch.randn(n, d, generator=torch.Generator().manual_seed(seed)).double()
        X = drawn @ root / d**0.5
        y = torch.bernoulli(torch.sigmoid(X @ beta), generator=generator)
        errors, states = follow(dd.Rows(X, y), objective, algorithm, theta, steps)
        train.append(errors)
        normals = torch.randn(4000, 3, generator=generator).double()
        test.append([new_rows(normals, s, beta, covariance, objective) for s in states])
        last = states[-1].theta
        variance.append((last @ covariance @ last.T / d).numpy())
    last = evolution.alignment[-1]
    spread = evolution.overlap[-1] + last.T @ (mixture.weights.unsqueeze(1) * last)
    assert_standard(z_scores(train, evolution.test_error), "train")
    assert_standard(z_scores(test, evolution.test_error), "test")
    assert_standard(z_scores(variance, spread), "variance")
    assert evolution.test_error[0] - evolution.test_error[-1] > 0.02


def new_rows(normals, state, beta, covariance, objective):
    """Test error over draws of (xᵀθ, xᵀβ), jointly Gaussian, and the mean over y given xᵀβ."""
    joint = torch.cat([state.theta, beta.unsqueeze(0)])
    scores = normals @ torch.linalg.cholesky(joint @ covariance @ joint.T / len(beta)).T
    h, p = scores[:, :-1], torch.sigmoid(scores[:, -1])
    zero, one = (objective.losses(h, torch.full_like(p, y), state.head) for y in (0.0, 1.0))
    return float(((1 - p) * zero + p * one).mean())


def test_paths_agree_with_quadrature_under_momentum():
    class Momentum:
        def slots(self, value):
            return (torch.zeros_like(value),)

        def __call__(self, value, direction, slots, step, scale):
            velocity = 0.7 * slots[0] - 0.05 * scale * direction
            return 0.95 * value + velocity, (velocity,)

    tau, mixture, spare, _ = problem()
    algorithm = dd.OrthogonalDecoupledDescent(0.1, ridge=0.5, rule=Momentum())
    common = (mixture, LINEAR, algorithm, 0.8, tau)
    theta = spare[:1] + 0.1 * mixture.means[:1]
    exact = dd.StateEvolution(*common).run(25, theta)
    sampled = dd.StateEvolution(*common, method="paths", paths=4096).run(25, theta)
    for name in ("test_error", "alignment", "omega", "sigma"):
        result, expected = getattr(sampled, name), getattr(exact, name)
        allowed = 6 * sampled.stderr[name] + 1e-4 * expected.abs().max()
        assert bool(((result - expected).abs() <= allowed).all()), name
    assert exact.stderr["omega"].max() < 1e-10


def test_equal_problems_have_equal_limits():
    """General position, a rotated covariance, another scale of the step: nothing changes."""
    tau, d = spectrum("two-point", 40), 40
    flat = dd.mixtures.flipped_classes(d, snr=1.5, labels=(0.0, 1.0))  # χ_F = χ tr F/d exactly
    damped = functools.partial(dd.OrthogonalDecoupledDescent, damping=0.9, ridge=0.7)
    expected = dd.StateEvolution(flat, LINEAR, damped(0.2), 1.5, tau).run(10)
    limit = dd.theory.MixtureLimit(flat.overlaps, flat.weights, flat.responses)
    axes = torch.linalg.qr(torch.randn(d, d, generator=torch.Generator().manual_seed(0)).double()).Q
    turned = dd.GaussianMixture(flat.means @ axes.T, flat.weights, flat.responses)
    mean = damped(0.2 * 1.5 * d, head_lr=0.2, reduction="mean")
    for theory in (
        dd.StateEvolution(limit, LINEAR, damped(0.2), 1.5, tau.unique()),
        dd.StateEvolution(turned, LINEAR, damped(0.2), 1.5, (axes * tau) @ axes.T),
        dd.StateEvolution(flat, LINEAR, mean, 1.5, tau),
    ):
        result = theory.run(10)
        np.testing.assert_allclose(result.test_error, expected.test_error, rtol=1e-9)
        np.testing.assert_allclose(result.omega, expected.omega, rtol=1e-9, atol=1e-12)
    start = torch.randn(1, d, generator=torch.Generator().manual_seed(1)).double()
    one = dd.StateEvolution(flat, LINEAR, damped(0.2), 1.5, tau).run(10, start)
    other = dd.StateEvolution(turned, LINEAR, damped(0.2), 1.5, (axes * tau) @ axes.T)
    np.testing.assert_allclose(other.run(10, start @ axes.T).omega, one.omega, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("rotation", [[[1.0, 0.0], [0.0, 1.0]], [[0.8, -0.7], [0.4, 1.1]]])
def test_directions_need_not_be_gradients(rotation):
    """g = Rh − y has J̄ = R, so q = −y for every R, in this orientation only."""
    tau, mixture, spare, _ = problem()
    matrix = torch.tensor(rotation).double()
    algorithm = dd.OrthogonalDecoupledDescent(
        0.2, 0.9, head_lr=0.0, g=lambda h, y, a: h @ matrix.T - y.unsqueeze(1)
    )
    objective, _ = HEADS["two-layer"]
    options = {"paths": 256, "randomisations": 2}
    theory = dd.StateEvolution(mixture, objective, algorithm, 1.2, tau, **options)
    evolution = theory.run(6, spare[:2] + 0.1 * mixture.means[:2])
    squares = 0.3 * 0.9 + 0.4 * 0.1 + 0.3  # E y²
    assert torch.allclose(evolution.sigma, torch.full_like(evolution.sigma, squares), rtol=1e-9)


ODD = dd.OrthogonalDecoupledDescent(0.1)
MIXTURE = dd.mixtures.flipped_classes(6, labels=(0.0, 1.0))
LIMIT = dd.theory.MixtureLimit([[0.0]], [1.0], [0.0])


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: dd.StateEvolution(MIXTURE, LINEAR, ODD, -1.0), "ratio=-1.0"),
        (lambda: dd.StateEvolution(MIXTURE, LINEAR, ODD, 1.0, torch.ones(5)), r"\(5,\).*\(6, 6\)"),
        (lambda: dd.StateEvolution(MIXTURE, LINEAR, ODD).run(0), "steps=0"),
        (lambda: dd.StateEvolution(MIXTURE, LINEAR, ODD).run(2, torch.ones(1, 5)), r"\(L, 6\)"),
        (
            lambda: dd.StateEvolution(LIMIT, LINEAR, ODD).run(2, torch.ones(1, 5)),
            "with means; leave it out",
        ),
        (
            lambda: dd.StateEvolution(MIXTURE, LINEAR, ODD, 1.0, torch.ones(6)).run(
                2, overlap=[[1.0]]
            ),
            "pass theta",
        ),
        (
            lambda: dd.StateEvolution(
                MIXTURE, LINEAR, dd.DecoupledDescent(0.1), 1.0, 2 * torch.ones(6)
            ),
            r"pass it to the algorithm, as noise=Covariance",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(attempt, message):
    with pytest.raises(ValueError, match=message) as refusal:
        attempt()
    assert "\n" not in str(refusal.value)
