"""What an algorithm is: the protocol, the start, and the options that descents share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar

import torch
from torch import Tensor

from decoupled_descent.checks import whole_number
from decoupled_descent.descent import folds
from decoupled_descent.descent.folds import Folds
from decoupled_descent.descent.head import HeadOptimizer, HeadSlots, moved, starting_slots
from decoupled_descent.descent.info import Info, LimitStep
from decoupled_descent.descent.requests import StackedStep, run_stacked
from decoupled_descent.descent.rules import Damped, LinearRule
from decoupled_descent.descent.starts import as_theta, head_width, starting_theta
from decoupled_descent.objective import (
    BoundObjective,
    Direction,
    HeadDirection,
    Objective,
    Parameters,
)
from decoupled_descent.objective.objective import require_objective
from decoupled_descent.rows.blocks import Rows

REDUCTIONS = ("sum", "mean")
#: The largest rate; most training is in float32.
LARGEST_RATE = torch.finfo(torch.float32).max


class Algorithm(ABC):
    """Base class of all algorithms: how to start, how to step, and what is true of the result.

    A new algorithm defines :meth:`start` and :meth:`step`; one whose steps are made of products
    with the rows subclasses :class:`StackedAlgorithm` and defines :meth:`stacked_step` instead. A
    state is a named tuple with at least ``theta`` (L, d), ``head`` (parameters by name) and
    ``step``.

    Attributes:
        takes_weights: Whether it supports row weights and groups.
        trains_modules: Whether it trains whole modules, by :meth:`fit`, instead of θ and a head.
        g: Replaces ∇_hΨ; None for the gradient.
        f: Replaces ∇_aΨ; None for the gradient.
    """

    takes_weights: ClassVar[bool] = False
    trains_modules: ClassVar[bool] = False
    how: ClassVar[str] = "decoupled"  # how the predictions of rows as if they were new are made
    g: Direction | None = None
    f: HeadDirection | None = None

    @property
    def estimates_test_error(self) -> bool:
        """Whether the train error is an estimate of the test error."""
        return True

    @property
    def uses_jacobian(self) -> bool:
        """Whether steps need J̄. Only then do kinks matter."""
        return True

    @property
    def trains_head(self) -> bool:
        """Whether the head moves."""
        return True

    def init(
        self,
        rows: Rows,
        objective: Objective | BoundObjective,
        theta: Tensor | None = None,
        seed: int | None = None,
    ) -> Any:
        """Check that everything fits and return the state before any update.

        Args:
            rows: The data.
            objective: Ψ.
            theta: θ₁, shape (L, d), independent of the data; entries drawn from N(0, 1) by default.
            seed: Draws θ₁.

        Returns:
            The starting state.
        """
        bound = self.bind(rows, objective, theta)
        return self.start(rows, bound, starting_theta(rows, bound, theta, seed))

    @abstractmethod
    def start(self, rows: Rows, bound: BoundObjective, theta: Tensor) -> Any:
        """Return the state before any update.

        Args:
            rows: The data.
            bound: Ψ, bound to the rows.
            theta: θ₁ in the dtype of the rows, checked.

        Returns:
            The starting state.
        """

    @abstractmethod
    def step(
        self, state: Any, rows: Rows, objective: Objective | BoundObjective
    ) -> tuple[Any, Info]:
        """Make one update.

        Args:
            state: The state before the update; not changed.
            rows: The data.
            objective: Ψ. Bind it once, by :meth:`bind`, when you make many steps.

        Returns:
            The state after the update, and what was seen before it.
        """

    def stacked_step(self, state: Any, rows: Rows, bound: BoundObjective) -> StackedStep | None:
        """The step as a generator of requests to the rows; None if it is made by :meth:`step`."""
        return None

    def bind(
        self, rows: Rows, objective: Objective | BoundObjective, theta: Tensor | None = None
    ) -> BoundObjective:
        """Bind an objective to the labels of the rows, once for all steps.

        Args:
            rows: The data.
            objective: Ψ; returned as it is when it is bound already.
            theta: Gives L; read off the head by default.

        Returns:
            The bound objective, with the algorithm's own g and f.
        """
        if not self.takes_weights and (rows.weights is not None or rows.groups is not None):
            raise ValueError(
                f"{type(self).__name__} does not support row weights or groups; use DecoupledNewton"
            )
        if isinstance(objective, BoundObjective):
            return objective
        require_objective(objective)
        width = head_width(objective, rows.d) if theta is None else len(as_theta(theta, rows))
        return objective.bind(
            rows.y, width, rows.like, g=self.g, f=self.f, jacobian=self.uses_jacobian
        )

    @property
    def settings(self) -> Mapping[str, float]:
        """The numeric options by name."""
        if not is_dataclass(self):
            return {}
        options = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: value
            for name, value in options.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }

    def fit(self, X: Any, y: Any, model: Any, **options: Any) -> Any:
        """Train a whole module; only algorithms with ``trains_modules`` do so."""
        raise ValueError(f"{type(self).__name__} does not train whole modules")

    def for_module(self) -> Algorithm:
        """The algorithm for a whole module, where options that were not given are PyTorch's."""
        return self

    def outputs(self, state: Any, preactivations: Tensor, bound: BoundObjective) -> Tensor:
        """Outputs of the training rows as if they were new, (n,) or (n, K)."""
        with torch.no_grad():
            return bound.outputs(preactivations, state.head)

    def mode_covariance(self, theta: Tensor, rows: Rows) -> Tensor | None:
        """The covariance of pre-activations within a mode, shape (L, L); None if not assumed."""
        return None

    def assumptions(self) -> frozenset[str]:
        """What the estimate assumes of the rows, for :func:`diagnose` to check."""
        return frozenset()

    def leverages(self, rows: Rows) -> Tensor | None:
        """The share of each row in its own fitted value, shape (n,); None where there is none."""
        return None

    def row_shares(self, rows: Rows) -> Tensor | None:
        """The weight of each row in J̄, shape (n,); None for equal weights."""
        return None

    @property
    def brief(self) -> str:
        """The algorithm with the settings that differ from their defaults."""
        if not is_dataclass(self):
            return repr(self)
        values = ((each, repr(getattr(self, each.name))) for each in fields(self))
        unusual = [f"{each.name}={text}" for each, text in values if text != repr(each.default)]
        return f"{type(self).__name__}({', '.join(unusual)})"

    def limit(self) -> LimitStep:
        """What state evolution needs to know; raises ``ValueError`` without a limit."""
        raise ValueError(
            f"state evolution has no limit of {type(self).__name__}; it describes "
            "GradientDescent, DecoupledDescent and OrthogonalDecoupledDescent "
            "(population_test_error takes the trained parameters of any run)"
        )


