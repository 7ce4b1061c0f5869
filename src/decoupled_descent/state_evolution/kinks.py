r"""Looks for jumps in what is to be averaged, where Gauss–Hermite rules converge slowly.

The nodes of a rule of order N are π/√N apart. Across a jump of size Δ it errs by up to half of that
times Δ φ(z), which is several percent for N = 64, and across a kink in proportion to the square.
Such averages are sampled instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from decoupled_descent.objective import Direction, Objective, kinks
from decoupled_descent.objective.derivatives import Parameters
from decoupled_descent.objective.losses import varied_rows
from decoupled_descent.state_evolution.averages import row_jacobians
from decoupled_descent.state_evolution.inputs import typical_responses
from decoupled_descent.state_evolution.laws import MixtureLaw

#: How many responses to probe with.
PROBED = 16

Values = Callable[[Tensor, Tensor, Parameters], Tensor]


def loss_has_kinks(objective: Objective, mixture: MixtureLaw, width: int) -> bool:
    """Whether Ψ or its slope jumps.

    Args:
        objective: Ψ, which needs no gradient.
        mixture: Gives responses.
        width: L.

    Returns:
        Whether E Ψ should be sampled.

    Example:
        >>> import decoupled_descent as dd
        >>> mixture = dd.mixtures.flipped_classes(10)
        >>> losses = ["squared", "absolute", lambda u, y: (y * u[:, 0] < 0).double()]
        >>> [loss_has_kinks(dd.Objective(dd.heads.Linear(), loss), mixture, 1) for loss in losses]
        [False, True, True]
    """
    if kinks.has_kinked_module(objective.head) or not objective.loss.smooth:
        return True
    if objective.closed_form:  # closed forms of what is smooth
        return False

    def losses(h: Tensor, y: Tensor, parameters: Parameters) -> Tensor:
        return objective.losses(h, y, parameters).detach().double().unsqueeze(1)

    def slopes(h: Tensor, y: Tensor, parameters: Parameters) -> Tensor:
        return objective.derivatives(h, y, parameters, jacobian=False, head=False).direction

    if kinks.loss_jumps(
        objective.loss, objective.pure_head, objective.parameters, width, _labels(mixture)
    ):
        return True
    if _jump(objective, mixture, width, losses):
        return True
    try:
        return _jump(objective, mixture, width, slopes)
    except (RuntimeError, ValueError):  # no gradient: nothing is known about the slope
        return True


def has_kinks(
    objective: Objective, mixture: MixtureLaw, width: int, g: Direction | None = None
) -> bool:
    """Whether Ψ, its slope, g or their derivatives jump.

    Args:
        objective: Ψ.
        mixture: Gives responses.
        width: L.
        g: Replaces ∇_hΨ. One that cannot be probed is taken to be smooth.

    Returns:
        Whether the expectations of the recursion should be sampled.

    Example:
        >>> import decoupled_descent as dd
        >>> objective = dd.Objective(dd.heads.Linear(), "squared")
        >>> clipped, tanh = lambda h, y, a: h.clamp(-1, 1), lambda h, y, a: h.tanh()
        >>> [has_kinks(objective, dd.mixtures.signalless(10), 1, g) for g in (clipped, tanh)]
        [True, False]
    """
    if loss_has_kinks(objective, mixture, width):
        return True

    def both(own: Direction | None, h: Tensor, y: Tensor, parameters: Parameters) -> Tensor:
        bends = row_jacobians(objective, h, y, parameters, own).flatten(1)
        if own is None:
            return bends
        return torch.cat([own(h, y, parameters).detach(), bends], 1)

    if not objective.closed_form and _jump(objective, mixture, width, partial(both, None)):
        return True
    try:
        return g is not None and _jump(objective, mixture, width, partial(both, g))
    except (RuntimeError, ValueError):
        return False


def _jump(objective: Objective, mixture: MixtureLaw, width: int, values: Values) -> bool:
    """Probe along a few lines, with a few responses."""
    y, heads = _labels(mixture), probed_heads(objective)
    return any(kinks.jumps(partial(_at, values, head), width, y) for head in heads)


def _labels(mixture: MixtureLaw) -> Tensor:
    y = typical_responses(mixture)
    return y[varied_rows(y, PROBED)]


def probed_heads(objective: Objective) -> list[Parameters]:
    """Heads to probe with: as it is, and with weights grown fivefold; zeros would hide kinks.

    Args:
        objective: Gives the head.

    Returns:
        Parameters by name, once for a head without any.
    """
    own = objective.parameters(torch.zeros((), dtype=torch.float64))
    return [
        {k: scale * torch.where(v == 0, 1.0, v) for k, v in own.items()}
        for scale in ((1.0, 5.0) if own else (1.0,))
    ]


def _at(values: Values, parameters: Parameters, h: Tensor, y: Tensor) -> Tensor:
    return values(h, y, parameters)
