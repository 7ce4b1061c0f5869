"""Update rules: the paper's, and others put in its place without touching the algorithms."""

from dataclasses import dataclass
from functools import partial

import pytest
import torch
from torch import nn
from torch.func import grad, hessian, vmap

import decoupled_descent as dd
from decoupled_descent.descent.rules import Damped, require_linear
from tests.oracles.shadow import dense
from tests.problems import binary, normal, two_layer

UPDATES = 12


@dataclass(frozen=True)
class Momentum:
    """v ← μ v + w, value ← value − lr(t) v: heavy ball, with a step-dependent rate."""

    lr: float
    momentum: float = 0.0
    halving: int = 10**9

    def slots(self, value):
        return (torch.zeros_like(value),)

    def __call__(self, value, direction, slots, step, scale):
        velocity = self.momentum * slots[0] + scale * direction
        return value - self.lr * 0.5 ** (step // self.halving) * velocity, (velocity,)


def reference(X, y, theta, w, rule, n_scale, head_lr):
    """SGD on [θ, M] with θ.grad = θ̃ and M.grad = −ĥ, for the two-layer tanh head."""
    (n, d), bce = X.shape, nn.functional.binary_cross_entropy_with_logits
    theta, memory = theta.clone(), torch.zeros(n, len(theta), dtype=theta.dtype)
    shadow = torch.optim.SGD([theta, memory], lr=rule.lr, momentum=rule.momentum)
    schedule = torch.optim.lr_scheduler.StepLR(shadow, rule.halving, gamma=0.5)
    errors = []

    def loss(h, label, w):
        return bce(torch.tanh(h) @ w, label)

    for _ in range(UPDATES + 1):
        h = X @ theta.T + memory
        errors.append(vmap(loss, (0, 0, None))(h, y, w).mean().item())
        direction = vmap(grad(loss), (0, 0, None))(h, y, w)
        bend = vmap(hessian(loss), (0, 0, None))(h, y, w).mean(0)
        slope = vmap(grad(loss, argnums=2), (0, 0, None))(h, y, w).mean(0)
        theta.grad = n_scale * (direction.T @ X - n / d * bend @ theta)
        memory.grad = -n_scale * direction
        if len(errors) <= UPDATES:
            shadow.step()
            schedule.step()
            w = w - head_lr * slope
    return torch.tensor(errors, dtype=torch.float64), theta, memory, w


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize(
    "rule",
    [Momentum(0.05, momentum=0.8), Momentum(0.1, halving=7), Momentum(0.05, 0.5, halving=4)],
    ids=["momentum", "schedule", "both"],
)
def test_any_linear_rule_is_sgd_on_theta_and_memory(rule, reduction):
    (X, y), theta, objective = binary(20, 12), normal(3, 12), two_layer(3)
    algorithm = dd.DecoupledDescent(0.05, head_lr=0.2, reduction=reduction, rule=rule)
    run = dd.fit(X, y, objective, algorithm, UPDATES + 1, theta=theta)
    w = objective.head[1].weight.detach()[0]
    scale = 1 / len(X) if reduction == "mean" else 1.0
    errors, theta, memory, w = reference(X, y, theta, w, rule, scale, head_lr=0.2)
    close = {"rtol": 0, "atol": 1e-10}
    torch.testing.assert_close(run.train_error, errors, **close)
    torch.testing.assert_close(run.theta, theta, **close)
    torch.testing.assert_close(run.state.memory.T, memory, **close)
    torch.testing.assert_close(run.head[1].weight[0].detach(), w, **close)


def test_momentum_serves_gradient_descent_too():
    (X, y), theta, objective = binary(20, 12), normal(3, 12), two_layer(3)
    algorithm = dd.GradientDescent(0.0, rule=Momentum(0.05, momentum=0.8))
    run = dd.fit(X, y, objective, algorithm, UPDATES + 1, theta=theta)
    weight = theta.clone().requires_grad_()
    optimiser = torch.optim.SGD([weight], lr=0.05, momentum=0.8)
    for _ in range(UPDATES):
        optimiser.zero_grad()
        output = objective.head(X @ weight.T).squeeze(1)
        nn.functional.binary_cross_entropy_with_logits(output, y, reduction="sum").backward()
        optimiser.step()
    torch.testing.assert_close(run.theta, weight.detach(), rtol=0, atol=1e-12)


COSINE = partial(torch.optim.lr_scheduler.CosineAnnealingLR, T_max=20)
SGDS = {
    "plain": {},
    "weight decay": {"weight_decay": 0.1},
    "momentum": {"momentum": 0.8},
    "dampening": {"momentum": 0.8, "dampening": 0.4, "weight_decay": 0.02},
    "nesterov": {"momentum": 0.8, "nesterov": True, "weight_decay": 0.02},
}


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("schedule", [None, COSINE], ids=["constant", "cosine"])
@pytest.mark.parametrize("options", SGDS.values(), ids=SGDS)
def test_sgd_is_that_of_pytorch_on_theta_and_memory(options, schedule, reduction):
    (X, y), theta, objective = binary(20, 12), normal(3, 12), two_layer(3)
    lr, scale = (0.05, 1.0) if reduction == "sum" else (0.5, 1 / 20)
    rule = dd.rules.SGD(lr, schedule=schedule, **options)
    algorithm = dd.DecoupledDescent(0.2, reduction=reduction, rule=rule)
    run = dd.fit(X, y, objective, algorithm, UPDATES + 1, theta=theta)
    w = objective.head[1].weight.detach()[0]
    make = partial(torch.optim.SGD, lr=lr, **options)
    all_rows, ones = [torch.arange(len(X))] * UPDATES, torch.ones(len(X), dtype=X.dtype)
    theta, memory, *_ = dense(X, y, theta, w, all_rows, make, scale, 0.2, True, ones, schedule)
    torch.testing.assert_close(run.theta, theta, rtol=0, atol=1e-10)
    torch.testing.assert_close(run.state.memory.T, memory, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": -0.1}, "lr=-0.1 must be a number of at least 0"),
        ({"lr": 0.1, "momentum": float("nan")}, "momentum=nan must be a finite number"),
        ({"lr": 0.1, "nesterov": True}, "nesterov=True needs momentum above 0"),
    ],
)
def test_bad_options_of_sgd(options, message):
    with pytest.raises(ValueError, match=message):
        dd.rules.SGD(**options)


