"""Where θ starts: the width of the head, a given θ₁, or one that is drawn."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor, nn

from decoupled_descent.objective import BoundObjective, Objective
from decoupled_descent.objective.chains import does_nothing
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.tensors import check_finite


def head_width(objective: Objective, d: int) -> int:
    """L as the head has it; refuse a model with its first layer that was passed as the head."""
    objective.require_head()
    if objective.width is None:
        raise ValueError(
            f"L cannot be read off head {type(objective.head).__name__}; pass "
            "Objective(…, width=L) or theta of shape (L, d)"
        )
    leaves = (module for module in objective.head.modules() if not list(module.children()))
    first = next((leaf for leaf in leaves if not does_nothing(leaf)), None)
    takes_rows = isinstance(first, nn.Linear) and first.in_features == d > 1
    if takes_rows and objective.declared_width is None:
        raise ValueError(
            f"the head starts with {first}, which takes the d = {d} columns of X: this looks like "
            "a whole model. Its first layer is theta, which is trained in front of the head. Use "
            "Objective.of_model(model, loss), or pass the layers after it as the head, with "
            "theta=model[0].weight to start from the model's own weights; pass "
            f"Objective(…, width={d}) if you mean a head of {d} "
            "pre-activations"
        )
    return objective.width


def starting_theta(
    rows: Rows, bound: BoundObjective, theta: Tensor | None, seed: int | None
) -> Tensor:
    """Check θ₁, take that of a model, or draw independent N(0, 1) entries.

    The same seed gives the same θ₁ in every dtype and on every device.
    """
    if theta is None:
        theta = bound.theta
    if theta is None:
        theta = draw_theta(bound.width, rows.d, seed).to(rows.like)
    theta = as_theta(theta, rows)
    if len(theta) != bound.width:
        raise ValueError(f"theta has {len(theta)} rows but the head takes L = {bound.width}")
    check_finite("theta", theta)
    return rows.common(theta.to(rows.like, copy=True).contiguous())


def as_theta(values: Any, rows: Rows) -> Tensor:
    """Turn a values θ₁ into a tensor beside the rows; raise ``ValueError`` for a wrong shape."""
    theta: Tensor = torch.as_tensor(values, device=rows.like.device).detach()
    if theta.ndim != 2 or theta.shape[1] != rows.d:
        raise ValueError(
            f"theta has shape {tuple(theta.shape)} but X has d = {rows.d} columns; theta must be "
            f"(L, {rows.d}), laid out as nn.Linear.weight"
        )
    return theta


def draw_theta(width: int, d: int, seed: int | None) -> Tensor:
    """Draw θ₁ (L, d) with independent N(0, 1) entries in float64.

    θ₁ has its own random stream: rows drawn with the same seed share no numbers with it. With
    None every call draws another start.
    """
    if seed is None:
        generator = torch.Generator()
        generator.seed()
    else:
        generator = stream(f"theta {int(seed)}")
    return torch.randn(width, d, generator=generator, dtype=torch.float64, device=generator.device)


def stream(name: str) -> torch.Generator:
    """A source of random numbers that depend on a name alone; other names share none of them."""
    digest = hashlib.blake2b(name.encode(), digest_size=4).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "little"))
