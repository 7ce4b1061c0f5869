"""Train errors when the mixture changes after training, with and without weights; three tables.

``python studies/shift.py {labels,modes,signal}`` prints the tables of the theory page, all of
them by default. Five minutes on one core.
"""

import math
import sys

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

import decoupled_descent as dd

N, STEPS, RUNS, SNR = 1000, 30, 20, 1.5
#: Two orthogonal signals of squared length d · snr².
V = torch.full((N,), SNR, dtype=torch.float64)
U = V * torch.where(torch.arange(N) % 2 == 0, 1.0, -1.0)


def trained(X, y, objective, seed, theta=None, **options):
    """Train error and state at the last step."""
    options = options or {"damping": 0.95}
    seen, algorithm = [], dd.DecoupledDescent(0.1, **options)
    dd.fit(X, y, objective, algorithm, STEPS, theta, callbacks=[seen.append], seed=seed)
    return seen[-1].info.train_error, seen[-1].state


def truth(mixture, objective, theta, head):
    """The error of parameters on a mixture."""
    return float(dd.theory.population_test_error(mixture, objective, theta, head))


# --- the frequencies of the labels change ---------------------------------------------------------


def by_label(share):
    return dd.GaussianMixture(torch.stack([V, -V]), [1 - share, share], [0.0, 1.0])


def labels(share, weighted, seed):
    plain = dd.Objective(dd.heads.TwoLayer(1, bias=True, seed=0), "logistic")
    half, after = {0.0: 0.5, 1.0: 0.5}, {0.0: 1 - share, 1.0: share}
    objective = plain if weighted == "no" else dd.objective.label_shift(plain, half, after)
    train, state = trained(*by_label(0.5).sample(N, seed=seed), objective, seed)
    return train, truth(by_label(share), plain, state.theta, state.head)


# --- the frequencies of modes change, those of the labels do not ----------------------------------


def of_mode(outputs, y):
    """Logistic loss for responses that name the mode: 0 and 1 are one class, 2 and 3 the other."""
    return binary_cross_entropy_with_logits(outputs[:, 0], (y < 2).to(outputs), reduction="none")


def by_mode(rare):
    """Modes ±v ± u; the class is the sign of v, and ``rare`` of one class is at v − u."""
    means = torch.stack([V + U, V - U, -V + U, -V - U])
    return dd.GaussianMixture(means, [0.5 - rare, rare, 0.25, 0.25], [0.0, 1.0, 2.0, 3.0])


def modes(rare, weighted, seed):
    plain = dd.Objective(dd.heads.TwoLayer(2, bias=True, seed=0), of_mode)
    before, after = (
        dict(enumerate(mixture.weights.tolist())) for mixture in (by_mode(0.05), by_mode(rare))
    )
    objective = plain if weighted == "no" else dd.objective.label_shift(plain, before, after)
    train, state = trained(*by_mode(0.05).sample(N, seed=seed), objective, seed)
    return train, truth(by_mode(rare), plain, state.theta, state.head)


# --- the signal itself moves: v turns towards u ---------------------------------------------------


class Beside(nn.Module):
    """A linear model of h_1; h_2 is handed on to the loss."""

    width = 2

    def forward(self, h):
        return h


def moved_loss(outputs, y):
    """Weights p(x | y) after over before, exp(±Δᵀx) for signals of equal length."""
    losses = binary_cross_entropy_with_logits(outputs[:, 0], y, reduction="none")
    return torch.exp((1 - 2 * y) * outputs[:, 1]) * losses


def plain_slope(h, y, _):
    """The gradient without weights; the second unit stays where it is."""
    slope = torch.sigmoid(h[:, 0]) - y
    return torch.stack([slope, torch.zeros_like(slope)], 1)


def weighted_slope(h, y, _):
    """The same with weights."""
    return torch.exp((1 - 2 * y) * h[:, 1]).unsqueeze(1) * plain_slope(h, y, _)


class StandStill:
    """The paper's rule for the first row of θ; the second stays."""

    lr, damping = torch.tensor([[0.1], [0.0]]), torch.tensor([[0.95], [1.0]])

    def slots(self, value):
        return ()

    def __call__(self, value, direction, slots, step, scale):
        damping, lr = (rate.to(value) for rate in (self.damping, self.lr))
        return damping * value - lr * scale * direction, slots


def signal(angle, weighted, seed):
    turned = math.cos(math.radians(angle)) * V + math.sin(math.radians(angle)) * U
    after = dd.GaussianMixture(torch.stack([turned, -turned]), [0.5, 0.5], [0.0, 1.0])
    X, y = by_label(0.5).sample(N, seed=seed)
    plain = dd.Objective(dd.heads.Linear(), "logistic")
    theta = torch.randn(1, N, generator=torch.Generator().manual_seed(seed)).double()
    if weighted == "no":
        train, state = trained(X, y, plain, seed, theta)
        return train, truth(after, plain, state.theta, state.head)
    both = torch.cat([theta, (turned - V).unsqueeze(0)])  # the second unit reads Δᵀx
    g = plain_slope if weighted == "in the estimate" else weighted_slope
    objective = dd.Objective(Beside(), moved_loss)
    train, state = trained(X, y, objective, seed, both, g=g, rule=StandStill())
    return train, truth(after, plain, state.theta[:1], {})


# --- tables ---------------------------------------------------------------------------------------

TABLES = {
    "labels": ("share of ones after", labels, (0.5, 0.3, 0.1), ("no", "yes")),
    "modes": ("share at v − u after, 0.05 before", modes, (0.05, 0.25, 0.45), ("no", "yes")),
    "signal": (
        "v turns by, degrees",
        signal,
        (0, 10, 20, 40, 60),
        ("no", "in the estimate", "in training too"),
    ),
}


def table(title, measure, settings, weights):
    print(f"| {title} | weights | train error | error after the shift | difference |")
    print("|---|---|---|---|---|")
    for setting in settings:
        for weighted in weights:
            found = torch.tensor([measure(setting, weighted, s) for s in range(RUNS)]).double()
            train, after = found.mean(0).tolist()
            gap = found[:, 0] - found[:, 1]
            spread = f"{float(gap.mean()):+.4f} ± {float(gap.std()) / RUNS**0.5:.4f}"
            print(f"| {setting} | {weighted} | {train:.4f} | {after:.4f} | {spread} |", flush=True)
    print()


if __name__ == "__main__":
    for name in sys.argv[1:] or TABLES:
        table(*TABLES[name])