class StackedAlgorithm(Algorithm):
    """An algorithm whose step is a generator that yields the products with the rows it needs.

    Products of all runs on the same rows are made together.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Refuse subclasses that define ``step``: training would not call it."""
        super().__init_subclass__(**options)
        if "step" in vars(cls):
            raise TypeError(
                f"{cls.__name__} defines step, but training calls stacked_step; define that, or "
                "subclass Algorithm"
            )

    @abstractmethod
    def stacked_step(self, state: Any, rows: Rows, bound: BoundObjective) -> StackedStep:
        """Make one update: yield requests, return the next state and an :class:`Info`.

        The arguments are those of :meth:`step`, with Ψ bound to the rows.
        """

    def step(
        self, state: Any, rows: Rows, objective: Objective | BoundObjective
    ) -> tuple[Any, Info]:
        """Make one update; see :meth:`Algorithm.step`."""
        bound = self.bind(rows, objective, state.theta)
        ((following, info),) = run_stacked([self.stacked_step(state, rows, bound)], rows)
        return following, info


def check_algorithm(algorithm: Any) -> None:
    """Raise ``ValueError`` for anything that is not an algorithm."""
    if not isinstance(algorithm, Algorithm):
        raise ValueError(
            f"algorithm={algorithm!r} must be an Algorithm, such as DecoupledDescent(lr=0.05); "
            "your own algorithm must subclass decoupled_descent.descent.Algorithm"
        )


