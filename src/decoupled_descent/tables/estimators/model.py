"""What estimators encode, what they record of a training, and what a model file must have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from decoupled_descent.evaluation.checks.diagnosis import Diagnosis

if TYPE_CHECKING:
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
    curve: Floats  # the error at every ridge of the best features
    stderr_curve: Floats  # their standard errors
    best: int  # the ridge that was kept
    stop_reason: str
    candidates: Sequence[dict[str, Any]]  # all that were compared
    diagnostics: Diagnosis
    run: Run  # of the best candidate
    ridges: Floats  # of the curve
    mixture_codes: NDArray[np.int64] | None = None  # which mixture predicts each row, shape (n,)
    right: Floats | None = None  # for classes: how often each row is predicted right, shape (n,)
    skipped: Sequence[str] = ()  # candidates that the time limit left out


def require(right: Any, what: str) -> None:
    """Raise ``ValueError`` for a model file unless something about it is right."""
    if not right:
        raise ValueError(f"{what}; train the model again")
