import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal, norm
from torch import nn

import decoupled_descent as dd
from decoupled_descent.descent import GreedyDescent
from tests.oracles import state_evolution as oracle

from . import problems
from .test_recursion import RowRates

LINEAR = dd.Objective(dd.heads.Linear(), "squared")
BLOCKS = ("sigma", "omega", "xi")


def gauss_hermite(dimensions, order):
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    weights = weights / weights.sum()
    grid = np.stack(np.meshgrid(*[nodes] * dimensions, indexing="ij"), -1).reshape(-1, dimensions)
    masses = np.prod(np.meshgrid(*[weights] * dimensions, indexing="ij"), 0).ravel()
    return grid, masses


@pytest.mark.parametrize("ratio", [0.25, 1.0, 1.7])
@pytest.mark.parametrize(("damping", "c"), [(1.0, None), (0.95, 0.3), (0.95, 1.0), (0.95, 1.3)])
def test_signalless_regression_is_exact(ratio, damping, c):
    """Σ = Ω for a linear direction: the recursion closes without any expectation."""
    lr = 0.05 if c is None else c * (1 - damping)
    theory = dd.StateEvolution(
        dd.mixtures.signalless(10), LINEAR, dd.DecoupledDescent(lr, damping), ratio
    )
    evolution = theory.run(100, overlap=[[1.3]])
    omega, xi = oracle.linear_closed_form(ratio, 1.3, damping, lr, 100)
    now = slice(1, 101)
    scale = np.abs(omega).max()
    np.testing.assert_allclose(
        evolution.omega[..., 0, 0], omega[now, now], rtol=0, atol=1e-10 * scale
    )
    np.testing.assert_allclose(evolution.xi[..., 0, 0], xi[now, now], rtol=0, atol=1e-10 * scale)
    np.testing.assert_allclose(evolution.test_error, np.diag(omega)[now] / 2, rtol=1e-10)


