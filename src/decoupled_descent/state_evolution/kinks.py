r"""Search for jumps in what is averaged, because Gauss–Hermite rules converge slowly across them.

The nodes of a rule of order N are π/√N apart. Across a jump of size Δ the error is up to half of
this distance times Δ φ(z), several percent for N = 64; across a kink it is proportional to the
square of the distance. Such averages are sampled instead.
"""

from __future__ import annotations

import torch
from torch import Tensor

from decoupled_descent.objective import Parameters, kinks
from decoupled_descent.state_evolution.averages import Model


def loss_has_kinks(model: Model) -> bool:
    """Whether Ψ or its slope jumps, so that E Ψ should be sampled. Ψ needs no gradient."""
    objective = model.objective
    if kinks.has_kinked_module(objective.head) or not objective.loss.smooth:
        return True
    if objective.closed_form:
        return False
    about = (objective.parameters, model.width, model.responses)
    if kinks.loss_jumps(objective.loss, objective.pure_head, *about) or values_jump(
        model, model.losses
    ):
        return True
    try:
        return values_jump(model, model.gradients)
    except (RuntimeError, ValueError):  # no gradient: nothing is known about the slope
        return True


def has_kinks(model: Model) -> bool:
    """Whether Ψ, its slope, g or their derivatives jump, so that the recursion should be sampled.

    A g that cannot be probed is taken to be smooth.
    """
    if loss_has_kinks(model):
        return True
    if not model.objective.closed_form and values_jump(model, model.plain.row_jacobians):
        return True
    g = model.bound.g  # of the first step, where it depends on the step
    if g is None:
        return False

    def own(h: Tensor, y: Tensor, parameters: Parameters) -> Tensor:
        bends = model.bound.row_jacobians(h, y, parameters)
        return torch.cat([g(h, y, parameters).detach(), bends.flatten(1)], 1)

    try:
        return values_jump(model, own)
    except (RuntimeError, ValueError):
        return False


def values_jump(model: Model, values: kinks.Values) -> bool:
    """Whether values of (h, y, a) jump, along a few lines, for a few responses and weights."""

    def flat(h: Tensor, y: Tensor, parameters: Parameters) -> Tensor:
        return values(h, y, parameters).reshape(len(h), -1)

    return kinks.values_jump(flat, model.objective.parameters, model.width, model.responses)
