"""What a step reports to users and callbacks, and what state evolution needs to know of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor

from decoupled_descent.checks import standard_error
from decoupled_descent.objective import Direction, HeadDirection

#: No notes.
NOTHING: Mapping[str, float] = {}


class DivergenceWarning(RuntimeWarning):
    """The error stopped being finite, grew without bound, or the minimum was not reached."""


class Info(NamedTuple):
    r"""What a step reports; it describes the iterate *before* the update.

    Attributes:
        losses: Ψ(h_i, y_i, a), shape (n,), at corrected pre-activations for decoupled descent.
        preactivations: h, shape (n, L).
        jacobian: J̄, shape (L, L); None for algorithms without one.
        estimates: Whether the losses estimate the test error at this iterate.
        finished: Whether there is nothing left to do.
        notes: Further numbers of the algorithm, by name.
        pairs: Variance of the train error that comes from pairs of rows, see
            :meth:`~decoupled_descent.DecoupledDescent.pair_variance`.
        global_error: Mean and standard error of the losses of all rows, where ``losses`` are those
            of some; else None.
        fitted: The mean loss without a correction, if the algorithm trains without one and
            ``losses`` are an estimate beside it.
    """

    losses: Tensor
    preactivations: Tensor
    jacobian: Tensor | None
    estimates: bool = True
    finished: bool = False
    notes: Mapping[str, float] = NOTHING
    pairs: Tensor | float = 0.0
    global_error: Tensor | None = None
    fitted: float | None = None

    @property
    def train_error(self) -> float:
        """Mean loss: for decoupled descent, the estimate of the test error."""
        return float(self.losses.mean() if self.global_error is None else self.global_error[0])

    @property
    def train_error_stderr(self) -> float:
        """Standard error of the train error: √(var/n + that of pairs of rows)."""
        if self.global_error is None:
            alone = float(standard_error(self.losses))
        else:
            alone = float(self.global_error[1])
        pairs = float(self.pairs)  # squares may overflow in a run that diverges
        return math.hypot(alone, math.sqrt(max(0.0, pairs if math.isfinite(pairs) else 0.0)))


class LimitStep(NamedTuple):
    """What state evolution needs to know of a step: its direction and its ridge.

    Attributes:
        g: Replaces ∇_hΨ; None for the gradient.
        f: Replaces ∇_aΨ; None for the gradient.
        divergence_free: Whether the direction is g − h J̄ᵀ.
        ridge: λ of the preconditioner; infinite for none.
        covariance: C for which the algorithm corrects its steps; None for the identity. A
            divergence-free step takes rows of any covariance.
        corrected: Whether the reuse of rows is corrected for, so that pre-activations are those of
            new rows; gradient descent does not.
        batch_size: Rows per update; a pass has n/batch_size updates. None for all rows.
        entrywise: Whether an update maps every entry of θ by a function that is not linear.
        hessian_damping: δ if the direction is multiplied by ``(|J̄| + δ I)⁻¹``, else None.
    """

    g: Direction | None = None
    f: HeadDirection | None = None
    divergence_free: bool = False
    ridge: float = math.inf
    covariance: Tensor | None = None
    corrected: bool = True
    batch_size: int | None = None
    entrywise: bool = False
    hessian_damping: float | None = None

    @property
    def uses_jacobian(self) -> bool:
        """Whether the direction depends on J̄."""
        return self.divergence_free or self.hessian_damping is not None
