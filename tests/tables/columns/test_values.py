"""Values of one column: what they are, and how they are read."""

import re

import numpy as np
import pandas as pd
import pytest

from decoupled_descent.tables.columns import values


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([1, 2.5], "number"),
        ([True, False], "number"),
        (["1", "2.5", "x"] + ["3"] * 2, "number"),
        (["1", "2.5", "x", "y", "3"], "category"),
        (["12%", "$5", "1,234"], "number"),
        (["2020-01-01"] * 4 + ["soon"], "date"),
        (["2020-01-01"] * 3 + ["soon"], "category"),
        (["31.01.2020"] * 3, "date"),
        (["01/02/2020"] * 3, "category"),
        (["TRUE", "false"], "number"),
        (["TRUE", "x"], "category"),
        ([None, "?", ""], "number"),
        (pd.to_datetime(["2020-01-01"]), "date"),
        (pd.Categorical([1, 2]), "category"),
    ],
)
def test_kinds(cells, kind):
    assert values.kind_of(pd.Series(cells, name="a")) == kind


def test_texts_are_stripped_numbered_and_missing_where_marked():
    codes, texts = values.texts_of(pd.Series(["x", " x ", "?", None, "y", "NA"]))
    assert (codes.tolist(), texts) == ([0, 0, -1, -1, 1, -1], ["x", "y"])
    codes, texts = values.texts_of(pd.Series(["?", "", "x"]), frozenset({""}))
    assert (codes.tolist(), texts) == ([0, -1, 1], ["?", "x"])


def test_one_spelling_per_level():
    assert values.levels(["1", "1.0", "01", "1e0", "1.5", "TRUE", "true", "x", "inf"]) == [
        *("1", "1", "1", "1", "1.5", "True", "True", "x", "inf")
    ]
    codes, texts = values.levels_of(pd.Series(["01", "x", "1", None]))
    assert (codes.tolist(), texts) == ([0, 1, 0, -1], ["1", "x"])


def test_numbers_and_dates_name_the_row_that_is_wrong():
    column = pd.Series(["1.5", "?", "x"], index=[7, 8, 9], name="a")
    with pytest.raises(ValueError, match="column 'a', row 9: 'x' is not a number such as"):
        values.numbers_of(column)
    np.testing.assert_array_equal(values.numbers_of(column[:2]), [1.5, np.nan])
    with pytest.raises(ValueError, match=r"column 'a', row 7: '1\.5' is not a date such as"):
        values.dates_of(column)
    result = values.dates_of(pd.Series(["2020-01-01T02:00+02:00", None]))
    assert result[0] == np.datetime64("2020-01-01")
    assert np.isnat(result[1])


def test_fractions_count_rows_with_a_value():
    codes = np.array([0, 0, 1, -1, -1])
    assert values.fraction(np.array([True, False]), codes) == pytest.approx(2 / 3)
    assert values.fraction(np.array([], dtype=bool), np.array([-1])) == 1.0


@pytest.mark.parametrize(
    ("texts", "what"),
    [
        (["85 kg", "<0.5"], "numbers"),
        (["31.05.2020"], "dates"),
        (["red", "blue", "1"], ""),
        ([], ""),
    ],
)
def test_what_text_is_probably_meant_as(texts, what):
    hint = values.meant_as(texts, np.arange(len(texts)))
    assert bool(hint) == bool(what)
    assert what in hint


def test_names_in_quotes():
    assert values.listed(["a", "it's"]) == "'a', \"it's\""
    assert values.listed(map(str, range(12))).endswith("'8', '9' and 2 more")


def test_patterns_match_as_a_whole():
    result = values.matches(re.compile(r"\d+"), ["12", "12x", ""])
    assert result.tolist() == [True, False, False]
    assert values.matches(re.compile("x"), []).dtype == bool


def test_nans_that_signal_are_missing_values_without_a_warning():
    bits = np.array([0x7FF0000000000001, 0x3FF0000000000000], dtype=np.uint64)
    result = values.numbers_of(pd.Series(bits.view(np.float64), name="a"))
    assert (result - result)[1] == 0  # under pytest, a warning is an error
    assert np.isnan(result).tolist() == [True, False]
