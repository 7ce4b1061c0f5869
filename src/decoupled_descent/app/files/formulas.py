"""Text that a spreadsheet would run as a formula gets an apostrophe."""

from __future__ import annotations

import unicodedata

import pandas as pd

from decoupled_descent.tables.columns.values import is_number

#: Signs at which formulas begin, also full-width ones.
STARTS = frozenset("=+-@＝＋－＠")
#: Kinds of characters that a spreadsheet may skip before them, by Unicode's categories: control
#: and invisible characters, spaces, and marks without a letter. Fillers are empty letters, and
#: programs may cut at a semicolon.
SKIPPED = frozenset("CZM")
FILLERS = frozenset("\u115f\u1160\u3164\uffa0\u2800;")


def is_formula(value: object) -> bool:
    r"""Whether a spreadsheet may run a text; a single sign is harmless.

    Example:
        >>> [is_formula(one) for one in ("=1+1", "\u202e @x", "1+1", "-", 7)]
        [True, True, False, False, False]
    """
    if not isinstance(value, str):
        return False
    for k, sign in enumerate(value):
        if sign not in FILLERS and unicodedata.category(sign)[0] not in SKIPPED:
            return (sign in STARTS or value[0] in "\t\r\n") and k + 1 < len(value)
    return False


def without_formulas(table: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Put an apostrophe before text that looks like a formula; return the number of such cells.

    Names of columns count as cells.
    """
    formulas = [name for name in map(str, table.columns) if is_formula(name)]
    safe, count = table.copy(), len(formulas)
    for name in table.columns:
        if not is_number(table[name].dtype):
            texts = table[name].astype(object)
            unsafe = texts.map(is_formula).astype(bool)
            safe[name] = texts.where(~unsafe, "'" + texts.astype(str))
            count += int(unsafe.sum())
    return safe.rename(columns={name: f"'{name}" for name in formulas}), count
