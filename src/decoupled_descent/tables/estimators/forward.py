r"""The error on rows after the last one: models of the past predict the next piece.

The rows are sorted by time. The later half is cut into pieces of a tenth of the rows each, and each
piece is predicted by a model that is trained on all rows before it, with its own choice of features
and ridges. The errors of these pieces estimate the error on the next tenth of the rows: the line
through them is extended (:mod:`decoupled_descent.evaluation.forecast`), and so are all metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from decoupled_descent.evaluation.checks.check import Finding
from decoupled_descent.evaluation.estimate import Estimate
from decoupled_descent.evaluation.evaluation import Evaluation
from decoupled_descent.evaluation.forecast import pieces_of

if TYPE_CHECKING:
    from decoupled_descent.tables.estimators.past import Past, Predicted

Floats = NDArray[np.floating[Any]]


class Piece(NamedTuple):
    """Rows that were predicted by a model of the rows before them."""

    start: str  # the first time in it, as text
    stop: str  # the last time in it
    rows_before: int  # rows that the model was trained on
    rows: int
    error: float
    stderr: float  # of the error, for rows of the same time
    score: float  # accuracy or R²


@dataclass(frozen=True)
class TimeEstimate:
    """The error on rows after the last one.

    Attributes:
        pieces: The pieces of the rows that were predicted from the rows before them.
        evaluation: Predictions of these rows by models of the past: all that is expected on the
            next piece.
        rows: The numbers of these rows in ``fit``, in the order of the evaluation.
        earlier: The numbers of the rows before the first piece.
    """

    pieces: tuple[Piece, ...]
    evaluation: Evaluation
    rows: NDArray[np.intp]
    earlier: NDArray[np.intp]

    @property
    def error(self) -> Estimate:
        """The expected error on the next piece."""
        return self.evaluation.estimate(self.evaluation.loss)

    @property
    def score(self) -> Estimate:
        """The expected accuracy or R² on it."""
        return self.evaluation.estimate(self.evaluation.kind.score)

    @property
    def rises(self) -> bool:
        """Whether the errors of the pieces clearly rise or fall with time."""
        return self.evaluation.trend.rises

    def table(self) -> pd.DataFrame:
        """The pieces as a table."""
        return pd.DataFrame(self.pieces)


def forward_estimate(
    values: Floats, texts: list[str], past: Past, given: Sequence[Finding] = ()
) -> TimeEstimate:
    """Predict every piece from the rows before it, and estimate what to expect of the next one.

    Args:
        values: The time of each row.
        texts: The same as text.
        past: Trains on the first rows, and predicts later ones.
        given: Findings of the checks of all rows.
    """
    before, *pieces = pieces_of(np.asarray(values, np.float64))
    parts: list[Predicted] = []
    about = []
    for rows in pieces:
        predicted = past.predict(before, rows)
        if predicted is not None:
            parts.append(predicted)
            about.append((texts[rows[0]], texts[rows[-1]], len(before)))
        before = np.concatenate([before, rows])
    if len(parts) < 2:
        raise ValueError(
            "the rows before the later ones have one class only, or the same groups; leave out time"
        )
    evaluation = past.evaluation(parts, given)
    score = evaluation.kind.score
    kept = [
        Piece(*words, len(one.losses), one.error, one.stderr, one.estimate(score).value)
        for words, one in zip(about, evaluation.by_period, strict=True)
    ]
    rows = np.concatenate([one.rows for one in parts])
    return TimeEstimate(tuple(kept), evaluation, rows, before[~np.isin(before, rows)])
