"""Mean Jacobians across kinks against exact Gaussian expectations, and finding the kinks."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

import decoupled_descent as dd
from decoupled_descent.objective import smoothed
from tests.objective.references import assert_agree
from tests.problems import binary, normal

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
    found = relu_objective().derivatives(h, labels, spacing=steps).jacobian
    expected = (mean_direction(MEAN + step, y) - mean_direction(MEAN - step, y)) / (2 * step)
    ramp = [WEIGHT * (WEIGHT * x.clamp_min(0) - y) * (x > 0) for x in (h + step, h - step)]
    stderr = float((ramp[0] - ramp[1]).std()) / (2 * step) / n**0.5
    assert abs(float(found) - expected) < 4 * stderr
    assert stderr < 0.02


def test_consistent_where_autodiff_is_not():
    """Error O(n^{−2/5}); pointwise derivatives stay off by the height of the jump."""
    y, errors = 2.0, []
    truth, jump = mean_slope(MEAN, y), -WEIGHT * y * density(MEAN / SPREAD) / SPREAD
    for n in (1000, 30_000, 1_000_000):
        runs = range(40 if n < 10_000 else 8 if n < 100_000 else 2)
        found = []
        for seed in runs:
            h = MEAN + SPREAD * normal(n, 1, seed=seed)
            labels = torch.full((n,), y, dtype=torch.float64)
            found.append(float(relu_objective().derivatives(h, labels).jacobian) - truth)
        errors.append(math.sqrt(sum(e * e for e in found) / len(found)))
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
    found = relu_objective(2, w).derivatives(h, labels).jacobian
    step = float(smoothed.spacing(torch.ones(1), n))
    # bias δ²/6 · |∂²/∂m² of J̄|, all of whose terms are below 2; noise below 3/√(nδ)
    assert_agree(found, expected, 2 * step**2 / 6 + 4 * 3 / math.sqrt(n * step))
    assert_agree(found, found.T)


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
        found = float(objective.derivatives(h, y).jacobian)
        step = 2 * n**-0.2
        assert abs(found - expected) < step**2 / 6 + 4 / math.sqrt(n * step)
        assert truth > 0.2


def test_g_of_the_user_keeps_its_asymmetry():
    n = 400_000
    h, y = normal(n, 2), normal(n, seed=1)
    objective = dd.Objective(dd.heads.TwoLayer(2, seed=0).double(), "squared", curvature="smoothed")

    def g(h, y, a):
        return torch.stack([(h[:, 1] > 0).to(h), -(h[:, 0] > 1).to(h)], 1)

    found = objective.derivatives(h, y, g=g).jacobian
    expected = torch.tensor([[0, density(0)], [-density(1), 0]], dtype=torch.float64)
    step = 2 * n**-0.2
    assert_agree(found, expected, step**2 / 6 + 4 / math.sqrt(n * step))


def test_exact_up_to_the_square_of_the_step_where_all_is_smooth():
    h, y = normal(50, 3), normal(50, seed=1)
    head = dd.heads.Deep([3, 4], "gelu", seed=0).double()
    exact = dd.Objective(head, "squared").derivatives(h, y)
    objective = dd.Objective(head, "squared", curvature="smoothed")
    errors = []
    for step in (2e-3, 1e-3):
        steps = torch.full((3,), step, dtype=torch.float64)
        found = objective.derivatives(h, y, spacing=steps)
        assert_agree(
            [found.loss, found.direction, found.head], [exact.loss, exact.direction, exact.head]
        )
        errors.append(float((found.jacobian - exact.jacobian).abs().max()))
    assert errors[0] == pytest.approx(4 * errors[1], rel=0.02)


def test_spacing():
    spread = torch.tensor([1.0, 3.0, 0.0])
    steps = smoothed.spacing(spread, 1000)
    torch.testing.assert_close(steps[:2], torch.tensor([0.5024, 1.5071]), rtol=1e-3, atol=0)
    assert steps[2] > 0
    torch.testing.assert_close(smoothed.spacing(spread, 32_000)[:2], steps[:2] / 2)


# Finding kinks


class Custom(nn.Module):
    """A function of the row behind a linear layer, which no module type gives away."""

    def __init__(self, function, weight=1.0):
        super().__init__()
        self.function = function
        self.output = nn.Linear(3, 1)
        with torch.no_grad():
            self.output.weight.copy_(weight * torch.tensor([[0.5, -0.7, 0.9]]))

    def forward(self, h):
        return self.output(self.function(h))


def pooled():
    return nn.Sequential(nn.Unflatten(1, (1, 3)), nn.MaxPool1d(3), nn.Flatten())


def fit(head, loss="squared", algorithm=None, labels=None, **options):
    X, y = binary(40, 30)
    objective = dd.Objective(head, loss, width=3, **options)
    y = y if labels is None else labels
    dd.fit(X, y, objective, algorithm or dd.DecoupledDescent(0.02), 2)
    return objective


KINKED_HEADS = {
    "relu": lambda: dd.heads.TwoLayer(3, "relu"),
    "leaky relu": lambda: dd.heads.TwoLayer(3, "leaky_relu"),
    "torch.relu": lambda: dd.heads.TwoLayer(3, torch.relu),
    "functional.relu": lambda: dd.heads.TwoLayer(3, functional.relu),
    "link": lambda: dd.heads.TwoLayer(3, link="relu"),
    **{
        kind.__name__: lambda kind=kind: dd.heads.TwoLayer(3, kind())
        for kind in smoothed.KINKED
        if kind not in (nn.RReLU, nn.Threshold) and "Pool" not in kind.__name__
    },
    "Threshold": lambda: dd.heads.TwoLayer(3, nn.Threshold(0.2, 0.0)),
    "evaluated RReLU": lambda: dd.heads.TwoLayer(3, nn.RReLU()).eval(),
    "max pooling": pooled,
    "ELU with a corner": lambda: dd.heads.TwoLayer(3, nn.ELU(0.5)),
    "softplus cut short": lambda: dd.heads.TwoLayer(3, nn.Softplus(threshold=1.0)),
    "hidden relu": lambda: Custom(torch.relu),
    "lambda": lambda: dd.heads.TwoLayer(3, lambda h: h.clamp(min=0)),
    "abs": lambda: Custom(torch.abs),
    "clamp": lambda: Custom(lambda h: h.clamp(-1, 1)),
    "max": lambda: Custom(lambda h: torch.maximum(h, h.flip(1))),
    "largest": lambda: dd.heads.GeneralisedLinear(lambda h: h.amax(1)),
    "sorted": lambda: Custom(lambda h: h.sort(1).values),
    "step": lambda: Custom(lambda h: h * (h > 0.3)),
    "zero weights": lambda: Custom(torch.relu, weight=0.0),
}


@pytest.mark.parametrize("case", KINKED_HEADS)
def test_kinked_heads_are_found(case):
    head = KINKED_HEADS[case]()
    head.width = 3
    with pytest.warns(dd.KinkWarning, match="has kinks.*macroscopic differences") as caught:
        objective = fit(head)
    assert objective.curvature == "smoothed"
    assert len(caught) == 1


@pytest.mark.parametrize("kind", smoothed.KINKED)
def test_every_type_in_the_list_has_kinks(kind):
    """The list tells no lies: the numerical probe finds what it says."""
    if "Pool" in kind.__name__:
        head = pooled()
    else:
        module = kind(0.2, 0.0) if kind is nn.Threshold else kind()
        head = Custom(lambda h: module(h.float()).to(h))
        module.eval()
    objective = dd.Objective(head, "squared")
    assert smoothed.find_kinks(objective, normal(16), 3, None)


SMOOTH = {
    "tanh": torch.tanh,
    "steep tanh": lambda h: torch.tanh(50 * h),
    "softplus": functional.softplus,
    "sharp softplus": lambda h: functional.softplus(h, beta=30),
    "ELU": functional.elu,
    "CELU": lambda h: functional.celu(h, 2.0),
    "GELU": functional.gelu,
    "Mish": functional.mish,
    "cubic": lambda h: h**3 - 2 * h,
    "C¹": lambda h: h * h.abs(),
    "log-sum-exp": lambda h: torch.logcumsumexp(h, 1),
    "softmax": lambda h: torch.softmax(5 * h, 1),
}


@pytest.mark.parametrize("case", SMOOTH)
def test_smooth_heads_are_left_alone(case):
    assert fit(Custom(SMOOTH[case])).curvature == "autodiff"


def test_overflow_is_no_kink():
    y = normal(16)
    assert not smoothed.jumps(lambda h, y: torch.exp(h**3 * 5), 3, y)


@pytest.mark.parametrize(
    ("loss", "kinked"),
    [
        ("absolute", True),
        (hinge, True),
        (pinball, True),
        (lambda u, y: y * (u.reshape(-1) - 0.3).abs(), True),
        (lambda u, y: functional.huber_loss(u.reshape(-1), y, reduction="none"), False),
        (lambda u, y: functional.relu(1 - y * u.reshape(-1)).square(), False),
        (lambda u, y: torch.log(torch.cosh(u.reshape(-1) - y)), False),
        (lambda u, y: functional.softplus(-y * u.reshape(-1)), False),
    ],
    ids=[
        "absolute",
        "hinge",
        "pinball",
        "some labels",
        "Huber",
        "squared hinge",
        "cosh",
        "logistic",
    ],
)
def test_kinks_of_losses_are_found(loss, kinked):
    """Labels are sorted, so that the first rows see the label 0 only."""
    labels = (torch.arange(40) >= 20).double()
    head = dd.heads.TwoLayer(3, seed=0)
    if not kinked:
        assert fit(head, loss, labels=labels).curvature == "autodiff"
        return
    with pytest.warns(dd.KinkWarning):
        assert fit(head, loss, labels=labels).curvature == "smoothed"


# Telling the user


def test_announced_once():
    X, y = binary()
    objective = dd.Objective(dd.heads.TwoLayer(3, "relu"), "squared")
    with pytest.warns(dd.KinkWarning, match="TwoLayer with loss 'squared'") as caught:
        dd.fit(X, y, objective, dd.DecoupledDescent(0.02), 3)
    assert len(caught) == 1
    dd.fit(X, y, objective, dd.DecoupledDescent(0.02), 3)  # warnings are errors here


@pytest.mark.parametrize("curvature", ["structured", "autodiff", "smoothed"])
def test_silent_when_the_user_chose(curvature):
    objective = fit(dd.heads.TwoLayer(3, "relu"), curvature=curvature)
    assert objective.curvature == curvature


def test_silent_for_gradient_descent():
    objective = fit(dd.heads.TwoLayer(3, "relu"), algorithm=dd.GradientDescent(0.02))
    assert objective.curvature == "auto"


def test_a_run_continued_with_a_new_objective_is_smoothed_too():
    (X, y), head, algorithm = (
        binary(),
        dd.heads.TwoLayer(3, "relu", seed=0),
        dd.DecoupledDescent(0.1),
    )
    whole = dd.fit(X, y, dd.Objective(head, "squared", curvature="smoothed"), algorithm, 9)
    half = dd.fit(X, y, dd.Objective(head, "squared", curvature="smoothed"), algorithm, 5)
    with pytest.warns(dd.KinkWarning):
        rest = dd.fit(X, y, dd.Objective(head, "squared"), algorithm, 5, state=half.state)
    torch.testing.assert_close(rest.theta, whole.theta, rtol=0, atol=1e-12)


def kinked_g(h, y, a):
    return torch.relu(h).sign() * h.flip(1) - y.unsqueeze(1)


def test_kinks_of_g_are_found_and_do_not_stick_to_the_objective():
    """The head and the loss are smooth, and stay exact without g."""
    X, y = binary()
    objective = dd.Objective(dd.heads.TwoLayer(3, seed=0).double(), "squared")
    with pytest.warns(dd.KinkWarning, match="^g has kinks") as caught:
        dd.fit(X, y, objective, dd.DecoupledDescent(0.02, g=kinked_g), 3)
    assert len(caught) == 1
    assert objective.curvature_for(y, 3, kinked_g) == "smoothed"
    assert objective.curvature == objective.curvature_for(y, 3) == "structured"
    h = normal(24, 3)
    exact = dd.Objective(objective.head, "squared", curvature="autodiff")
    assert_agree(objective.derivatives(h, y), exact.derivatives(h, y))
    chosen = dd.Objective(objective.head, "squared", curvature="smoothed")
    found, expected = (o.derivatives(h, y, g=kinked_g) for o in (objective, chosen))
    assert_agree(found, expected)


def test_a_smooth_g_on_a_kinked_head_stays_exact():
    head, h, y = dd.heads.TwoLayer(3, "relu", seed=0).double(), normal(24, 3), normal(24)
    found = dd.Objective(head, "squared").derivatives(h, y, g=lambda h, y, a: torch.sin(h))
    assert_agree(found.jacobian, torch.diag(torch.cos(h).mean(0)))


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
