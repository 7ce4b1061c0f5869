"""Mean Jacobians across kinks against exact Gaussian expectations."""

import math

import pytest
import torch
from torch.nn import functional

import decoupled_descent as dd
from decoupled_descent.objective import smoothed
from tests.objective.references import assert_agree
from tests.problems import normal

PEAK = 1 / math.sqrt(2 * math.pi)  # the density of N(0, 1) at zero
MEAN, SPREAD, WEIGHT = 0.4, 1.3, 0.8


def density(x):
    return PEAK * math.exp(-x * x / 2)


def law(x):
    return 0.5 * math.erfc(-x / math.sqrt(2))


def relu_objective(width=1, weight=WEIGHT, curvature="smoothed", **options):
    head = dd.heads.TwoLayer(width, "relu", **options).double()
    with torch.no_grad():
        head[1].weight.copy_(torch.as_tensor(weight))
    return dd.Objective(head, "squared", curvature=curvature)


def mean_direction(m, y):
    """E g for g = w (w h₊ − y) 1{h > 0}, h ~ N(m, s²)."""
    z = m / SPREAD
    return WEIGHT**2 * (m * law(z) + SPREAD * density(z)) - WEIGHT * y * law(z)


def mean_slope(m, y):
    """E g', the delta function at the kink included."""
    return WEIGHT**2 * law(m / SPREAD) - WEIGHT * y * density(m / SPREAD) / SPREAD


# The estimate


def test_the_references_themselves():
    slope = (mean_direction(MEAN + 1e-5, 2.0) - mean_direction(MEAN - 1e-5, 2.0)) / 2e-5
    assert slope == pytest.approx(mean_slope(MEAN, 2.0), abs=1e-9)


