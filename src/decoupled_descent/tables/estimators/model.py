"""What estimators hold: a trained model, and the record of its training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from decoupled_descent.evaluation.checks.diagnosis import Diagnosis
from decoupled_descent.objective.losses import Loss
from decoupled_descent.tables.estimators.mixture import Mixture
from decoupled_descent.tables.estimators.options import Options
from decoupled_descent.tables.estimators.row_weights import RowWeights

if TYPE_CHECKING:
    from decoupled_descent.tables.estimators.base import DecoupledEstimator
    from decoupled_descent.training.run import Run

Floats = NDArray[np.floating[Any]]


class Encoded(NamedTuple):
    """Labels as a loss takes them."""

    targets: Tensor  # class indices, 0 and 1, or scaled numbers, shape (n,) or (n, K)
    loss: str  # its name
    outputs: int  # K


class Training(NamedTuple):
    """The record of a training, which the attributes of an estimator show."""

    predictions: Floats  # out-of-sample predictions of the rows, shape (n, K)
    error: float  # the expected error on new rows, in the units of the estimator
    stderr: float  # its standard error
    interval: tuple[float, float]  # its 95 % interval
    widening: float  # what standard errors of other scores are multiplied by
    curve: Floats  # the error at every step, or ridge
    stderr_curve: Floats  # their standard errors
    best: int  # the step or ridge that was kept
    stop_reason: str
    candidates: Sequence[dict[str, Any]] | None  # None if none were compared
    diagnostics: Diagnosis
    run: Run  # of the best candidate
    ridges: Floats | None = None  # of the curve, if it is one over ridges
    mixture_codes: NDArray[np.int64] | None = None  # which mixture predicts each row, shape (n,)
    right: Floats | None = None  # for classes: how often each row is predicted right, shape (n,)
    skipped: Sequence[str] = ()  # candidates that the time limit left out


class Model(ABC):
    """A trained model: predictions for new rows, and its state for a file."""

    #: Whether rows are left out of a minimum. Then weights, groups, several targets, logarithms of
    #: targets and rows divided among processes are supported.
    leaves_rows_out: ClassVar[bool]
    #: What the error curve of its training is over.
    curve_label: ClassVar[str]
    #: What a file has of it, in words.
    contents: ClassVar[str]
    #: Whether it was trained on a sparse matrix as it is.
    sparse: bool = False
    #: The mixture that leave-one-out intervals belong to; None if they have the same width.
    mixture: Mixture | None = None

    @staticmethod
    @abstractmethod
    def check_options(options: Options, method: str) -> None:
        """Raise ``ValueError`` for options that have no effect."""

    @classmethod
    @abstractmethod
    def fit(
        cls, estimator: DecoupledEstimator, X: Any, encoded: Encoded, weights: RowWeights
    ) -> tuple[Self, Training]:
        """Train on checked rows, with the options of an estimator and its measures of errors."""

    @abstractmethod
    def predict(self, X: Any) -> Floats:
        """Probabilities of all classes, or numbers on the scale of the fit, shape (m, K)."""

    @abstractmethod
    def logits(self, X: Any) -> Floats:
        """Logits: shape (m,) for two classes, positive for the second; else (m, K)."""

    @abstractmethod
    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors by name, and a description for JSON."""

    @classmethod
    @abstractmethod
    def restore(
        cls, content: dict[str, Any], tensors: dict[str, Tensor], loss: Loss, outputs: int
    ) -> Self:
        """Make the model again from its state, or raise ``ValueError`` if parts do not match."""