def test_quadrature_follows_the_definition():
    """Flipped classes: every Σ[r,s] by its own two-dimensional quadrature in the oracle."""
    mixture = dd.mixtures.flipped_classes(100, snr=1.5, flip=0.1, labels=(0.0, 1.0))
    model = oracle.Model(
        loss=lambda h, y, a: np.logaddexp(0, h[:, 0]) - y * h[:, 0],
        g=lambda h, y, a: 0.5 * (1 + np.tanh(h / 2)) - y,
        f=lambda h, y, a: np.zeros((len(h), 0)),
    )
    modes = [(0, 0.0, 0.45), (0, 1.0, 0.05), (1, 1.0, 0.45), (1, 0.0, 0.05)]
    one, two = gauss_hermite(1, 60), gauss_hermite(2, 60)
    start = np.array([[0.2], [-0.2]]), np.array([[1.3]])
    states = oracle.definition(
        model,
        [oracle.Mode(*mode) for mode in modes],
        mixture.overlaps.numpy(),
        0.7,
        *start,
        np.zeros(0),
        oracle.Rates(0.95, 0.1, 1.0, 0.0),
        12,
        (one[0], two[0]),
        (one[1], two[1]),
    )
    theory = dd.StateEvolution(
        mixture, dd.Objective(dd.heads.Linear(), "logistic"), dd.DecoupledDescent(0.1, 0.95), 0.7
    )
    evolution = theory.run(12, alignment=start[0], overlap=start[1])
    now = slice(1, 13)
    for name in BLOCKS:
        expected = getattr(states, name)[now, now]
        np.testing.assert_allclose(getattr(evolution, name), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(evolution.alignment, states.m[now], rtol=0, atol=1e-12)
    np.testing.assert_allclose(evolution.signal, states.l[now], rtol=0, atol=1e-12)
    np.testing.assert_allclose(evolution.test_error, states.test[now], rtol=0, atol=1e-12)
    assert evolution.test_error_stderr.max() < 1e-12


def hinge(u, y):
    return nn.functional.relu(1 - y * u[:, 0])


@pytest.mark.parametrize("curvature", ["smoothed", "autodiff"])
def test_two_steps_across_kinks_in_closed_form(curvature):
    """Hinge loss: g = −y 1{yh < 1}, whose averages are probabilities of one and two Gaussians."""
    mixture = dd.mixtures.flipped_classes(100, 1.5, flip=0.1)
    objective = dd.Objective(dd.heads.Linear(), hinge, curvature=curvature)
    evolution = dd.StateEvolution(mixture, objective, dd.DecoupledDescent(0.2, 0.9)).run(2)
    inside = norm.cdf(1.0)
    m = 0.2 * 2.25 * 0.8 * inside
    variance = 0.81 + 0.04 * (inside + 2.25 * (0.8 * inside) ** 2)
    both = [
        multivariate_normal([0.0, sign * m], [[1.0, 0.9], [0.9, variance]]).cdf([1.0, 1.0])
        for sign in (1, -1)
    ]
    spread = variance**0.5
    errors = [
        (1 - sign * m) * norm.cdf((1 - sign * m) / spread)
        + spread * norm.pdf((1 - sign * m) / spread)
        for sign in (1, -1)
    ]
    shares = np.array([0.9, 0.1])
    for name, index, exact in (
        ("test_error", 0, norm.cdf(1.0) + norm.pdf(1.0)),
        ("test_error", 1, shares @ errors),
        ("alignment", (1, 0, 0), -m),
        ("overlap", (1, 0, 0), variance),
        ("sigma", (0, 0, 0, 0), inside),
        ("sigma", (0, 1, 0, 0), shares @ both),
    ):
        gap = abs(float(getattr(evolution, name)[index]) - exact)
        stderr = float(evolution.stderr[name][index])
        assert gap < 5 * stderr, name
        assert 0 < stderr < 1e-3, name


@pytest.mark.parametrize("width", [1, 2])
def test_relu_units_in_closed_form(width):
    """g_k = (Σ relu(h) − 2) 1{h_k > 0} for independent standard units."""
    head = nn.Sequential(nn.ReLU(), nn.Linear(width, 1, bias=False)).double()
    nn.init.ones_(head[1].weight)
    objective = dd.Objective(head, "squared", curvature="smoothed")
    algorithm = dd.DecoupledDescent(0.2, 0.9, head_lr=0)
    theory = dd.StateEvolution(dd.theory.MixtureLimit([[1.0]], [1.0], [2.0]), objective, algorithm)
    result = theory.run(1)
    half = 1 / np.sqrt(2 * np.pi)  # E relu(h)
    expected = half - 1 + (width - 1) * half / 2
    gap = (result.signal[0, 0] - expected).abs()
    assert (gap < 5 * result.stderr["signal"][0, 0]).all()
    assert (result.stderr["signal"] < 1e-3).all()


def test_a_smooth_direction_under_a_loss_with_kinks():
    """The error is that of the loss, however smooth the steps are."""
    objective = dd.Objective(dd.heads.Linear(), "absolute", curvature="smoothed")
    algorithm = dd.DecoupledDescent(0.1, g=lambda h, y, a: torch.tanh(h - y[:, None]))
    limit = dd.theory.MixtureLimit([[0.0]], [1.0], [0.7])
    evolution = dd.StateEvolution(limit, objective, algorithm).run(1, overlap=[[4.0]])
    expected = 4 * norm.pdf(0.35) + 0.7 * (1 - 2 * norm.cdf(-0.35))
    gap = abs(float(evolution.test_error[0]) - expected)
    assert gap < 5 * float(evolution.test_error_stderr[0]) < 5e-3


@pytest.mark.parametrize(
    ("options", "message"), [({"method": "quadrature"}, "kinks"), ({"order": 99}, "order=99")]
)
def test_quadrature_across_kinks_is_refused(options, message):
    objective = dd.Objective(dd.heads.Linear(), "absolute", curvature="smoothed")
    theory = dd.StateEvolution(
        dd.mixtures.signalless(10), objective, dd.DecoupledDescent(0.1), **options
    )
    with pytest.raises(ValueError, match=message):
        theory.run(2)


def test_steep_directions_are_given_an_error():
    """A logistic slope of logits of size 30 is a step to sixty-four nodes."""
    limit = dd.theory.MixtureLimit([[0.0]], [1.0], [1.0])
    objective = dd.Objective(dd.heads.Linear(), "logistic")
    theory = dd.StateEvolution(limit, objective, dd.DecoupledDescent(0.1))
    evolution = theory.run(1, overlap=[[900.0]])
    z = np.linspace(-9, 9, 100_001)
    weights = norm.pdf(z) / norm.pdf(z).sum()
    exact = weights @ (0.5 * (1 - np.tanh(15 * z))) ** 2
    stderr = float(evolution.stderr["sigma"].max())
    assert abs(float(evolution.sigma[0, 0, 0, 0]) - exact) < 3 * stderr
    assert stderr > 1e-3


ROTATION = np.array([[0.8, -0.7], [0.4, 1.1]])


class Scaled(nn.Module):
    """a tanh(h₁ + h₂/2)."""

    width = 2

    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.tensor(0.7, dtype=torch.float64))

    def forward(self, h):
        return self.a * torch.tanh(h[:, 0] + 0.5 * h[:, 1])


