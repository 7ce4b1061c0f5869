"""Formulas of spreadsheets in text."""

import pandas as pd
import pytest

from decoupled_descent.app.files.formulas import without_formulas
from decoupled_descent.app.files.repairs import SkippedRow, as_table


def test_numbers_are_no_formulas():
    table = pd.DataFrame({"prediction": [-1.5, 2.0], "name": ["+49 30", "@home"]})
    safe, count = without_formulas(table)
    assert count == 2
    assert safe["prediction"].tolist() == [-1.5, 2.0]
    assert safe["name"].tolist() == ["'+49 30", "'@home"]


BEFORE = [
    *(" ", "\u00a0", "\ufeff", "\u200b", ";", " ; \u2060", "\u202e", "\u2066", "\u061c", "\u034f"),
    *("\ufe0f", "\U000e0020", "\u3000", "\u3164", "\x00", "\x1b", "\ue000", "\u180b"),
]


@pytest.mark.parametrize("before", BEFORE, ids=ascii)
def test_formulas_after_signs_that_spreadsheets_skip(before):
    table = pd.DataFrame({"text": [f"{before}=1+1", f"{before}word", f"{before}@x", f"{before}"]})
    safe, count = without_formulas(table)
    assert count == 2
    assert safe["text"].str.startswith("'").tolist() == [True, False, True, False]


def test_rows_that_were_left_out_have_no_formulas():
    text = as_table([SkippedRow("row 1", "a", "=cmd()", "not a number, or infinite")])
    assert "'=cmd()" in text
