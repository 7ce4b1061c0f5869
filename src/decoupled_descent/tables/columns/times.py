"""The time of each row, and rows in the order of time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from decoupled_descent.tables.columns.frames import as_frame
from decoupled_descent.tables.columns.values import Floats, dates_of, kind_of, numbers_of, style_of


def times_of_rows(time: Any, X: Any, n: int) -> tuple[Floats, list[str]]:
    """Return the time of each row as a number, and as text; or raise ``ValueError``.

    Args:
        time: Numbers or dates, shape (n,), or the name of a column of X.
        X: The rows, if ``time`` is a name.
        n: The number of rows.
    """
    if isinstance(time, str):
        frame = as_frame(X)
        if frame is None or time not in frame.columns:
            raise ValueError(f"time={time!r} must be a column of X, or one time for each row")
        time = frame[time]
    column = pd.Series(np.asarray(time) if not isinstance(time, pd.Series) else time.to_numpy())
    if len(column) != n or column.ndim != 1:
        raise ValueError(f"time has {len(column)} values for {n} rows; pass one for each row")
    column = column.rename("time")
    kind = kind_of(column)
    if kind == "number":
        values = numbers_of(column, style_of(column, kind))
    elif kind == "date":
        dates = dates_of(column, style_of(column, kind))
        values = np.where(np.isnat(dates), np.nan, dates.astype("datetime64[us]").astype(float))
    else:
        raise ValueError(f"time has text such as {column.iloc[0]!r:.40}; pass numbers or dates")
    if np.isnan(values).any():
        row = int(np.isnan(values).argmax())
        raise ValueError(
            f"time has {int(np.isnan(values).sum())} missing value(s), the first in row {row}; "
            "give every row a time, or leave those rows out"
        )
    return values, [str(one)[:19].removesuffix(" 00:00:00") for one in column]
