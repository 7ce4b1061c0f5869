r"""Greedy decoupled descent: at each step, the candidate update with the lowest train error.

The appendix "A Method Of Descent Under The Train-Test Identity": if every candidate keeps the
identity, the lowest train error is the lowest test error, so choosing it makes the test error fall
for as long as any candidate lowers it.

Candidates that differ in rate and damping share θ̃ and ĥ, and their pre-activations are combinations
of two known matrices,

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

from decoupled_descent.descent.common import Algorithm
from decoupled_descent.descent.decoupled import DecoupledDescent
from decoupled_descent.descent.info import Info
from decoupled_descent.descent.stepping import Product, Steps, summed, whole
from decoupled_descent.objective import BoundObjective, Parameters
from decoupled_descent.rows.blocks import Rows


class State(NamedTuple):
    r"""What greedy descent carries from step to step."""

    theta: Tensor  # θ, shape (L, d)
    head: Parameters  # a, by parameter name
    preactivations: Tensor | None  # hᵀ, shape (L, n), where candidates share θ̃: known beforehand
    own: Any  # the state of the candidates, which all of them continue from
    chosen: int  # which candidate led here; −1 at the start, and where none lowered the error
    step: int  # how many updates have been tried


@dataclass(frozen=True)
class GreedyDescent(Algorithm):
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
        >>> run = dd.fit(X, y, objective, dd.GreedyDescent.grid(lr=0.05), steps=30)
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
        found = []
        for candidate in self.candidates:
            if not isinstance(candidate, DecoupledDescent):
                return ()
            if candidate.rule is None and candidate.head_optimizer is None:
                plain = replace(candidate, lr=1.0, damping=1.0, head_lr=None, head_damping=1.0)
                if plain == DecoupledDescent(1.0, reduction=plain.reduction, g=self.g, f=self.f):
                    found.append(candidate)
        alike = len({candidate.reduction for candidate in found}) == 1
        return tuple(found) if alike and len(found) == len(self.candidates) else ()

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

    def start(self, rows: Rows, bound: BoundObjective, theta: Tensor) -> State:
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
        return State(start.theta, start.head, h, start, -1, 0)

    def stepping(self, state: State, rows: Rows, bound: BoundObjective) -> Steps:
        """The update that lowers the train error most."""
        if (h := state.preactivations) is None:
            return (yield from self._trying(state, rows, bound))
        first, own = self.shared[0], state.own
        seen = bound.at(state.step).derivatives(
            h.T,
            rows.y,
            state.head,
            head=self.trains_head,
            spacing=first.spacing(state.theta, rows, bound),
        )
        found, everywhere = summed(seen, rows)
        direction = found.direction.T
        gradient: Tensor = yield Product(direction, rows, transposed=False)
        tilde, _ = first.directions(gradient, direction, found.jacobian, state.theta, rows)
        change = (yield Product(tilde, rows, transposed=True)) - direction
        (overlap,) = rows.total(own.memory @ found.direction)
        pairs = first.pair_variance(overlap, rows, bound)
        info = Info(found.loss, h.T, found.jacobian, pairs=pairs, everywhere=everywhere)
        best, lowest = state._replace(chosen=-1, step=state.step + 1), info.train_error
        for index, candidate in enumerate(self.shared):
            moved = _moved(candidate, h, change, rows.n)
            direction_a = found.head if candidate.trains_head else {}
            head, _ = candidate.step_head(state.head, direction_a, own.head_slots, state.step)
            error = float(rows.mean(bound.losses(moved.T, rows.y, head)))
            if error < lowest:
                lowest = error
                theta = _moved(candidate, state.theta, tilde, rows.n)
                memory = _moved(candidate, own.memory, -direction, rows.n)
                following = own._replace(theta=theta, memory=memory, head=head)
                best = State(theta, head, moved, following, index, state.step + 1)
        return best, info

    def _trying(self, state: State, rows: Rows, bound: BoundObjective) -> Steps:
        """Let every candidate make its step, and keep the one with the lowest train error."""
        best, now = state._replace(chosen=-1, step=state.step + 1), None
        for index, candidate in enumerate(self.candidates):
            following, info = yield from candidate.moves(state.own, rows, bound)
            _, ahead = yield from candidate.moves(following, rows, bound)
            info, ahead = whole(info, rows), whole(ahead, rows)
            if now is None:
                now, lowest = info, info.train_error
            if ahead.train_error < lowest:
                lowest = ahead.train_error
                parts = (following.theta, following.head, None, following)
                best = State(*parts, index, state.step + 1)
        return best, now

    def assumptions(self) -> frozenset[str]:
        """Those of decoupled descent."""
        return self.candidates[0].assumptions()


def _shapes(state: Any) -> list[Any]:
    """The shapes of all tensors of a state, in order, and its structure."""
    parts, structure = tree_flatten(state)
    return [structure, *(getattr(part, "shape", None) for part in parts)]


def _moved(candidate: DecoupledDescent, value: Tensor, direction: Tensor, n: int) -> Tensor:
    """η₀ v − η₁ w with the candidate's rates."""
    return candidate.update(value, direction, (), 0, candidate.scale(n))[0]
