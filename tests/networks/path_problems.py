"""Small problems for tests of whole networks."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import decoupled_descent as dd


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
