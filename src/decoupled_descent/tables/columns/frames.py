"""Tables in memory: which inputs need rules for their columns, as tables of pandas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

#: NumPy's codes of types whose entries may be text: objects, text, bytes.
TEXTS = "OUS"


def as_frame(X: Any) -> pd.DataFrame | None:
    """Return a table of pandas, polars (lazy or not) or Arrow as one of pandas; else None.

    Example:
        >>> as_frame(np.zeros((2, 2))) is None
        True
    """
    if isinstance(X, pd.DataFrame):
        return X
    if hasattr(X, "collect_schema") and hasattr(X, "collect"):
        X = X.collect()
    if not hasattr(X, "to_pandas") or not hasattr(X, "columns"):
        return None
    try:
        frame: pd.DataFrame = X.to_pandas()
    except ImportError:  # polars needs pyarrow for this
        frame = pd.DataFrame(X.to_dict(as_series=False))
    return frame


def tabular(X: Any) -> Any:
    """Return a table as one of pandas, and anything else as it is."""
    frame = as_frame(X)
    return X if frame is None else frame


def raw_table(X: Any) -> pd.DataFrame | None:
    """Return X as a table if rules must turn its columns into numbers, else None.

    Rules are for tables with named columns, and for arrays and lists with text or missing values.
    Arrays of numbers, sparse matrices and sources of rows are used as they are.

    Example:
        >>> raw_table([[1.0, 2.0]]) is None, raw_table([[1.0, None]]).columns.tolist()
        (True, ['x0', 'x1'])
    """
    frame = as_frame(X)
    if frame is not None:
        return None if any(isinstance(one, pd.SparseDtype) for one in frame.dtypes) else frame
    if isinstance(X, list | tuple):
        try:
            X = np.array(X, dtype=object if _has_none_or_text(X) else None)
        except (ValueError, TypeError):  # rows of different lengths
            return None
    if type(X) is not np.ndarray or X.ndim != 2 or not X.size:
        return None
    if X.dtype.kind in TEXTS:
        frame = named(X)
        return None if all(map(_is_complete, frame.dtypes, frame.items())) else frame
    return named(X) if X.dtype.kind == "f" and np.isnan(X.min()) else None


def named(X: Any, names: Sequence[str] | None = None) -> pd.DataFrame:
    """Return an array as a table; the columns are called x0, x1, … unless ``names`` is given."""
    array = np.asarray(X)
    columns = [f"x{k}" for k in range(array.shape[1])] if names is None else list(names)
    return pd.DataFrame(array, columns=columns).infer_objects()


def _has_none_or_text(rows: Any) -> bool:
    """Whether some entry of nested lists is text or None, which NumPy would make all text."""
    entries = (one for row in rows if isinstance(row, list | tuple) for one in row)
    return any(one is None or isinstance(one, str) for one in entries)


def _is_complete(dtype: Any, item: tuple[Any, pd.Series]) -> bool:
    """Whether a column has numbers only, and none is missing."""
    return bool(types.is_numeric_dtype(dtype)) and not item[1].isna().any()
