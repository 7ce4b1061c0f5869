r"""Greedy decoupled descent: at each step, the candidate update with the lowest train error.

The appendix "A Method Of Descent Under The Train-Test Identity": if every candidate keeps the
identity, the lowest train error is the lowest test error, so choosing it makes the test error fall
for as long as any candidate lowers it.

Candidates that differ in rate and damping share θ̃ and ĥ, and their pre-activations are combinations
of two matrices,

.. math:: h^{(k)}_{t+1} = X\theta^{(k)}_{t+1} + M^{(k)}_{t+1}
   = \eta_0^{(k)} h_t - \eta_1^{(k)} (X\tilde\theta_t - \hat h_t) ,

so one product with X gives the train error of all candidates. The chosen candidate does not need it
again in the next step: two products per step, as for a single run.

Other candidates (rules with momentum, ridges, mini-batches) are tried one by one: each makes its
step, and a second step evaluates the train error there. All share one state, so their states must
have the same parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

from torch import Tensor
from torch.utils._pytree import tree_flatten

from decoupled_descent.descent.common import Algorithm, StackedAlgorithm
from decoupled_descent.descent.decoupled import DecoupledDescent
from decoupled_descent.descent.info import Info
from decoupled_descent.descent.requests import (
    RowProduct,
    StackedStep,
    all_reduced,
    with_global_error,
)
from decoupled_descent.objective import BoundObjective, Parameters
from decoupled_descent.rows.blocks import Rows


class GreedyState(NamedTuple):
    r"""What greedy descent carries from step to step."""

    theta: Tensor  # θ, shape (L, d)
    head: Parameters  # a, by parameter name
    preactivations: Tensor | None  # hᵀ, shape (L, n), where candidates share θ̃
    own: Any  # the state of the candidates, which all of them continue from
    chosen: int  # which candidate led here; −1 at the start, and where none lowered the error
    step: int  # the number of updates tried so far


@dataclass(frozen=True)
class GreedyDescent(StackedAlgorithm):
    """Decoupled descent that chooses among several updates at every step.

    Candidates that differ in rates and damping alone cost two products with X per step, all
    together. Others cost two steps each. Their states must have the same parts, for example
    decoupled descents with rules of the same kind, or orthogonal ones with different ridges.

    If no candidate lowers the train error, the iterate stays where it is: the recorded error never
    rises, and :class:`EarlyStopping` then ends the run.

    Args:
        candidates: The updates to choose from; :meth:`grid` makes a ready set.

    Example:
        >>> import decoupled_descent as dd
        >>> X, y = dd.mixtures.xor(dimension=100, snr=8.0).sample(200, seed=0)
        >>> objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
        >>> run = dd.fit(X, y, objective, dd.descent.GreedyDescent.grid(lr=0.05), steps=30)
        >>> bool((run.train_error.diff() <= 0).all())
        True
    """

    candidates: tuple[Algorithm, ...]

    def __post_init__(self) -> None:
        """Check that every candidate keeps the identity, and that they can share a state."""
        if not self.candidates:
            raise ValueError("candidates is empty; give at least one DecoupledDescent")
        first = self.candidates[0]
        for candidate in self.candidates:
            if not isinstance(candidate, Algorithm) or not candidate.estimates_test_error:
                raise ValueError(
                    f"candidate {candidate!r} is no algorithm whose train error estimates the test "
                    "error; GreedyDescent.grid(lr=…) makes a ready set"
                )
            if type(candidate) is not type(first) or (candidate.g, candidate.f) != (
                first.g,
                first.f,
            ):
                raise ValueError(
                    f"candidate {candidate!r} is of another kind than {first!r}; all must be of "
                    "one class, with the same g and f"
                )
        object.__setattr__(self, "g", first.g)
        object.__setattr__(self, "f", first.f)

    @cached_property
    def shared(self) -> tuple[DecoupledDescent, ...]:
        """The candidates if they differ in rates and damping only and share θ̃; else none."""
        plain = []
        for candidate in self.candidates:
            if not isinstance(candidate, DecoupledDescent):
                return ()
            if candidate.rule is None and candidate.head_optimizer is None:
                other = replace(candidate, lr=1.0, damping=1.0, head_lr=None, head_damping=1.0)
                if other == DecoupledDescent(1.0, reduction=other.reduction, g=self.g, f=self.f):
                    plain.append(candidate)
        alike = len({candidate.reduction for candidate in plain}) == 1
        return tuple(plain) if alike and len(plain) == len(self.candidates) else ()

    @classmethod
    def grid(
        cls,
        lr: float,
        factors: Sequence[float] = (0.25, 0.5, 1.0, 2.0, 4.0),
        dampings: Sequence[float] = (1.0, 0.95, 0.9),
        head_lr: float | None = None,
        reduction: str = "sum",
    ) -> GreedyDescent:
        """Build the candidates lr × factors × dampings.

        Args:
            lr: The middle rate.
            factors: What it is multiplied by.
            dampings: The dampings.
            head_lr: The head's rate; each candidate's own rate by default.
            reduction: ``"sum"`` or ``"mean"``.

        Returns:
            The algorithm.
        """
        pairs = product(factors, dampings)
        return cls(
            tuple(
                DecoupledDescent(lr * factor, damping, head_lr=head_lr, reduction=reduction)
                for factor, damping in pairs
            )
        )

    @property
    def trains_head(self) -> bool:
        """Whether any candidate moves the head along its gradient."""
        return any(candidate.trains_head for candidate in self.candidates)

    def start(self, rows: Rows, bound: BoundObjective, theta: Tensor) -> GreedyState:
        """The state before any update; see :meth:`Algorithm.start`."""
        starts = [candidate.start(rows, bound, theta) for candidate in self.candidates]
        start = starts[0]
        for candidate, other in zip(self.candidates, starts, strict=True):
            if _shapes(other) != _shapes(start):
                raise ValueError(
                    f"candidate {candidate!r} carries other things from step to step than "
                    f"{self.candidates[0]!r}; give all the same kind of rule and optimiser"
                )
        h = rows.forward(start.theta) if self.shared else None
        return GreedyState(start.theta, start.head, h, start, -1, 0)

    def stacked_step(self, state: GreedyState, rows: Rows, bound: BoundObjective) -> StackedStep:
        """The update that lowers the train error most."""
        if (h := state.preactivations) is None:
            return (yield from self._try_all(state, rows, bound))
        first, own, theta, a = self.shared[0], state.own, state.theta, state.head
        # the losses at h, ĥ, J̄ and ⟨f⟩
        derivatives = bound.at(state.step).derivatives(
            h.T,
            rows.y,
            a,
            head=self.trains_head,
            spacing=first.spacing(theta, rows, bound),
        )
        at, global_error = all_reduced(derivatives, rows)
        assert at.jacobian is not None
        direction = at.direction.T
        # θ̃ = Xᵀĥ − α θ J̄ᵀ and Xθ̃ − ĥ, which all candidates share
        gradient: Tensor = yield RowProduct(direction, rows, transposed=False)
        tilde = gradient.addmm_(at.jacobian, theta, alpha=-rows.ratio)
        change = (yield RowProduct(tilde, rows, transposed=True)) - direction
        (overlap,) = rows.total(own.memory @ at.direction)
        pairs = first.pair_variance(overlap, rows, bound)
        info = Info(at.loss, h.T, at.jacobian, pairs=pairs, global_error=global_error)
        best, lowest = state._replace(chosen=-1, step=state.step + 1), info.train_error
        for index, candidate in enumerate(self.shared):
            h_next = _moved(candidate, h, change, rows)
            slope = at.head if candidate.trains_head else {}
            head, _ = candidate.step_head(a, slope, own.head_slots, state.step)
            error = float(rows.mean(bound.losses(h_next.T, rows.y, head)))
            if error < lowest:
                lowest = error
                theta_next = _moved(candidate, theta, tilde, rows)
                memory = _moved(candidate, own.memory, -direction, rows)
                following = own._replace(theta=theta_next, memory=memory, head=head)
                best = GreedyState(theta_next, head, h_next, following, index, state.step + 1)
        return best, info

    def _try_all(self, state: GreedyState, rows: Rows, bound: BoundObjective) -> StackedStep:
        """Let every candidate make its step, and keep the one with the lowest train error."""
        best, now = state._replace(chosen=-1, step=state.step + 1), None
        for index, candidate in enumerate(self.candidates):
            following, info = yield from _step(candidate, state.own, rows, bound)
            _, ahead = yield from _step(candidate, following, rows, bound)
            if now is None:
                now, lowest = info, info.train_error
            if ahead.train_error < lowest:
                lowest = ahead.train_error
                parts = (following.theta, following.head, None, following)
                best = GreedyState(*parts, index, state.step + 1)
        return best, now

    def assumptions(self) -> frozenset[str]:
        """Those of decoupled descent."""
        return self.candidates[0].assumptions()


def _shapes(state: Any) -> list[Any]:
    """The shapes of all tensors of a state, in order, and its structure."""
    parts, structure = tree_flatten(state)
    return [structure, *(getattr(part, "shape", None) for part in parts)]


def _step(candidate: Algorithm, state: Any, rows: Rows, bound: BoundObjective) -> StackedStep:
    """The step of a candidate, with the mean loss of all rows."""
    stacked = candidate.stacked_step(state, rows, bound)
    if stacked is None:
        following, info = candidate.step(state, rows, bound)
    else:
        following, info = yield from stacked
    return following, with_global_error(info, rows)


def _moved(candidate: DecoupledDescent, value: Tensor, direction: Tensor, rows: Rows) -> Tensor:
    """η₀ v − η₁ w with the candidate's rates."""
    return candidate.update(value, direction, (), 0, candidate.scale(rows.n))[0]
