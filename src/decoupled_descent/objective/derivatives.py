r"""The derivatives of an objective, and how to ask for them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

#: The head's trainable parameters a, by name.
Parameters = dict[str, Tensor]
#: g(h, y, a), or g(h, y, a, t) with t the step: one row of ĥ per sample, shape (n, L).
Direction = Callable[..., Tensor]
#: f(h, y, a): one row per sample for each head parameter, shapes (n, *parameter.shape).
HeadDirection = Callable[[Tensor, Tensor, Parameters], Parameters]


@dataclass(frozen=True)
class Timed:
    """g(h, y, a, t) at one step t, counted from 0."""

    g: Direction
    step: int = 0

    def __call__(self, h: Tensor, y: Tensor, parameters: Parameters) -> Tensor:
        """Evaluate g at the step."""
        return self.g(h, y, parameters, self.step)


def depends_on_time(g: Direction) -> bool:
    """Whether g takes the step as a fourth argument."""
    try:
        inspect.signature(g).bind(None, None, None)
    except TypeError:
        return True
    except ValueError:  # built in, without a signature
        return False
    return False


class RowDerivatives(NamedTuple):
    r"""Loss and derivatives of n rows."""

    loss: Tensor  #: Ψ(h_i, y_i, a), shape (n,)
    direction: Tensor  #: ĥ = g(h, y, a), by default ∇_hΨ, shape (n, L)
    jacobian: Tensor | None  #: J̄, the mean over rows of ∂g_i/∂h_j, shape (L, L), if asked for
    head: Parameters  #: the mean over rows of f(h, y, a), by default ∇_aΨ, if asked for


class Ask(NamedTuple):
    """What is requested beside loss and direction; weights have shape (n,) and enter as w_i/n.

    ``turn`` is the number of the step; see :func:`decoupled_descent.objective.autodiff.dealt`.
    """

    jacobian: bool = True
    head: bool = True
    jacobian_weights: Tensor | None = None
    head_weights: Tensor | None = None
    turn: int = 0


#: ``engine(h, y, parameters, ask)``: derivatives of Ψ itself, for labels as the user gave them.
Engine = Callable[[Tensor, Tensor, Parameters, Ask], RowDerivatives]


def weighted(values: Tensor, weights: Tensor | None) -> Tensor:
    """Multiply values of shape (…, n) by row weights, if there are any."""
    return values if weights is None else values * weights