@pytest.mark.parametrize("algorithm", [dd.DecoupledDescent, dd.OrthogonalDecoupledDescent])
def test_damping_beside_a_rule(algorithm):
    with pytest.raises(ValueError, match=r"damping=0.9 has no effect beside rule=.*weight_decay"):
        algorithm(0.1, damping=0.9, rule=dd.rules.SGD(0.1))


def test_damped_unrolls_to_the_papers_sum():
    directions, rule = normal(6, 4), Damped(lr=0.3, damping=0.9)
    value = torch.zeros(4, dtype=torch.float64)
    for step, direction in enumerate(directions):
        value, slots = rule(value, direction, (), step, -1.0)
    powers = 0.9 ** torch.arange(5, -1, -1, dtype=torch.float64)
    torch.testing.assert_close(value, 0.3 * powers @ directions)
    assert slots == ()


def test_damped_is_pure():
    value, direction = normal(4, seed=1), normal(4, seed=2)
    kept = value.clone(), direction.clone()
    for damping in (1.0, 0.5):
        Damped(0.1, damping)(value, direction, (), 0, 1.0)
    assert torch.equal(value, kept[0])
    assert torch.equal(direction, kept[1])


class Rule:
    """A rule without slots, v ← v − 0.05 · step(v, w)."""

    def slots(self, value):
        return ()

    def __call__(self, value, direction, slots, step, scale):
        return value - 0.05 * self.moved(value, scale * direction), slots


class TrustRatio(Rule):
    """Homogeneous: doubling θ and θ̃ doubles the next θ."""

    def moved(self, v, w):
        return w * (v.norm() / w.norm().clamp_min(1e-12) if float(v.norm()) > 0 else 1.0)


class NormClipping(Rule):
    def moved(self, v, w):
        return w * min(1.0, 5.0 / max(float(w.norm()), 1e-300))


class RelativeClipping(Rule):
    def moved(self, v, w):
        return w * min(1.0, 0.01 * float(v.norm()) / max(float(w.norm()), 1e-300))


class Clamping(Rule):
    def moved(self, v, w):
        return w.clamp(-100.0, 100.0)


class Signs(Rule):
    def moved(self, v, w):
        return w.sign()


