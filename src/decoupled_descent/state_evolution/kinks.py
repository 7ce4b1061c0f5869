r"""Looks for jumps in what is averaged: Gauss–Hermite rules converge slowly across them.

The nodes of a rule of order N are π/√N apart. Across a jump of size Δ the rule is off by up to half
of that times Δ φ(z), which is several percent for N = 64; across a kink, in proportion to the
square. Such averages are sampled instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from decoupled_descent.objective.derivatives import Parameters
from decoupled_descent.objective.objective import Direction
from decoupled_descent.state_evolution.averages import Model, jumps

Values = Callable[[Tensor, Tensor, Parameters], Tensor]


def loss_has_kinks(model: Model) -> bool:
    """Whether Ψ or its slope jumps, so that E Ψ should be sampled. Ψ needs no gradient.

    Example:
        >>> import decoupled_descent as dd
        >>> mixture, linear = dd.mixtures.flipped_classes(10), dd.heads.Linear()
        >>> losses = ["squared", "absolute", lambda u, y: (y * u[:, 0] < 0).double()]
        >>> [loss_has_kinks(Model(dd.Objective(linear, loss), mixture, 1)) for loss in losses]
        [False, True, True]
    """
    if model.known_kinks:
        return True
    if model.closed_form:
        return False

    def losses(h: Tensor, y: Tensor, parameters: Parameters) -> Tensor:
        return model.losses(h, y, parameters).unsqueeze(1)

    if model.loss_jumps() or _jump(model, losses):
        return True
    try:
        return _jump(model, model.gradients)
    except (RuntimeError, ValueError):  # no gradient: nothing is known about the slope
        return True


def has_kinks(model: Model) -> bool:
    """Whether Ψ, its slope, g or their derivatives jump, so that the recursion should be sampled.

    A g that cannot be probed is taken to be smooth.

    Example:
        >>> import decoupled_descent as dd
        >>> from decoupled_descent.descent.common import LimitStep
        >>> objective, mixture = dd.Objective(dd.heads.Linear(), "squared"), dd.mixtures.xor(10)
        >>> clipped, tanh = lambda h, y, a: h.clamp(-1, 1), lambda h, y, a: h.tanh()
        >>> [has_kinks(Model(objective, mixture, 1, LimitStep(g))) for g in (clipped, tanh)]
        [True, False]
    """
    if loss_has_kinks(model):
        return True
    if not model.closed_form and _jump(model, partial(_bends, model, None)):
        return True
    g = model.step.g
    try:
        return g is not None and _jump(model, partial(_bends, model, g))
    except (RuntimeError, ValueError):
        return False


def _bends(
    model: Model, g: Direction | None, h: Tensor, y: Tensor, parameters: Parameters
) -> Tensor:
    """Return the row Jacobians of ∇Ψ, or g and its own, side by side."""
    bends = model.row_jacobians(h, y, parameters, g).flatten(1)
    return bends if g is None else torch.cat([g(h, y, parameters).detach(), bends], 1)


def _jump(model: Model, values: Values) -> bool:
    """Probe along a few lines, with a few responses."""
    y = model.probed_responses()
    probes = (at_head(values, head) for head in probed_heads(model))
    return any(jumps(probe, model.width, y) for probe in probes)


def probed_heads(model: Model) -> list[Parameters]:
    """Return heads to probe with: as it is, and with larger weights; zeros would hide kinks."""
    own = model.objective.parameters(torch.zeros((), dtype=torch.float64))
    return [
        {k: scale * torch.where(v == 0, 1.0, v) for k, v in own.items()}
        for scale in ((1.0, 5.0) if own else (1.0,))
    ]


def at_head(values: Values, parameters: Parameters) -> Callable[[Tensor, Tensor], Tensor]:
    """Return (h, y) ↦ values(h, y, parameters)."""
    return lambda h, y: values(h, y, parameters)