@pytest.mark.parametrize("step", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("y", [-1.0, 2.0])
def test_unbiased_for_the_difference_of_expectations(y, step):
    n = 100_000
    h, labels = MEAN + SPREAD * normal(n, 1), torch.full((n,), y, dtype=torch.float64)
    steps = torch.tensor([step], dtype=torch.float64)
    result = relu_objective().derivatives(h, labels, spacing=steps).jacobian
    expected = (mean_direction(MEAN + step, y) - mean_direction(MEAN - step, y)) / (2 * step)
    ramp = [WEIGHT * (WEIGHT * x.clamp_min(0) - y) * (x > 0) for x in (h + step, h - step)]
    stderr = float((ramp[0] - ramp[1]).std()) / (2 * step) / n**0.5
    assert abs(float(result) - expected) < 4 * stderr
    assert stderr < 0.02


def test_consistent_where_autodiff_is_not():
    """Error O(n^{−2/5}); pointwise derivatives stay off by the height of the jump."""
    y, errors = 2.0, []
    truth, jump = mean_slope(MEAN, y), -WEIGHT * y * density(MEAN / SPREAD) / SPREAD
    for n in (1000, 30_000, 1_000_000):
        runs = range(40 if n < 10_000 else 8 if n < 100_000 else 2)
        result = []
        for seed in runs:
            h = MEAN + SPREAD * normal(n, 1, seed=seed)
            labels = torch.full((n,), y, dtype=torch.float64)
            result.append(float(relu_objective().derivatives(h, labels).jacobian) - truth)
        errors.append(math.sqrt(sum(e * e for e in result) / len(result)))
        assert errors[-1] < 2 * n**-0.4
    assert errors[0] > errors[1] > errors[2]
    plain = relu_objective(curvature="autodiff").derivatives(h, labels).jacobian
    assert float(plain) - truth == pytest.approx(-jump, abs=4 / math.sqrt(n))
    assert abs(jump) > 10 * errors[1]


def gaussian_pair(n, correlation, seed=0):
    z = normal(n, 2, seed=seed)
    second = correlation * z[:, 0] + math.sqrt(1 - correlation**2) * z[:, 1]
    return torch.stack([z[:, 0], second], 1)


@pytest.mark.parametrize("correlation", [-0.6, 0.0, 0.5])
def test_two_correlated_coordinates(correlation):
    """J̄ for w·h₊ with squared loss: orthant probability off the diagonal, jumps on it."""
    n, w, y = 400_000, (0.7, -1.2), 1.5
    h, labels = gaussian_pair(n, correlation), torch.full((n,), y, dtype=torch.float64)
    orthant = 0.25 + math.asin(correlation) / (2 * math.pi)
    other = math.sqrt(1 - correlation**2) * PEAK  # E[h₂₊ | h₁ = 0]
    jumps = [w[i] * (w[1 - i] * other - y) * PEAK for i in range(2)]
    expected = torch.tensor(
        [[w[0] ** 2 / 2 + jumps[0], w[0] * w[1] * orthant]] * 2, dtype=torch.float64
    )
    expected[1] = torch.tensor([w[0] * w[1] * orthant, w[1] ** 2 / 2 + jumps[1]])
    result = relu_objective(2, w).derivatives(h, labels).jacobian
    step = float(smoothed.spacing(torch.ones(1), n))
    # bias δ²/6 · |∂²/∂m² of J̄|, all of whose terms are below 2; noise below 3/√(nδ)
    assert_agree(result, expected, 2 * step**2 / 6 + 4 * 3 / math.sqrt(n * step))
    assert_agree(result, result.T)


def hinge(u, y):
    return functional.relu(1 - y * u.reshape(-1))


def pinball(u, y):
    error = y - u.reshape(-1)
    return torch.maximum(0.2 * error, -0.8 * error)


@pytest.mark.parametrize(
    ("loss", "label", "truth"),
    [
        ("absolute", 0.5, 2 * density(0.5)),
        (hinge, 1.0, density(1.0)),
        (hinge, -1.0, density(-1.0)),
        (pinball, 0.3, density(0.3)),
    ],
)
def test_kinks_of_losses(loss, label, truth):
    """For the linear model E g' is the density at the kink times the height of the jump."""
    n = 400_000
    h, y = normal(n, 1), torch.full((n,), label, dtype=torch.float64)
    for curvature, expected in (("smoothed", truth), ("autodiff", 0.0)):
        objective = dd.Objective(dd.heads.Linear(), loss, curvature=curvature)
        result = float(objective.derivatives(h, y).jacobian)
        step = 2 * n**-0.2
        assert abs(result - expected) < step**2 / 6 + 4 / math.sqrt(n * step)
        assert truth > 0.2


def test_g_of_the_user_keeps_its_asymmetry():
    n = 400_000
    h, y = normal(n, 2), normal(n, seed=1)
    objective = dd.Objective(dd.heads.TwoLayer(2, seed=0).double(), "squared", curvature="smoothed")

    def g(h, y, a):
        return torch.stack([(h[:, 1] > 0).to(h), -(h[:, 0] > 1).to(h)], 1)

    result = objective.derivatives(h, y, g=g).jacobian
    expected = torch.tensor([[0, density(0)], [-density(1), 0]], dtype=torch.float64)
    step = 2 * n**-0.2
    assert_agree(result, expected, step**2 / 6 + 4 / math.sqrt(n * step))


def test_exact_up_to_the_square_of_the_step_where_all_is_smooth():
    h, y = normal(50, 3), normal(50, seed=1)
    head = dd.heads.Deep([3, 4], "gelu", seed=0).double()
    exact = dd.Objective(head, "squared").derivatives(h, y)
    objective = dd.Objective(head, "squared", curvature="smoothed")
    errors = []
    for step in (2e-3, 1e-3):
        steps = torch.full((3,), step, dtype=torch.float64)
        result = objective.derivatives(h, y, spacing=steps)
        assert_agree(
            [result.loss, result.direction, result.head], [exact.loss, exact.direction, exact.head]
        )
        errors.append(float((result.jacobian - exact.jacobian).abs().max()))
    assert errors[0] == pytest.approx(4 * errors[1], rel=0.02)


def test_spacing():
    spread = torch.tensor([1.0, 3.0, 0.0])
    steps = smoothed.spacing(spread, 1000)
    torch.testing.assert_close(steps[:2], torch.tensor([0.5024, 1.5071]), rtol=1e-3, atol=0)
    assert steps[2] > 0
    torch.testing.assert_close(smoothed.spacing(spread, 32_000)[:2], steps[:2] / 2)


# What it is for


def signed_gaps(activation, curvature, seeds, n=1000, d=1000, width=5, steps=60):
    """Train error minus population error, averaged over the second half of each run."""
    shift = torch.full((d // 2,), 4.0)
    zero = torch.zeros(d // 2)
    means = torch.stack(
        [torch.cat(m) for m in ((shift, zero), (-shift, zero), (zero, shift), (zero, -shift))]
    )
    mixture = dd.GaussianMixture(means, [0.25] * 4, [0.0, 1.0, 2.0, 3.0])
    draws = torch.randn(4, 5000, width, generator=torch.Generator().manual_seed(99))
    responses = torch.arange(4.0).repeat_interleave(5000)
    gaps = []
    for seed in seeds:
        X, y = mixture.sample(n, seed=seed)
        head = dd.heads.TwoLayer(width, activation, seed=seed)
        objective, seen = dd.Objective(head, "squared", curvature=curvature), []

        def watch(step, objective=objective, seen=seen):
            if step.index < steps // 2 or step.index % 3:
                return
            theta = step.state.theta
            factor = torch.linalg.cholesky((theta @ theta.T / d).double()).to(theta)
            h = draws @ factor.T + (means @ theta.T / d).unsqueeze(1)
            fresh = objective.losses(h.flatten(0, 1), responses, step.state.head).mean()
            seen.append(step.train_error - float(fresh))

        dd.fit(X, y, objective, dd.DecoupledDescent(0.1, 0.97), steps, seed=seed, callbacks=[watch])
        gaps.append(sum(seen) / len(seen))
    gaps = torch.tensor(gaps, dtype=torch.float64)
    return float(gaps.mean()), float(gaps.std()) / math.sqrt(len(gaps))


@pytest.mark.slow
def test_smoothing_closes_the_gap_of_relu_heads():
    """Four modes, n = d = 1000: as close as tanh with it, several times further without."""
    seeds = range(16)
    smooth, tanh, plain = (
        signed_gaps(activation, curvature, seeds)
        for activation, curvature in (
            ("relu", "smoothed"),
            ("tanh", "structured"),
            ("relu", "autodiff"),
        )
    )
    for bias, stderr in (smooth, tanh):
        assert abs(bias) < 3 * stderr
        assert stderr < 0.03
    bias, stderr = plain
    assert bias < -6 * stderr
    assert abs(bias) > 4 * max(abs(smooth[0]), abs(tanh[0]))
    assert smooth[0] - bias > 4 * math.hypot(stderr, smooth[1])
