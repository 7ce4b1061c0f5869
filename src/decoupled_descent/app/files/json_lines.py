"""Tables with one JSON object per line."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from decoupled_descent.app.files.limits import check_width
from decoupled_descent.app.files.spreadsheets import MOST_CELLS
from decoupled_descent.app.files.text import Notes


def read_json_lines(content: bytes) -> tuple[pd.DataFrame, Notes]:
    r"""Read a table from the bytes of a file; names that a line lacks are missing values.

    Example:
        >>> read_json_lines(b'{"a": 1, "b": "x"}\n{"a": 2}\n')[0]
           a    b
        0  1    x
        1  2  NaN
    """
    try:
        lines = content.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError("the text is not UTF-8; save it as UTF-8") from error
    rows = [_row(k, line) for k, line in enumerate(lines, start=1) if line.strip()]
    names = dict.fromkeys(name for row in rows for name in row)
    check_width(len(names))
    if len(rows) * len(names) > MOST_CELLS:
        raise ValueError(
            f"{len(rows):,} lines with {len(names):,} different names are more than "
            f"{MOST_CELLS:,} cells; save the table as .csv or .parquet"
        )
    columns = {name: pd.Series([row.get(name) for row in rows], dtype=object) for name in names}
    return pd.DataFrame(columns).infer_objects(), []


def _row(number: int, line: str) -> dict[str, Any]:
    """The object in one line, or ``ValueError`` that names the line."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"line {number} is not JSON ({error!s:.80}); correct it") from error
    if not isinstance(row, dict):
        raise ValueError(f'line {number} must be an object such as {{"age": 31, "town": "Ulm"}}')
    return row