def rotational():
    """A general family: g is no gradient, f is not ∇_aΨ, the head is damped."""
    rotation = torch.from_numpy(ROTATION)
    algorithm = dd.DecoupledDescent(
        lr=0.3,
        damping=0.9,
        head_lr=0.4,
        head_damping=0.95,
        g=lambda h, y, a: a["a"] * torch.tanh(h @ rotation.T - y.unsqueeze(1)),
        f=lambda h, y, a: {"a": torch.tanh(a["a"] * h.sum(1)) - y},
    )
    model = oracle.Model(
        loss=lambda h, y, a: 0.5 * (a * np.tanh(h[:, 0] + 0.5 * h[:, 1]) - y) ** 2,
        g=lambda h, y, a: a * np.tanh(h @ ROTATION.T - y),
        f=lambda h, y, a: np.tanh(a * h.sum(1)) - y,
    )
    return dd.Objective(Scaled(), "squared"), algorithm, model


def test_paths_follow_the_definition_for_a_general_family():
    mixture = dd.mixtures.flipped_classes(40, snr=1.2, flip=0.2)
    objective, algorithm, model = rotational()
    start = np.array([[0.3, -0.2], [-0.3, 0.2]]), np.array([[1.2, 0.3], [0.3, 0.9]])
    modes = [(0, -1.0, 0.4), (0, 1.0, 0.1), (1, 1.0, 0.4), (1, -1.0, 0.1)]
    one, two = gauss_hermite(2, 24), gauss_hermite(4, 13)
    states = oracle.definition(
        model,
        [oracle.Mode(*mode) for mode in modes],
        mixture.overlaps.numpy(),
        1.4,
        *start,
        np.array(0.7),
        oracle.Rates(0.9, 0.3, 0.95, 0.4),
        6,
        (one[0], two[0]),
        (one[1], two[1]),
    )
    theory = dd.StateEvolution(mixture, objective, algorithm, 1.4, paths=2**13, randomisations=16)
    evolution = theory.run(6, alignment=start[0], overlap=start[1])
    now = slice(1, 7)
    for name in BLOCKS:
        gap = getattr(evolution, name).numpy() - getattr(states, name)[now, now]
        assert np.all(np.abs(gap) < 5 * evolution.stderr[name].numpy() + 2e-5), name
    for name, expected in (("alignment", states.m), ("test_error", states.test)):
        gap = getattr(evolution, name).numpy() - expected[now]
        assert np.all(np.abs(gap) < 5 * evolution.stderr[name].numpy() + 2e-5), name
    np.testing.assert_allclose(evolution.head["a"], np.stack(states.a)[now], rtol=0, atol=2e-4)
    assert 0 < evolution.stderr["sigma"].max() < 1e-3


