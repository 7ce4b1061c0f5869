"""What the runs of all whole networks have in common, however their rows are left out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor, nn

from decoupled_descent.evaluation.checks.diagnosis import Diagnosis
from decoupled_descent.evaluation.estimate import Estimate, Metric
from decoupled_descent.evaluation.estimation import BLOCKS
from decoupled_descent.training.callbacks import StopReason

#: A run of fewer iterates is a trial: nobody expects that it has reached anything.
TRIAL = 10


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


class NetworkRun(ABC):
    """The result of training a whole network; all of it is at the best step.

    Attributes:
        choice: Why this way to leave rows out was chosen, if :func:`fit` chose it.
        start: What is known of the weights that training began with.
        stop_reason: Why training ended; None for the loop of a user.
    """

    choice: str
    start: Start
    stop_reason: StopReason | None

    if TYPE_CHECKING:  # the two kinds of runs have these
        evaluation: Any
        train_error: Any
        train_error_stderr: Any
        test_error: Any
        best_step: Any

    @abstractmethod
    def to_module(self) -> nn.Module:
        """Return the trained network, a copy."""

    @abstractmethod
    def predict(self, X: Any) -> Tensor:
        """Outputs of the trained network for new rows."""

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

    @property
    def error(self) -> float:
        """The estimated error on new rows."""
        return float(self.evaluation.error)

    @property
    def stderr(self) -> float:
        """Its standard error, over rows or groups."""
        return float(self.evaluation.stderr)

    def estimate(self, metric: Metric, blocks: int = BLOCKS) -> Estimate:
        """Estimate a metric on new rows; see :meth:`Evaluation.estimate`.

        Args:
            metric: "accuracy", "auc", "brier", "log_loss", "rmse", …, or a function of labels and
                predictions, such as those of ``sklearn.metrics``.
            blocks: How often a metric that is any function may be computed.

        Returns:
            The value, its standard error, and whether to trust them.
        """
        result: Estimate = self.evaluation.estimate(metric, blocks)
        return result

    def diagnose(self, X: Any, y: Any, **options: Any) -> Diagnosis:
        """The checks of the evaluation; networks are checked while they are trained."""
        result: Diagnosis = self.evaluation.diagnosis
        return result

    @property
    def still_falling(self) -> float:
        """The fall of the error in the last tenth of the steps, in standard errors.

        0 for a run that ended for another reason than that all steps were made, and for one of
        fewer than ten iterates.
        """
        errors, count = self.train_error, len(self.train_error)
        if self.stop_reason is not StopReason.STEPS or count < TRIAL:
            return 0.0
        stderr = max(float(self.train_error_stderr[-1]), 1e-300)
        return max(0.0, float(errors[-1 - count // TRIAL] - errors[-1]) / stderr)

    @property
    def common_notes(self) -> dict[str, float]:
        """Numbers that every training measured, by name, for the checks."""
        return {
            "diverged": float(self.stop_reason is StopReason.DIVERGED),
            "interrupted": float(self.stop_reason is StopReason.INTERRUPTED),
            "still_falling": self.still_falling,
            "best_step": float(self.best_step),
            **self.start.notes,
        }

    @property
    def note(self) -> str:
        """What to know about the estimate, in sentences."""
        return " ".join(filter(None, [self.choice, *self.evaluation.reasons]))
