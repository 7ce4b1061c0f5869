"""What a step costs: decoupled descent against gradient descent, and both against their floor."""

import pytest
import torch
from torch import nn

import decoupled_descent as dd

from . import contenders as make

SIZES = [(800, 784, 3), (800, 784, 9), (800, 784, 27), (1000, 1000, 2), (8000, 4000, 9)]
DD = dd.DecoupledDescent(0.1, reduction="mean")
GD = dd.GradientDescent(0.1, reduction="mean")
ODD = dd.OrthogonalDecoupledDescent(0.1, 0.98, reduction="mean")


def label(n, d, width):
    return f"n={n} d={d} L={width}"


#: What decoupled descent is raced against, one at a time: a rival's tensors chill the caches of
#: whoever runs next, so a crowd would measure the company, not the step.
RIVALS = {
    "PyTorch GD": lambda X, y, width: make.torch_gradient_descent(X, y, width),
    "our GD": lambda X, y, width: make.ours(X, y, width, GD),
    "two-pass GD": lambda X, y, width: make.two_passes(make.ours(X, y, width, GD, len(X))),
    "ODD": lambda X, y, width: make.ours(X, y, width, ODD),
    "paper's listing": lambda X, y, width: make.paper_listing(X, y, width),
    "two bare products": lambda X, y, width: make.two_products(X, width),
    "reading X once": lambda X, y, width: make.read_once(X),
}


def target(rival, n, width):
    if rival == "paper's listing" and n == 800:
        return {9: 0.35, 27: 0.15}.get(width)
    return {"PyTorch GD": 1.0, "two-pass GD": 0.75, "ODD": 1.3}.get(rival)


@pytest.mark.parametrize("rival", RIVALS)
@pytest.mark.parametrize(("n", "d", "width"), SIZES)
def test_two_layer_step(race, n, d, width, rival):
    if rival == "two-pass GD" and n < 4000:
        pytest.skip("X fits the caches")
    X, y = make.problem(n, d)
    contenders = {"dd": make.ours(X, y, width, DD), "rival": RIVALS[rival](X, y, width)}
    times = race(contenders, rounds=25 if n > 4000 else 100, burst=2 if n > 4000 else 10)
    size, limit = label(n, d, width), target(rival, n, width)
    if rival == "ODD":
        race.ratio(size, "ODD / DD", times.ratio("rival", "dd"), limit)
    else:
        race.ratio(size, f"DD / {rival}", times.ratio("dd", "rival"), limit)


def test_product_head(race):
    X, y = make.problem(1000, 1000)
    head = dd.heads.Product(a=1.0)
    times = race(
        {name: make.ours(X, y, 2, kind, head=head) for name, kind in {"dd": DD, "gd": GD}.items()},
        rounds=100,
        burst=10,
    )
    race.ratio(label(1000, 1000, 2), "DD / our GD, product head", times.ratio("dd", "gd"))


class Gated(nn.Module):
    """A head without a closed form."""

    def __init__(self, width):
        super().__init__()
        self.value, self.gate = nn.Linear(width, 1), nn.Linear(width, 1)

    def forward(self, h):
        return torch.tanh(self.value(torch.tanh(h))) * torch.sigmoid(self.gate(h))


@pytest.mark.parametrize("width", [9, 27])
def test_generic_head(race, width):
    X, y = make.problem(800, 784)
    times = race(
        {
            "dd": make.ours(X, y, width, DD, head=Gated(width), curvature="autodiff"),
            "torch gd": make.torch_gradient_descent(X, y, width, Gated(width)),
            "two-layer dd": make.ours(X, y, width, DD, curvature="autodiff"),
            "two-layer torch gd": make.torch_gradient_descent(X, y, width),
        },
        rounds=100,
        burst=10,
    )
    size = label(800, 784, width)
    for name, what in (("", "gated head"), ("two-layer ", "two-layer")):
        ratio = times.ratio(f"{name}dd", f"{name}torch gd")
        race.ratio(size, f"autodiff DD / PyTorch GD, {what}", ratio, 2.0)


@pytest.mark.parametrize("momentum", [0.0, 0.8])
def test_mini_batches(race, momentum):
    """A pass of 100 updates; ours has the train error of all rows in it."""
    X, y = make.problem(100_000, 500)
    rule = dd.rules.SGD(0.1, momentum) if momentum else None
    algorithm = dd.DecoupledDescent(0.1, reduction="mean", rule=rule, batch_size=1000)
    contenders = {"dd": make.ours(X, y, 8, algorithm), "torch": make.torch_epochs(X, y, 8, 1000)}
    times = race(contenders, rounds=12)
    what = "DD / PyTorch SGD, batches of 1000" + (", momentum" if momentum else "")
    race.ratio(label(100_000, 500, 8), what, times.ratio("dd", "torch"), 1.5)


def test_head_folds(race):
    X, y = make.problem(800, 784)
    folds = dd.DecoupledDescent(0.1, reduction="mean", head_folds=5)
    contenders = {"folds": make.ours(X, y, 9, folds), "dd": make.ours(X, y, 9, DD)}
    times = race(contenders, rounds=100, burst=10)
    race.ratio(label(800, 784, 9), "DD with five head folds / DD", times.ratio("folds", "dd"))


@pytest.mark.parametrize("axis", ["n", "d", "L"])
def test_growth(race, axis):
    base = {"n": 1000, "d": 1000, "L": 8}
    steps = {}
    for factor in (1, 2, 4):
        n, d, width = (base[key] * (factor if key == axis else 1) for key in ("n", "d", "L"))
        X, y = make.problem(n, d)
        steps[factor] = make.ours(X, y, width, DD)
    times = race({str(factor): step for factor, step in steps.items()}, rounds=60)
    for factor in (2, 4):
        grown = times.ratio(str(factor), "1")
        race.ratio(label(*base.values()), f"DD with {factor} × {axis} / DD", grown)
