"""Small problems for tests of whole networks."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import decoupled_descent as dd
from decoupled_descent.networks.path.derivatives import Network


def rows(n: int, d: int, classes: int = 2, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Normal rows, and labels that depend on them, with noise."""
    draw = torch.Generator().manual_seed(seed)
    X = torch.randn(n, d, generator=draw, dtype=torch.float64)
    scores = X[:, :classes] + 0.5 * torch.randn(n, classes, generator=draw, dtype=torch.float64)
    y = scores.argmax(1)
    return X, (y.double() if classes == 2 else y)


def tanh_network(d: int, width: int, outputs: int = 1, seed: int = 0) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = (nn.Linear(d, width), nn.Tanh(), nn.Linear(width, outputs))
        return nn.Sequential(*layers).double()


def recorded(X, y, model, algorithm, steps, **options) -> tuple[dd.Run, list[Tensor]]:
    """A run, and the left-out outputs at every step."""
    seen: list[Tensor] = []
    run = dd.fit(
        *(X, y, model, algorithm, steps),
        callbacks=lambda step: seen.append(step.info.preactivations),
        **options,
    )
    return run, seen


def close(found, wanted, tolerance=1e-10):
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)


def two_networks(build, shape, loss, y):
    """The same network with the layers written out, and with the derivatives of torch.func."""
    torch.manual_seed(0)
    model, X = build().double(), torch.randn(7, *shape, dtype=torch.float64)
    fast = Network(model, loss, X)
    fast.measure(X)
    hidden = nn.Sequential(Hidden(model))
    slow = Network(hidden, loss, X)
    slow.measure(X)
    return fast, slow, X, y


class Hidden(nn.Module):
    """A module whose layers cannot be seen."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


def compare_products(fast, slow, X, y):
    betas = fast.start + 0.3 * torch.randn(5, fast.size, dtype=torch.float64)
    along, weights = torch.randn(5, fast.size).double(), torch.rand(5, 7).double()
    count = fast.outputs(fast.start, X).shape[1]
    assert fast.by_layers
    assert not slow.by_layers
    for name, given in {
        "copy_outputs": (betas, X),
        "own_outputs": (betas, X[:5]),
        "own_directions": (betas, X[:5], along),
        "direction": (betas[0], X, along[0]),
    }.items():
        close(getattr(fast, name)(*given), getattr(slow, name)(*given))
    for step in (None, along[0], along):
        with slow.differentiable():
            wanted = slow.residuals(betas, X, y, weights, step)
        for found, own in zip(fast.residuals(betas, X, y, weights, step), wanted, strict=True):
            close(found, own)
    jacobians = [
        torch.cat([part for _, part in each.jacobians(betas[0], X, count)]) for each in (fast, slow)
    ]
    close(*jacobians)