def test_paths_and_quadrature_agree():
    mixture, objective, algorithm, theta = problems.flipped(50)
    exact = dd.StateEvolution(mixture, objective, algorithm).run(25, theta=theta)
    theory = dd.StateEvolution(mixture, objective, algorithm, method="paths", paths=2**12)
    sampled = theory.run(25, theta=theta)
    for name in ("test_error", "sigma", "omega", "xi"):
        gap = (getattr(sampled, name) - getattr(exact, name)).abs()
        assert (gap < 6 * sampled.stderr[name] + 1e-6).all(), name
    assert 0 < sampled.test_error_stderr.max() < 1e-3


def test_affine_directions_carry_no_sampling_error():
    algorithm = dd.DecoupledDescent(0.05, 0.95)
    mixture = dd.mixtures.flipped_classes(20, snr=1.0, flip=0.2)
    exact = dd.StateEvolution(mixture, LINEAR, algorithm).run(30)
    theory = dd.StateEvolution(mixture, LINEAR, algorithm, method="paths", paths=256)
    np.testing.assert_allclose(theory.run(30).test_error, exact.test_error, rtol=0, atol=1e-6)


def test_sampled_responses_match_enumerated_ones():
    """An arbitrary sampler goes to the paths; the same Gaussian law is enumerated elsewhere."""
    objective, algorithm = dd.Objective(dd.heads.TwoLayer(1, seed=2).double(), "squared"), None
    algorithm = dd.DecoupledDescent(0.2, 0.95)

    def drawn(count, generator):
        return torch.randn(count, generator=generator, dtype=torch.float64)

    laws = [dd.responses.Noisy(0.5, 0.4), dd.responses.Noisy(0.5, 0.4, drawn)]
    reference, unknown = (dd.theory.MixtureLimit([[2.0]], [1.0], [law]) for law in laws)
    exact = dd.StateEvolution(reference, objective, algorithm).run(10, overlap=[[1.0]])
    sampled = dd.StateEvolution(unknown, objective, algorithm).run(10, overlap=[[1.0]])
    assert sampled.test_error_stderr.min() > 0
    gap = (sampled.test_error - exact.test_error).abs()
    assert (gap < 5 * sampled.test_error_stderr).all()


def test_mean_reduction_is_a_smaller_rate():
    mixture, objective, _, theta = problems.discrete(60)
    by_mean = dd.DecoupledDescent(6.0, 0.97, head_lr=0.2, reduction="mean")
    by_sum = dd.DecoupledDescent(6.0 / 90, 0.97, head_lr=0.2)
    runs = [dd.StateEvolution(mixture, objective, a, 1.5).run(8, theta) for a in (by_mean, by_sum)]
    np.testing.assert_allclose(runs[0].omega, runs[1].omega, rtol=1e-12)
    limit = dd.theory.MixtureLimit(mixture.overlaps, mixture.weights, mixture.responses)
    with pytest.raises(ValueError, match="reduction='mean'"):
        dd.StateEvolution(limit, objective, by_mean).run(2)


def test_frozen_and_damped_heads():
    mixture, objective, _, theta = problems.discrete(40)
    frozen = dd.DecoupledDescent(0.1, head_lr=0.0)
    path = dd.StateEvolution(mixture, objective, frozen).run(5, theta).head["1.weight"]
    assert (path == path[0]).all()
    damped = dd.DecoupledDescent(0.1, head_lr=0.0, head_damping=0.5)
    path = dd.StateEvolution(mixture, objective, damped).run(5, theta).head["1.weight"]
    np.testing.assert_allclose(path[:, 0, 0] / path[0, 0, 0], 0.5 ** np.arange(5))