class DeadZone(Rule):
    def moved(self, v, w):
        return nn.functional.softshrink(w, 1e-4)


class Offset(Rule):
    def moved(self, v, w):
        return w + 1.0


class Projection(Rule):
    """θ is kept within a ball."""

    def __call__(self, value, direction, slots, step, scale):
        moved = value - 0.05 * scale * direction
        return moved * min(1.0, 10.0 / max(float(moved.norm()), 1e-300)), slots


class SecondMoment(Rule):
    """Linear in its first step: the slots of an adaptive rate are what is not."""

    def slots(self, value):
        return (torch.zeros_like(value),)

    def __call__(self, value, direction, slots, step, scale):
        moved = value - 0.05 * scale * direction / (1 + slots[0].sqrt())
        return moved, (0.9 * slots[0] + direction.square(),)


class Late(Rule):
    """Linear by step, but for what it does from the second on."""

    def __call__(self, value, direction, slots, step, scale):
        return value - 0.05 * scale * (direction if step < 1 else direction.sign()), slots


BENT = [
    TrustRatio,
    NormClipping,
    RelativeClipping,
    Clamping,
    Signs,
    DeadZone,
    Offset,
    Projection,
    SecondMoment,
    Late,
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", BENT)
def test_rules_that_are_not_linear_are_refused(kind, dtype):
    (X, y), objective = binary(20, 12), two_layer(3)
    rows = dd.Rows(X.to(dtype), y.to(dtype))
    for algorithm in (dd.DecoupledDescent, dd.OrthogonalDecoupledDescent):
        with pytest.raises(ValueError, match=r"rule=.* not linear .* or GradientDescent"):
            algorithm(0.1, rule=kind()).init(rows, objective, seed=0)
    dd.GradientDescent(0.1, rule=kind()).init(rows, objective, seed=0)


class Preconditioner(Rule):
    def __init__(self, dtype):
        self.matrix = normal(3, 3, seed=4).to(dtype)

    def moved(self, v, w):
        return self.matrix @ w


class Rounding(Preconditioner):
    """Computes in float32 whatever it is given."""

    def moved(self, v, w):
        return (self.matrix.float() @ w.float()).to(w)


class Resting(Preconditioner):
    """Momentum and all, but a rate of zero."""

    def slots(self, value):
        return (torch.zeros_like(value),)

    def __call__(self, value, direction, slots, step, scale):
        return 0 * (self.matrix @ direction), slots


class RowRates(Rule):
    def __init__(self, dtype):
        self.lr = torch.tensor([[1.0], [1e-6], [0.0]], dtype=dtype)

    def moved(self, v, w):
        return self.lr * w + 0.1 * v


class Ending(Rule):
    """A schedule of two steps."""

    def __call__(self, value, direction, slots, step, scale):
        return value - [0.1, 0.05][step] * scale * direction, slots


class Counting(Rule):
    """A schedule by how often it was asked, and one by a slot."""

    asked = 0

    def slots(self, value):
        return (torch.zeros(()),)

    def __call__(self, value, direction, slots, step, scale):
        self.asked += 1
        rate = 0.1 / (self.asked + 1) / (1 + slots[0])
        return value - rate * scale * direction, (slots[0] + 1,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "make",
    [
        lambda dtype: Damped(1e-9, 0.5),
        lambda dtype: Damped(1e4),
        lambda dtype: Momentum(0.1, 0.9, halving=2),
        lambda dtype: dd.rules.SGD(0.1, 0.9, 0.3, weight_decay=0.1, schedule=COSINE),
        Preconditioner,
        Rounding,
        Resting,
        RowRates,
        lambda dtype: Ending(),
        lambda dtype: Counting(),
    ],
)
def test_linear_rules_pass(make, dtype):
    rule, theta = make(dtype), torch.zeros(3, 12, dtype=dtype)
    before = torch.get_rng_state()
    require_linear(rule, theta)
    assert torch.equal(torch.get_rng_state(), before)
    assert getattr(rule, "asked", 0) == 0
    assert not theta.any()


def test_a_rule_that_fails_says_so_itself():
    class Wrong(Rule):
        def moved(self, v, w):
            return torch.ones(5, 5, dtype=w.dtype) @ w

    with pytest.raises(RuntimeError, match="shape"):
        require_linear(Wrong(), torch.zeros(3, 12))
