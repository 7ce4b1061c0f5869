"""The column with the weights of the rows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from decoupled_descent.tables.columns.values import is_number, numbers_of

#: Names of columns with weights. A "weight" may also be that of a body, so it is asked about.
WEIGHT = re.compile(
    r"(?i)^([psfai]|survey|sampl\w*|design|final|case|person|post\w*)?[\W_]*(wt|wgt|weights?)[\W_]*\d*$"
)
#: Names that no other column has beside weights of a survey.
SURVEY = re.compile(r"(?i)^(strat(um|a)|psu|v?strata?\d*|cluster|ssu|fpc|sdmvpsu|sdmvstra)$")


def weights_of(column: pd.Series) -> NDArray[np.float64]:
    """The weights as numbers, or ``ValueError``."""
    values = numbers_of(column)
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        row = column.index[int(bad.argmax())]
        raise ValueError(
            f"--weight {column.name!r} is {column.loc[row]!r} in row {row}; weights must be "
            "numbers from 0 on, in every row"
        )
    if not values.max() > 0:
        raise ValueError(f"--weight {column.name!r} is 0 in every row; give some rows a weight")
    return values


def about_weights(frame: pd.DataFrame, used: Sequence[str]) -> tuple[list[str], list[str]]:
    """Ask about columns that may be weights of the rows.

    Returns:
        Notes and doubts: sentences on columns that are used to predict. It is a doubt beside a
        column that describes the design of a survey.

    Example:
        >>> frame = pd.DataFrame({"wt": [1.5, 2.0], "stratum": [1, 2]})
        >>> about_weights(frame, ["wt", "stratum"])[1][0][:33]
        "'wt' looks like the weight of a r"
    """
    notes, doubts = [], []
    design = any(SURVEY.match(str(name)) for name in frame.columns)
    for name in used:
        column = frame[name] if name in frame.columns else pd.Series(dtype=float)
        if not WEIGHT.match(name) or not is_number(column.dtype) or not (column.dropna() > 0).all():
            continue
        option = f"--weight {shlex.quote(name)}"
        if design:
            doubts.append(
                f"{name!r} looks like the weight of a row in a survey and is used to predict; "
                f"train with {option}, or --drop it"
            )
        else:
            notes.append(f"{name!r} is used to predict; if it says how much a row counts, {option}")
    return notes, doubts