def test_rows_of_theta_with_rates_of_their_own():
    """Two one-unit problems side by side are one problem with a matrix-valued rule."""
    mixture = dd.mixtures.signalless(10)
    both = dd.Objective(nn.Identity(), lambda u, y: 0.5 * u.square().sum(1), width=2)
    algorithm = dd.DecoupledDescent(1.0, rule=RowRates([0.05, 0.02], [1.0, 0.9]))
    pair = dd.StateEvolution(mixture, both, algorithm, paths=256).run(15)
    for k, (lr, damping) in enumerate([(0.05, 1.0), (0.02, 0.9)]):
        alone = dd.StateEvolution(mixture, LINEAR, dd.DecoupledDescent(lr, damping)).run(15)
        np.testing.assert_allclose(pair.overlap[:, k, k], alone.overlap[:, 0, 0], rtol=0, atol=1e-6)


def test_a_mode_of_probability_zero_only_watches():
    algorithm, objective = (
        dd.DecoupledDescent(0.2, 0.95),
        dd.Objective(dd.heads.Linear(), "logistic"),
    )
    one = dd.theory.MixtureLimit([[2.0]], [1.0], [1.0])
    two = dd.theory.MixtureLimit([[2.0, 0.5], [0.5, 1.0]], [1.0, 0.0], [1.0, 0.0])
    alone = dd.StateEvolution(one, objective, algorithm).run(10, overlap=[[1.0]])
    for method in ("quadrature", "paths"):
        theory = dd.StateEvolution(two, objective, algorithm, method=method, paths=512)
        watched = theory.run(10, overlap=[[1.0]])
        np.testing.assert_allclose(watched.alignment[:, :1], alone.alignment, atol=1e-3)
        ratio = watched.alignment[1:, 1] / watched.alignment[1:, 0]
        np.testing.assert_allclose(ratio, 0.25, rtol=1e-9)


@pytest.mark.parametrize("lr", [0.0, 0.1])
def test_singular_overlaps_do_not_crash(lr):
    """Equal rows of θ make Ω[1,1] singular; without a learning rate every iterate is the same."""
    mixture = dd.mixtures.xor(20, snr=2.0)
    row = torch.randn(1, 20, generator=torch.Generator().manual_seed(0)).double()
    objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
    theory = dd.StateEvolution(mixture, objective, dd.DecoupledDescent(lr, head_lr=0.0), paths=256)
    evolution = theory.run(12, theta=row.repeat(2, 1))
    assert evolution.test_error.isfinite().all()
    np.testing.assert_allclose(evolution.overlap[:, 0, 0], evolution.overlap[:, 1, 1], atol=1e-6)
    if lr == 0:
        np.testing.assert_allclose(evolution.omega, evolution.overlap[0].expand(12, 12, 2, 2))
        np.testing.assert_allclose(evolution.test_error, evolution.test_error[0])


def test_a_start_at_zero():
    theory = dd.StateEvolution(
        dd.mixtures.xor(20),
        dd.Objective(dd.heads.Product(a=1.0), "logistic"),
        dd.DecoupledDescent(0.1),
        paths=256,
    )
    evolution = theory.run(4, theta=torch.zeros(2, 20))
    np.testing.assert_allclose(evolution.test_error, np.log(2))


@pytest.mark.parametrize("steps", [0, -1, 2.5, True])
def test_steps_must_be_positive(steps):
    theory = dd.StateEvolution(dd.mixtures.signalless(4), LINEAR, dd.DecoupledDescent(0.1))
    with pytest.raises(ValueError, match=f"steps={steps!r}"):
        theory.run(steps)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ratio": 0}, "ratio=0"),
        ({"method": "magic"}, "method='magic'"),
        ({"randomisations": 1}, "randomisations=1"),
        (
            {"algorithm": GreedyDescent.grid(0.1)},
            "no limit of GreedyDescent.*population_test_error",
        ),
        ({"algorithm": 0.1}, "algorithm=0.1 must be an Algorithm"),
    ],
)
def test_bad_options(options, message):
    arguments = {"algorithm": dd.DecoupledDescent(0.1)} | options
    with pytest.raises(ValueError, match=message):
        dd.StateEvolution(dd.mixtures.signalless(4), LINEAR, **arguments)
