r"""Looks for jumps in what is averaged: Gauss–Hermite rules converge slowly across them.

The nodes of a rule of order N are π/√N apart. Across a jump of size Δ the rule is off by up to half
of that times Δ φ(z), which is several percent for N = 64; across a kink, in proportion to the
square. Such averages are sampled instead.
"""

from __future__ import annotations

import torch
from torch import Tensor

from decoupled_descent.objective import Parameters, kinks
from decoupled_descent.state_evolution.averages import Model


def loss_has_kinks(model: Model) -> bool:
    """Whether Ψ or its slope jumps, so that E Ψ should be sampled. Ψ needs no gradient.

    Example:
        >>> import decoupled_descent as dd
        >>> mixture, linear = dd.mixtures.flipped_classes(10), dd.heads.Linear()
        >>> losses = ["squared", "absolute", lambda u, y: (y * u[:, 0] < 0).double()]
        >>> [loss_has_kinks(Model(dd.Objective(linear, loss), mixture, 1)) for loss in losses]
        [False, True, True]
    """
    objective = model.objective
    if kinks.has_kinked_module(objective.head) or not objective.loss.smooth:
        return True
    if objective.closed_form:
        return False

    def losses(h: Tensor, y: Tensor, parameters: Parameters) -> Tensor:
        return model.losses(h, y, parameters).unsqueeze(1)

    about = (objective.parameters, model.width, model.responses)
    if kinks.loss_jumps(objective.loss, objective.pure_head, *about) or _jump(model, losses):
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
    if not model.objective.closed_form and _jump(model, model.plain.row_jacobians):
        return True
    g = model.step.g
    if g is None:
        return False

    def own(h: Tensor, y: Tensor, parameters: Parameters) -> Tensor:
        bends = model.bound.row_jacobians(h, y, parameters)
        return torch.cat([g(h, y, parameters).detach(), bends.flatten(1)], 1)

    try:
        return _jump(model, own)
    except (RuntimeError, ValueError):
        return False


def _jump(model: Model, values: kinks.Values) -> bool:
    """Probe along a few lines, with a few responses and with larger weights."""

    def flat(h: Tensor, y: Tensor, parameters: Parameters) -> Tensor:
        return values(h, y, parameters).flatten(1)

    return kinks.values_jump(flat, model.objective.parameters, model.width, model.responses)
