"""Tables with one JSON object per line."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from decoupled_descent.app.files.limits import MOST_CELLS, check_cells, check_width, most_cells
from decoupled_descent.app.files.text import Notes


def read_json_lines(content: bytes) -> tuple[pd.DataFrame, Notes]:
    r"""Read a table from the bytes of a file; names that a line lacks are missing values.

    Example:
        >>> read_json_lines(b'{"a": 1, "b": "x"}\n{"a": 2}\n')[0]
           a    b
        0  1    x
        1  2  NaN
    """
    check_cells(sum(content.count(mark) for mark in (b",", b"[", b"{")), MOST_CELLS)
    try:
        lines = content.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError("the text is not UTF-8; save it as UTF-8") from error
    rows = [_row(k, line) for k, line in enumerate(lines, start=1) if line.strip()]
    names = dict.fromkeys(name for row in rows for name in row)
    if not names:
        raise ValueError('no line has a name; write lines such as {"age": 31, "town": "Ulm"}')
    check_width(len(names))
    check_cells(len(rows) * len(names), most_cells(len(content)))
    values = [[row.get(name) for name in names] for row in rows]
    frame = pd.DataFrame(values, columns=list(names), dtype=object)
    return frame.infer_objects(), []


def _row(number: int, line: str) -> dict[str, Any]:
    """The object in one line, or ``ValueError`` that names the line."""
    try:
        row = json.loads(line, object_pairs_hook=_without_repeated_names)
        if "\\u" in line:  # half of a character can be written so, and is no text
            json.dumps(row, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ValueError(f"line {number} is not JSON ({error!s:.80}); correct it") from error
    if not isinstance(row, dict):
        raise ValueError(f'line {number} must be an object such as {{"age": 31, "town": "Ulm"}}')
    return row


def _without_repeated_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, in which a name must not occur twice: JSON does not say which one is valid."""
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in row if names.count(name) > 1)
        raise ValueError(f"the name {twice!r} occurs twice")
    return row
