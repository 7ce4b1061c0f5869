"""What estimators encode, what they record of a training, and what a model file must have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from decoupled_descent.tables.search.fits import SearchResult

Floats = NDArray[np.floating[Any]]


class EncodedLabels(NamedTuple):
    """Labels as a loss takes them."""

    targets: Tensor  # class indices, 0 and 1, or scaled numbers, shape (n,) or (n, K)
    loss: str  # its name
    outputs: int  # K


class Training(NamedTuple):
    """The record of a training, which the attributes of an estimator show."""

    result: SearchResult  # all fits, their mixture, and its predictions of the rows as if new
    curve: Floats  # the error at every ridge of the best features
    stderr_curve: Floats  # their standard errors
    ridges: Floats  # of the curve
    best: int  # the ridge that was kept
    stop_reason: str
    candidates: Sequence[dict[str, Any]]  # all that were compared
