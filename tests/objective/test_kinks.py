"""Finding kinks of heads, of losses wherever the labels are, and of g."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import decoupled_descent as dd
from decoupled_descent.objective import KinkWarning, kinks
from tests.objective.references import assert_agree
from tests.problems import binary, normal


def hinge(u, y):
    return functional.relu(1 - y * u.reshape(-1))


def difference(u, y):
    return u.reshape(-1) - y


def absolute(u, y):
    return difference(u, y).abs()


def pinball(u, y):
    return torch.maximum(0.2 * difference(u, y), -0.8 * difference(u, y))


# Kinks of heads


class Custom(nn.Module):
    """A function of the row behind a linear layer, which no module type gives away."""

    def __init__(self, function, weight=1.0):
        super().__init__()
        self.function = function
        self.output = nn.Linear(3, 1)
        with torch.no_grad():
            self.output.weight.copy_(weight * torch.tensor([[0.5, -0.7, 0.9]]))
            self.output.bias.zero_()

    def forward(self, h):
        return self.output(self.function(h))


def pooled():
    return nn.Sequential(nn.Unflatten(1, (1, 3)), nn.MaxPool1d(3), nn.Flatten())


def fit(head, loss="squared", algorithm=None, labels=None, **options):
    X, y = binary(40, 30)
    objective = dd.Objective(head, loss, width=3, **options)
    y = y if labels is None else labels
    return dd.fit(X, y, objective, algorithm or dd.DecoupledDescent(0.002), 2).bound


KINKED_HEADS = {
    "relu": lambda: dd.heads.TwoLayer(3, "relu"),
    "leaky relu": lambda: dd.heads.TwoLayer(3, "leaky_relu"),
    "torch.relu": lambda: dd.heads.TwoLayer(3, torch.relu),
    "functional.relu": lambda: dd.heads.TwoLayer(3, functional.relu),
    "link": lambda: dd.heads.TwoLayer(3, link="relu"),
    **{
        kind.__name__: lambda kind=kind: dd.heads.TwoLayer(3, kind())
        for kind in kinks.KINKED
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
    with pytest.warns(KinkWarning, match="has kinks.*differences with large steps") as caught:
        bound = fit(head)
    assert bound.curvature == "smoothed"
    assert len(caught) == 1
    assert caught[0].filename == __file__, "the user's own line, not one of the package"


@pytest.mark.parametrize("kind", kinks.KINKED)
def test_every_type_in_the_list_has_kinks(kind):
    """The list tells no lies: the numerical probe finds what it says."""
    if "Pool" in kind.__name__:
        head = pooled()
    else:
        module = kind(0.2, 0.0) if kind is nn.Threshold else kind()
        head = Custom(lambda h: module(h.float()).to(h))
        module.eval()
    objective = dd.Objective(head, "squared")

    def slopes(h, y, a):
        h = h.detach().requires_grad_()
        return torch.autograd.grad(objective.losses(h, y, a).sum(), h)[0]

    assert kinks.values_jump(slopes, objective.parameters, 3, normal(16))


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
    assert not kinks.jumps(lambda h, y: torch.exp(h**3 * 5), 3, y)


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
    with pytest.warns(KinkWarning):
        assert fit(head, loss, labels=labels).curvature == "smoothed"


# Telling the user


def test_announced_at_every_fit():
    (X, y), algorithm = binary(), dd.DecoupledDescent(0.02)
    objective, thetas = dd.Objective(dd.heads.TwoLayer(3, "relu", seed=0), "squared"), []
    for _ in range(2):
        with pytest.warns(KinkWarning, match="TwoLayer with loss 'squared'") as caught:
            thetas.append(dd.fit(X, y, objective, algorithm, 3).theta)
        assert len(caught) == 1
    assert torch.equal(*thetas)


@pytest.mark.parametrize("curvature", ["structured", "autodiff", "smoothed"])
def test_silent_when_the_user_chose(curvature):
    assert fit(dd.heads.TwoLayer(3, "relu"), curvature=curvature).curvature == curvature


def test_silent_for_gradient_descent():
    """It asks for no J̄; who asks its bound objective for one gets the right one."""
    bound = fit(dd.heads.TwoLayer(3, "relu"), algorithm=dd.GradientDescent(0.02))
    assert bound.curvature == "smoothed"


def test_a_run_continued_with_a_new_objective_is_smoothed_too():
    (X, y), head, algorithm = (
        binary(),
        dd.heads.TwoLayer(3, "relu", seed=0),
        dd.DecoupledDescent(0.1),
    )
    full = dd.fit(X, y, dd.Objective(head, "squared", curvature="smoothed"), algorithm, 9)
    half = dd.fit(X, y, dd.Objective(head, "squared", curvature="smoothed"), algorithm, 5)
    with pytest.warns(KinkWarning):
        rest = dd.fit(X, y, dd.Objective(head, "squared"), algorithm, 5, state=half.state)
    torch.testing.assert_close(rest.theta, full.theta, rtol=0, atol=1e-12)


def kinked_g(h, y, a):
    return torch.relu(h).sign() * h.flip(1) - y.unsqueeze(1)


def test_kinks_of_g_are_found_and_do_not_stick_to_the_objective():
    """The head and the loss are smooth, and stay exact without g."""
    X, y = binary()
    objective = dd.Objective(dd.heads.TwoLayer(3, seed=0).double(), "squared")
    with pytest.warns(KinkWarning, match="^g has kinks") as caught:
        dd.fit(X, y, objective, dd.DecoupledDescent(0.02, g=kinked_g), 3)
    assert len(caught) == 1
    assert objective.bind(y, 3, X).curvature == "structured"
    h = normal(24, 3)
    exact = dd.Objective(objective.head, "squared", curvature="autodiff")
    assert_agree(objective.derivatives(h, y), exact.derivatives(h, y))
    chosen = dd.Objective(objective.head, "squared", curvature="smoothed")
    with pytest.warns(KinkWarning, match="^g has kinks"):
        result = objective.derivatives(h, y, g=kinked_g)
    assert_agree(result, chosen.derivatives(h, y, g=kinked_g))


def test_a_smooth_g_on_a_kinked_head_stays_exact():
    head, h, y = dd.heads.TwoLayer(3, "relu", seed=0).double(), normal(24, 3), normal(24)
    result = dd.Objective(head, "squared").derivatives(h, y, g=lambda h, y, a: torch.sin(h))
    assert_agree(result.jacobian, torch.diag(torch.cos(h).mean(0)))


def test_poles_and_holes_are_no_jumps():
    y = normal(16)
    assert not kinks.jumps(lambda h, y: 1 / h, 1, y)
    assert not kinks.jumps(lambda h, y: (h - 0.3).log(), 1, y)
    assert kinks.jumps(lambda h, y: (h + 3).sqrt() * (h - 0.3).sign(), 1, y)
