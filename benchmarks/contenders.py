"""The things that are timed against each other: each function returns a no-argument step."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

import decoupled_descent as dd
from decoupled_descent.app.reproduce.listing import Listing
from decoupled_descent.rows.products import backward, forward

Step = Callable[[], object]


def problem(n: int, d: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Two shifted classes with noise of variance 1/d, float32."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 2, (n,), generator=generator).float()
    X = torch.randn(n, d, generator=generator) / d**0.5
    return X + (2 * y - 1).unsqueeze(1) * 2 / d, y


def ours(
    X: Tensor,
    y: Tensor,
    width: int,
    algorithm: dd.descent.Algorithm,
    block_size: int | None = None,
    **options,
) -> Step:
    """One step of an algorithm of this package, train error included, as ``fit`` makes it."""
    head = options.pop("head", None) or dd.heads.TwoLayer(width, seed=0)
    objective = dd.Objective(head, options.pop("loss", "logistic"), **options)
    rows = dd.Rows(X, y, block_size)
    theta = 0.1 * torch.randn(width, X.shape[1])
    bound = algorithm.bind(rows, objective, theta)
    state = algorithm.init(rows, bound, theta)

    def step() -> None:
        nonlocal state
        state, info = algorithm.step(state, rows, bound)
        info.losses.mean().item()

    return step


def two_passes(step: Step) -> Step:
    """The same step with X multiplied twice by ``torch.mm``, as one writes it oneself."""

    def plain() -> None:
        with torch.backends.mkldnn.flags(enabled=False, allow_tf32=None):
            step()

    return plain


class Network(nn.Module):
    """The two-layer network as a PyTorch user writes it."""

    def __init__(self, d: int, width: int, hidden: nn.Module | None = None) -> None:
        super().__init__()
        self.first = nn.Linear(d, width, bias=False)
        self.head = hidden or nn.Sequential(nn.Tanh(), nn.Linear(width, 1, bias=False))

    def forward(self, x: Tensor, memory: Tensor | float = 0.0) -> tuple[Tensor, Tensor]:
        z = self.first(x) + memory
        return self.head(z).squeeze(1), z


def torch_gradient_descent(X: Tensor, y: Tensor, width: int, head: nn.Module | None = None) -> Step:
    """Gradient descent with autograd and ``optim.SGD``."""
    model = Network(X.shape[1], width, head)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        optimiser.zero_grad()
        loss = functional.binary_cross_entropy_with_logits(model(X)[0], y)
        loss.backward()
        optimiser.step()
        loss.item()

    return step


def paper_listing(X: Tensor, y: Tensor, width: int) -> Step:
    """Decoupled descent as the paper's appendix implements it: one reverse pass per hidden unit."""
    model = Network(X.shape[1], width)
    return Listing(X, y, model.first.weight.detach(), model.head[1].weight.detach(), lr=0.1).step


def two_products(X: Tensor, width: int) -> Step:
    """The two products with X that no method avoids, and nothing else."""
    theta, direction = torch.randn(width, X.shape[1]), torch.randn(width, len(X))
    return lambda: (forward(theta, X), backward(direction, X))


def read_once(X: Tensor) -> Step:
    """Read every entry of X."""
    return lambda: X.sum()


def torch_epochs(X: Tensor, y: Tensor, width: int, batch: int) -> Step:
    """A pass of mini-batches with autograd and ``optim.SGD``, rows gathered in random order."""
    model = Network(X.shape[1], width)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)

    def epoch() -> None:
        for rows in torch.randperm(len(X)).split(batch):
            optimiser.zero_grad()
            loss = functional.binary_cross_entropy_with_logits(model(X[rows])[0], y[rows])
            loss.backward()
            optimiser.step()
            loss.item()

    return epoch
