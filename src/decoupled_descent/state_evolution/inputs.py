r"""Where an evolution starts: overlaps and head, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from decoupled_descent.objective import Objective, Parameters
from decoupled_descent.state_evolution.laws import MixtureLaw, require_psd


def as_limit(values: Any) -> Tensor:
    """Return a detached tensor in float64 on the CPU."""
    return torch.as_tensor(values, dtype=torch.float64, device="cpu").detach()


def check_limits(mixture: MixtureLaw, alignment: Tensor, overlap: Tensor) -> None:
    r"""Raise ``ValueError`` unless χ, m and Ω can be overlaps of actual vectors.

    .. math:: \begin{bmatrix}\Omega & m^\top\\ m & \chi\end{bmatrix} \succeq 0

    is the Gram matrix of (θ, μ_1, …, μ_J)/√d.
    """
    width, modes = overlap.shape[-1], len(mixture.overlaps)
    if overlap.shape != (width, width):
        raise ValueError(f"overlap has shape {tuple(overlap.shape)}; it must be (L, L)")
    if alignment.shape != (modes, width):
        raise ValueError(
            f"alignment has shape {tuple(alignment.shape)}; with J = {modes} modes and an overlap "
            f"of width L = {width} it must be ({modes}, {width})"
        )
    require_psd("the mixture's overlaps", mixture.overlaps)
    require_psd("overlap", overlap, "it must be θ θᵀ/d for θ of shape (L, d)")
    joint = torch.cat(
        [torch.cat([overlap, alignment.T], 1), torch.cat([alignment, mixture.overlaps], 1)]
    )
    require_psd(
        "the Gram matrix of theta and the means",
        joint,
        "alignment is too large for this overlap and these means: pass both as computed from one "
        "theta, alignment = means θᵀ/d and overlap = θ θᵀ/d",
    )


def check_theta(mixture: MixtureLaw, theta: Any) -> tuple[Tensor, Tensor]:
    """Return the means, shape (J, d), and θ, shape (L, d), in float64."""
    means: Tensor | None = getattr(mixture, "means", None)
    if means is None:
        raise ValueError(
            "theta needs a mixture with means; leave it out, or pass alignment and overlap instead"
        )
    theta = as_limit(theta)
    if theta.ndim != 2 or theta.shape[1] != means.shape[1]:
        raise ValueError(
            f"theta has shape {tuple(theta.shape)}; for this mixture it must be "
            f"(L, {means.shape[1]}), laid out as nn.Linear.weight"
        )
    return means, theta


def head_parameters(
    objective: Objective, head: nn.Module | Mapping[str, Tensor] | None = None
) -> Parameters:
    """Return a in float64 from a module or a mapping; the objective's own values by default."""
    own = objective.parameters(torch.zeros((), dtype=torch.float64))
    if head is None:
        return own
    given = dict(head.named_parameters()) if isinstance(head, nn.Module) else dict(head)
    for name, value in own.items():
        if name not in given or given[name].shape != value.shape:
            raise ValueError(
                f"head has no parameter {name!r} of shape {tuple(value.shape)}; its parameters "
                f"must be those of the objective's head: {', '.join(own)}"
            )
    return {name: as_limit(given[name]) for name in own}