@dataclass(frozen=True)
class Descent(StackedAlgorithm):
    """The options of all algorithms that follow a direction; see :class:`DecoupledDescent`."""

    lr: float
    damping: float = 1.0
    head_lr: float | None = None
    head_damping: float = 1.0
    reduction: str | None = None
    rule: LinearRule | None = None
    head_optimizer: HeadOptimizer | None = None
    head_folds = 0  # subclasses whose train error is an estimate make it an option

    def __post_init__(self) -> None:
        """Check the options."""
        if whole_number("head_folds", self.head_folds, 0) == 1:
            raise ValueError(
                "head_folds=1 leaves no rows to train the head of the fold on; use at least 2, or "
                "0 for no folds"
            )
        for name in ("lr", "damping", "head_lr", "head_damping"):
            rate = getattr(self, name)
            if rate is None and name == "head_lr":
                continue
            if not isinstance(rate, Real) or not 0 <= float(rate) <= LARGEST_RATE:
                raise ValueError(
                    f"{name}={rate!r} must be a number of at least 0 and at most {LARGEST_RATE:.3g}"
                )
        if self.reduction is not None and self.reduction not in REDUCTIONS:
            raise ValueError(f"reduction={self.reduction!r} must be 'sum' or 'mean'")
        if self.rule is not None and self.damping != type(self).damping:
            raise ValueError(
                f"damping={self.damping!r} has no effect beside rule={self.rule!r}; give the rule "
                "a weight_decay instead"
            )
        if self.head_optimizer is not None and (self.head_lr, self.head_damping) != (None, 1.0):
            raise ValueError(
                f"head_lr={self.head_lr!r}, head_damping={self.head_damping!r} have no effect "
                "beside head_optimizer; give the optimiser its lr and weight_decay"
            )

    @cached_property
    def update(self) -> LinearRule:
        """The rule that moves θ and the memory."""
        return Damped(self.lr, self.damping) if self.rule is None else self.rule

    @property
    def trains_head(self) -> bool:
        """Whether the head moves along its gradient."""
        if self.head_optimizer is not None:
            return True
        return self.head_lr != 0 and (self.head_lr is not None or self.lr != 0)

    def for_module(self) -> Algorithm:
        """With the mean over rows where no reduction was given: PyTorch's habit."""
        return replace(self, reduction="mean") if self.reduction is None else self

    def scale(self, n: int, drawn: int | None = None) -> float:
        """What the reduction multiplies ĥ by; a row of a mini-batch stands for n/drawn rows."""
        factor = 1.0 / n if self.reduction == "mean" else 1.0
        return factor if drawn is None else factor * (n / drawn)

    @property
    def settings(self) -> Mapping[str, float]:
        """The numeric options by name; ``head_folds`` only if there are folds."""
        options = super().settings
        return {k: v for k, v in options.items() if self.head_folds or k != "head_folds"}

    def starting_folds(self, parameters: Parameters, rows: Rows) -> Folds:
        """The heads of the folds at the start; none if the head is not trained."""
        if not self.trains_head or not self.head_folds:
            return folds.NONE
        rows.require_one_process(f"head_folds={self.head_folds} deals out all rows")
        return folds.starting_folds(min(self.head_folds, rows.n), parameters, self.head_optimizer)

    def step_folds(self, at: Folds, directions: Parameters, step: int) -> Folds:
        """Update the heads of the folds in the same way as the head itself."""
        if not at.heads:
            return at
        if self.head_optimizer is None:
            return Folds(*self.step_head(at.heads, directions, at.slots, step))
        parts, slopes = folds.unstacked(at.heads), folds.unstacked(directions)
        moved_parts, slots = self.step_head(parts, slopes, at.slots, step)
        return Folds(folds.restacked(moved_parts), slots)

    def outputs(self, state: Any, preactivations: Tensor, bound: BoundObjective) -> Tensor:
        """Outputs of the training rows as if they were new, by the heads of their folds."""
        at: Folds = state.folds if self.head_folds else folds.NONE
        if not at.heads:
            return super().outputs(state, preactivations, bound)
        with torch.no_grad():
            return at.outputs(bound, preactivations)

    def head_slots(self, parameters: Parameters) -> HeadSlots:
        """What the head's optimiser carries at the start."""
        return starting_slots(self.head_optimizer, parameters)

    def step_head(
        self, parameters: Parameters, direction: Parameters, slots: HeadSlots, step: int
    ) -> tuple[Parameters, HeadSlots]:
        """A ← γ₀ a − γ₁ · mean f, or a step of the head's optimiser along the mean of f."""
        if self.head_optimizer is not None and direction:
            return moved(self.head_optimizer, parameters, direction, slots, first=step == 0)
        lr = self.lr if self.head_lr is None else self.head_lr
        if self.head_damping != 1:
            parameters = {name: self.head_damping * value for name, value in parameters.items()}
        if not direction:
            return parameters, slots
        return {
            name: torch.add(value, direction[name], alpha=-lr) for name, value in parameters.items()
        }, slots
