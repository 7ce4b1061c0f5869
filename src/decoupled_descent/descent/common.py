"""What every algorithm shares: its options, the start, the head's step and what it reports."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import ClassVar, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from decoupled_descent.descent.passes import Pass, Request, one_pass
from decoupled_descent.descent.rules import Damped, LinearRule
from decoupled_descent.objective.derivatives import Parameters
from decoupled_descent.objective.objective import Direction, Objective
from decoupled_descent.rows.blocks import Rows, check_finite

REDUCTIONS = ("sum", "mean")
#: The largest rate; most training is in float32.
LARGEST_RATE = torch.finfo(torch.float32).max


class Info(NamedTuple):
    r"""What one may look at after a step; it describes the iterate *before* the update.

    Attributes:
        losses: Ψ(h_i, y_i, a), shape (n,), at corrected pre-activations for decoupled descent.
        preactivations: h, shape (n, L).
        jacobian: J̄, shape (L, L); None for plain gradient descent.
    """

    losses: Tensor
    preactivations: Tensor
    jacobian: Tensor | None

    @property
    def train_error(self) -> float:
        """Mean loss: for decoupled descent, the estimate of the test error."""
        return float(self.losses.mean())

    @property
    def train_error_stderr(self) -> float:
        """Standard error of the train error as a mean of n fresh losses, sd/√n."""
        return float(self.losses.std()) / math.sqrt(len(self.losses))


def starting_theta(
    rows: Rows, objective: Objective, theta: Tensor | None, seed: int | None
) -> Tensor:
    """Check a given θ₁, or draw one with independent N(0, 1) entries, as in the paper.

    Args:
        rows: The data, which gives d, the dtype and the device.
        objective: Gives L.
        theta: θ₁, shape (L, d), or None.
        seed: Draws θ₁; the same seed gives the same θ₁ in every dtype and on every device.

    Returns:
        θ₁, shape (L, d), contiguous.
    """
    if theta is None:
        if objective.width is None:
            raise ValueError(
                f"L cannot be read off head {type(objective.head).__name__}; pass "
                "Objective(…, width=L) or theta of shape (L, d)"
            )
        theta = draw_theta(objective.width, rows.d, seed).to(rows.X)
    theta = torch.as_tensor(theta, device=rows.X.device).detach()
    if theta.ndim != 2 or theta.shape[1] != rows.d:
        raise ValueError(
            f"theta has shape {tuple(theta.shape)} but X has d = {rows.d} columns; theta must be "
            f"(L, {rows.d}), laid out as nn.Linear.weight"
        )
    check_finite("theta", theta)
    objective.check(rows.y, len(theta), rows.X)
    return theta.to(rows.X, copy=True).contiguous()


def draw_theta(width: int, d: int, seed: int | None) -> Tensor:
    """Draw a start with independent N(0, 1) entries.

    Args:
        width: L.
        d: Features.
        seed: Of a stream that no one else has: rows drawn with the same seed share no numbers with
            θ₁. None for another start every time.

    Returns:
        θ₁, shape (L, d), in float64.
    """
    generator = torch.Generator()
    if seed is None:
        generator.seed()
    else:
        digest = hashlib.blake2b(f"theta {int(seed)}".encode(), digest_size=4).digest()
        generator.manual_seed(int.from_bytes(digest, "little"))
    return torch.randn(width, d, generator=generator, dtype=torch.float64, device=generator.device)


@dataclass(frozen=True)
class Descent:
    """The options that every algorithm has.

    Args:
        lr: η₁.
        damping: η₀; 1 means none.
        head_lr: γ₁, ``lr`` by default; 0 freezes the head.
        head_damping: γ₀; 1 means none.
        reduction: ``"sum"`` as in the paper, or ``"mean"`` to divide θ's step by n.
        rule: Replaces η₀ v − η₁ w by another linear rule; ``lr`` is then the head's default only.
    """

    lr: float
    damping: float = 1.0
    head_lr: float | None = None
    head_damping: float = 1.0
    reduction: str = "sum"
    rule: LinearRule | None = None
    #: Whether the train error is an estimate of the test error.
    estimates_test_error: ClassVar[bool] = True

    @property
    def g(self) -> Direction | None:
        """What replaces ∇_hΨ, if anything does."""
        return None

    def assumptions(self) -> frozenset[str]:
        """Of "white noise", "equal norms", "gaussian rows" and "leverage", what it relies on."""
        return frozenset()

    def leverages(self, rows: Rows) -> Tensor | None:
        """Return the share of each row in its own fitted value, shape (n,), where it matters."""
        return None

    def row_shares(self, rows: Rows) -> Tensor | None:
        """Return how much each row counts in J̄, shape (n,); None where all count equally."""
        return None

    def __post_init__(self) -> None:
        """Check the options."""
        for name in ("lr", "damping", "head_lr", "head_damping"):
            rate = getattr(self, name)
            if rate is None and name == "head_lr":
                continue
            if not isinstance(rate, Real) or not 0 <= float(rate) <= LARGEST_RATE:
                raise ValueError(
                    f"{name}={rate!r} must be a number of at least 0 and at most {LARGEST_RATE:.3g}"
                )
        if self.reduction not in REDUCTIONS:
            raise ValueError(f"reduction={self.reduction!r} must be 'sum' or 'mean'")

    @cached_property
    def update(self) -> LinearRule:
        """The rule that moves θ and the memory."""
        return Damped(self.lr, self.damping) if self.rule is None else self.rule

    @property
    def trains_head(self) -> bool:
        """Whether the head moves along its gradient."""
        return self.head_lr != 0 and (self.head_lr is not None or self.lr != 0)

    def scale(self, n: int) -> float:
        """What the reduction multiplies ĥ by."""
        return 1.0 / n if self.reduction == "mean" else 1.0

    def step_head(self, parameters: Parameters, direction: Parameters) -> Parameters:
        """A ← γ₀ a − γ₁ · mean f."""
        lr = self.lr if self.head_lr is None else self.head_lr
        if self.head_damping != 1:
            parameters = {name: self.head_damping * value for name, value in parameters.items()}
        if not direction:
            return parameters
        return {
            name: torch.add(value, direction[name], alpha=-lr) for name, value in parameters.items()
        }


StateT = TypeVar("StateT")


class OnePassDescent(Descent, ABC, Generic[StateT]):
    """An algorithm whose step needs one pass over the rows and can say what it wants of it.

    Runs of such algorithms on the same rows share the pass, and with it both products with X.
    """

    @abstractmethod
    def request(self, state: StateT, rows: Rows, objective: Objective) -> Request:
        """Say what a step needs to know of the data."""

    @abstractmethod
    def advance(self, state: StateT, rows: Rows, found: Pass) -> tuple[StateT, Info]:
        """Make the update from what a pass found."""

    def step(self, state: StateT, rows: Rows, objective: Objective) -> tuple[StateT, Info]:
        """Make one update.

        Args:
            state: The state before the update; not changed.
            rows: The data.
            objective: Ψ.

        Returns:
            The state after the update, and what was seen before it.
        """
        (found,) = one_pass(rows, [self.request(state, rows, objective)])
        return self.advance(state, rows, found)
