"""What the runs of all whole networks have in common, however their rows are left out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from torch import Tensor, nn

from decoupled_descent.evaluation.checks.diagnosis import Diagnosis
from decoupled_descent.training.callbacks import StopReason
from decoupled_descent.training.run import AnyRun


class Start(NamedTuple):
    """What is known of the weights that training began with.

    Attributes:
        level: The p-value of :func:`label_level`; None if it was not computed.
        independent: Whether the user says that they do not come from these rows.
    """

    level: float | None = None
    independent: bool = False

    @property
    def notes(self) -> dict[str, float]:
        """The same as numbers, for the checks."""
        found = {} if self.level is None else {"start_level": self.level}
        return found | {"independent_start": float(self.independent)}


class NetworkRun(AnyRun, ABC):
    """The result of training a whole network; all of it is at the best step.

    Attributes:
        choice: Why this way to leave rows out was chosen, if :func:`fit` chose it.
        start: What is known of the weights that training began with.
        stop_reason: Why training ended; None for the loop of a user.
    """

    trial: ClassVar[int] = 10
    choice: str
    start: Start
    stop_reason: StopReason | None

    if TYPE_CHECKING:  # the two kinds of runs have these
        test_error: Any
        best_step: Any
        outputs: Any
        losses: Any

    @abstractmethod
    def to_module(self) -> nn.Module:
        """Return the trained network, a copy."""

    @abstractmethod
    def predict(self, X: Any) -> Tensor:
        """Outputs of the trained network for new rows, shape (m,) for one output."""

    def load_into(self, module: nn.Module) -> nn.Module:
        """Give a module of the user's the trained weights; return it.

        Args:
            module: The module that was passed for training, or one like it.
        """
        try:
            module.load_state_dict(self.to_module().state_dict())
        except RuntimeError as error:
            line = " ".join(str(error).split())
            raise ValueError(
                f"module {type(module).__name__} has other parameters than the trained one; use "
                f"to_module() ({line})"
            ) from error
        return module

    def diagnose(self, X: Any, y: Any, **options: Any) -> Diagnosis:
        """The checks of the evaluation; networks are checked while they are trained."""
        result: Diagnosis = self.evaluation.diagnosis
        return result

    @property
    def notes(self) -> dict[str, float]:
        """Numbers that every training measured, by name, for the checks."""
        return super().notes | {"best_step": float(self.best_step)} | self.start.notes

    @property
    def note(self) -> str:
        """What to know about the estimate, in sentences."""
        return " ".join(filter(None, [self.choice, *self.evaluation.reasons]))


def squeezed(outputs: Tensor) -> Tensor:
    """Single outputs as (n,), others as they are."""
    return outputs.squeeze(1) if outputs.ndim == 2 and outputs.shape[1] == 1 else outputs
