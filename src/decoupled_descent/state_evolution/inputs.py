r"""Where an evolution starts: overlaps, head and objective, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from decoupled_descent.objective import Direction, Objective
from decoupled_descent.objective.derivatives import Parameters
from decoupled_descent.state_evolution.laws import MixtureLaw, atoms, require_psd


def check_steps(steps: Any) -> None:
    """Raise ``ValueError`` unless T is a whole number of at least 1.

    Args:
        steps: T.
    """
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 1:
        raise ValueError(f"steps={steps!r} must be a whole number of at least 1")


def check_limits(mixture: MixtureLaw, alignment: Tensor, overlap: Tensor) -> None:
    r"""Raise ``ValueError`` unless χ, m and Ω can be overlaps of actual vectors.

    .. math:: \begin{bmatrix}\Omega & m^\top\\ m & \chi\end{bmatrix} \succeq 0

    is the Gram matrix of (θ, μ_1, …, μ_J)/√d, so nothing else can occur.

    Args:
        mixture: Gives χ.
        alignment: m_j, shape (J, L).
        overlap: Ω, shape (L, L).
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


def theta_limits(mixture: MixtureLaw, theta: Any) -> tuple[Tensor, Tensor]:
    """Overlaps of θ with the means and with itself: μ_jᵀθ/d and θᵀθ/d.

    Args:
        mixture: With means.
        theta: θ, shape (L, d).

    Returns:
        Alignment of shape (J, L) and overlap of shape (L, L), in float64.
    """
    means = getattr(mixture, "means", None)
    if means is None:
        raise ValueError("theta needs a mixture with means; pass alignment and overlap instead")
    theta = torch.as_tensor(theta).detach().to("cpu", torch.float64)
    if theta.ndim != 2 or theta.shape[1] != means.shape[1]:
        raise ValueError(
            f"theta has shape {tuple(theta.shape)}; for this mixture it must be "
            f"(L, {means.shape[1]}), laid out as nn.Linear.weight"
        )
    return means @ theta.T / theta.shape[1], theta @ theta.T / theta.shape[1]


def head_parameters(
    objective: Objective, head: nn.Module | Mapping[str, Tensor] | None = None
) -> Parameters:
    """The head's trainable parameters in float64, from a module, a mapping or the objective.

    Args:
        objective: Knows the names and the defaults.
        head: Replaces the objective's own values.

    Returns:
        a, by name.
    """
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
    return {name: given[name].detach().to("cpu", torch.float64) for name in own}


def typical_responses(mixture: MixtureLaw) -> Tensor:
    """Responses to try things with: all there are where they can be enumerated, else a few each.

    Args:
        mixture: The mixture.

    Returns:
        Responses, a vector.
    """
    support = atoms(mixture)
    if support is not None:
        return torch.tensor(sorted({atom.response for atom in support}), dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    return torch.cat([law(4, generator).double() for law in mixture.responses])


def check_objective(objective: Objective, mixture: MixtureLaw, width: int) -> None:
    """Raise ``ValueError`` unless the head takes L pre-activations and the responses fit the loss.

    Args:
        objective: Ψ.
        mixture: Gives responses.
        width: L.
    """
    responses = typical_responses(mixture)
    objective.check(responses, width, torch.zeros((), dtype=torch.float64))


def announce_kinks(
    objective: Objective, mixture: MixtureLaw, width: int, g: Direction | None = None
) -> None:
    """Look g over for kinks before any step and warn of them, like training.

    Args:
        objective: Ψ.
        mixture: Gives responses.
        width: L.
        g: Replaces ∇_hΨ.
    """
    y = typical_responses(mixture)
    objective.bind(y, width, y, g=g)
