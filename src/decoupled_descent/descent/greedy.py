r"""Greedy decoupled descent: at each step, the candidate update with the lowest train error.

The appendix "A Method Of Descent Under The Train-Test Identity": if every candidate keeps the
identity, the lowest train error is the lowest test error, so choosing it makes the test error fall
for as long as any candidate lowers it.

Candidates that differ in rate and damping share θ̃ and ĥ, and their pre-activations are combinations
of two known matrices,

.. math:: h^{(k)}_{t+1} = X\theta^{(k)}_{t+1} + M^{(k)}_{t+1}
   = \eta_0^{(k)} h_t - \eta_1^{(k)} (X\tilde\theta_t - \hat h_t) ,

so looking at all of them costs one product with X, which the chosen one then saves in the next
step: two products per step, as for a single run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

from torch import Tensor

from decoupled_descent.descent.common import Algorithm, Info
from decoupled_descent.descent.decoupled import DecoupledDescent
from decoupled_descent.descent.head import HeadSlots
from decoupled_descent.descent.stepping import Product, Steps
from decoupled_descent.objective import BoundObjective, Objective, Parameters
from decoupled_descent.rows.blocks import Rows


class State(NamedTuple):
    r"""What greedy descent carries from step to step.

    Attributes:
        theta: θ, shape (L, d).
        memory: Mᵀ, shape (L, n).
        head: a, by parameter name.
        head_slots: What the head's optimiser carries.
        preactivations: hᵀ, shape (L, n): Xθ + M, known before the step begins.
        chosen: Which candidate led here; −1 at the start, and where no candidate lowered the error.
        step: How many updates have been tried.
    """

    theta: Tensor
    memory: Tensor
    head: Parameters
    head_slots: HeadSlots
    preactivations: Tensor
    chosen: int
    step: int


@dataclass(frozen=True)
class GreedyDescent(Algorithm):
    """Decoupled descent that picks its rate and damping anew at every step.

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

    candidates: tuple[DecoupledDescent, ...]

    def __post_init__(self) -> None:
        """Check that the candidates can share one θ̃."""
        if not self.candidates:
            raise ValueError("candidates is empty; give at least one DecoupledDescent")
        for candidate in self.candidates:
            if not isinstance(candidate, DecoupledDescent):
                raise ValueError(
                    f"candidate {candidate!r} is no DecoupledDescent; GreedyDescent.grid(lr=…) "
                    "makes a ready set"
                )
        first = self.candidates[0]
        object.__setattr__(self, "g", first.g)
        object.__setattr__(self, "f", first.f)
        if first.hessian_damping is not None or first.batch_size is not None:
            raise ValueError(
                f"candidate {first} has hessian_damping or batch_size; greedy descent chooses "
                "among rates of whole batches"
            )
        if first.noise is not None:
            raise ValueError(
                f"candidate {first} has noise={first.noise!r}; greedy descent knows the default "
                "noise only, i.i.d. of variance 1/d"
            )
        for candidate in self.candidates:
            shared = replace(
                candidate,
                lr=first.lr,
                damping=first.damping,
                head_lr=first.head_lr,
                head_damping=first.head_damping,
            )
            if shared != first or first.rule is not None:
                raise ValueError(
                    f"candidate {candidate} differs from {first} in more than its rates; greedy "
                    "descent chooses among lr, damping, head_lr and head_damping"
                )

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

    def init(
        self,
        rows: Rows,
        objective: Objective | BoundObjective,
        theta: Tensor | None = None,
        seed: int | None = None,
    ) -> State:
        """Return the state before any update; see :meth:`Algorithm.init`."""
        start = self.candidates[0].init(rows, self.bind(rows, objective, theta), theta, seed)
        h = rows.forward(start.theta)
        return State(start.theta, start.memory, start.head, start.head_slots, h, -1, 0)

    def stepping(self, state: State, rows: Rows, bound: BoundObjective) -> Steps:
        """The update that lowers the train error most: two products with X, as for one run."""
        first = self.candidates[0]
        found = bound.at(state.step).derivatives(
            state.preactivations.T,
            rows.y,
            state.head,
            head=self.trains_head,
            spacing=first.spacing(state.theta, rows, bound),
        )
        direction = found.direction.T
        gradient: Tensor = yield Product(direction, rows, transposed=False)
        tilde = first.corrected(gradient, found.jacobian, state.theta, rows)
        change = (yield Product(tilde, rows, transposed=True)) - direction
        info = Info(found.loss, state.preactivations.T, found.jacobian)
        best, lowest = state._replace(chosen=-1, step=state.step + 1), float(found.loss.mean())
        for index, candidate in enumerate(self.candidates):
            h = _moved(candidate, state.preactivations, change, rows.n)
            direction_a = found.head if candidate.trains_head else {}
            head, head_slots = candidate.step_head(
                state.head, direction_a, state.head_slots, state.step
            )
            error = float(bound.losses(h.T, rows.y, head).mean())
            if error < lowest:
                lowest = error
                best = State(
                    _moved(candidate, state.theta, tilde, rows.n),
                    _moved(candidate, state.memory, -direction, rows.n),
                    head,
                    head_slots,
                    h,
                    index,
                    state.step + 1,
                )
        return best, info

    def assumptions(self) -> frozenset[str]:
        """Those of decoupled descent."""
        return self.candidates[0].assumptions()


def _moved(candidate: DecoupledDescent, value: Tensor, direction: Tensor, n: int) -> Tensor:
    """η₀ v − η₁ w with the candidate's rates."""
    return candidate.update(value, direction, (), 0, candidate.scale(n))[0]
