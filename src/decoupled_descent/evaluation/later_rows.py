"""A fitted model on rows after the last one: the same model, fitted to the past alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from decoupled_descent.evaluation.evaluation import Evaluation
from decoupled_descent.evaluation.forecast import pieces_of
from decoupled_descent.evaluation.foreign import Foreign

Floats = NDArray[np.float64]


def of_later_rows(foreign: Foreign, times: Floats) -> Evaluation:
    """Refits to all rows before each piece predict it; all estimates are for the next piece.

    The later half of the rows is cut into pieces of a tenth of the rows each. Rows of a group that
    is predicted are left out of the past.
    """
    task = foreign.task
    before, *pieces = pieces_of(times)
    parts, said = [], []
    for piece in pieces:
        past = before
        if task.groups is not None:
            past = past[~np.isin(task.groups[past], task.groups[piece])]
        before = np.concatenate([before, piece])
        if task.weights is not None and not min(
            task.weights[past].sum(), task.weights[piece].sum()
        ):
            continue
        if len(past) < 2 or (task.classes is not None and np.ptp(task.labels[past]) == 0):
            continue
        parts.append(piece)
        said.append(foreign.predict(foreign.fitted(past, task.weights), piece))
    if len(parts) < 2:
        raise ValueError(
            "time: the rows before the later ones have one class only, no weight, or the same "
            "groups; leave out time"
        )
    rows = np.concatenate(parts)
    groups = None
    if task.groups is not None:
        groups = np.unique(task.groups[rows], return_inverse=True)[1].reshape(-1)
    return Evaluation.of(
        task.labels[rows], np.concatenate(said), task.kind,
        how="later rows", periods=np.repeat(np.arange(len(parts)), [len(one) for one in parts]),
        weights=None if task.weights is None else task.weights[rows], groups=groups,
        classes=task.classes, refits=len(parts),
    )  # fmt: skip


def as_times(time: Any, n: int) -> Floats:
    """The time of each row as a number, or ``ValueError``."""
    if isinstance(getattr(time, "dtype", None), pd.DatetimeTZDtype):
        time = pd.DatetimeIndex(time).tz_convert(None)
    given = np.asarray(time)
    if given.shape != (n,):
        raise ValueError(
            f"time has shape {given.shape}; it must have one time for each of {n} rows"
        )
    if given.dtype.kind == "M":
        given = np.where(np.isnat(given), np.nan, given.astype("datetime64[us]").astype(float))
    if given.dtype.kind not in "biuf":
        raise ValueError(
            f"time holds {given.flat[0]!r}; pass numbers or dates (numpy.datetime64, as "
            "pandas.to_datetime makes them)"
        )
    values = given.astype(np.float64)
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        raise ValueError(f"time has no value in row {row}; give every row a time")
    return values
