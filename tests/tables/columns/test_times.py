"""Times of rows, and pieces in their order."""

import itertools

import numpy as np
import pandas as pd
import pytest

from decoupled_descent.evaluation.forecast import pieces_of
from decoupled_descent.tables.columns.times import times_of_rows

DAYS = pd.date_range("2024-01-01", periods=5)


@pytest.mark.parametrize(
    "time",
    [
        range(5),
        np.arange(5.0),
        DAYS,
        pd.Series(DAYS, index=[9, 8, 7, 6, 5]),
        DAYS.strftime("%d.%m.%Y").tolist(),
        [f"2024-01-0{k}" for k in range(1, 6)],
    ],
)
def test_numbers_and_dates_are_times(time):
    values, texts = times_of_rows(time, None, 5)
    assert (np.diff(values) > 0).all()
    assert len(texts) == 5


def test_a_column_of_the_table_by_name():
    frame = pd.DataFrame({"day": DAYS, "a": range(5)})
    values, texts = times_of_rows("day", frame, 5)
    assert texts[0] == "2024-01-01"
    assert len(values) == 5
    with pytest.raises(ValueError, match="time='dat' must be a column of X"):
        times_of_rows("dat", frame, 5)


@pytest.mark.parametrize(
    ("time", "words"),
    [
        ([1, 2], "2 values for 5 rows"),
        (["a", "b", "c", "d", "e"], "text such as 'a'"),
        ([1, 2, np.nan, 4, 5], r"1 missing value\(s\), the first in row 2"),
        ([*DAYS[:4], pd.NaT], r"1 missing value\(s\), the first in row 4"),
    ],
)
def test_other_times(time, words):
    with pytest.raises(ValueError, match=words):
        times_of_rows(time, None, 5)


def test_pieces_are_in_order_and_keep_equal_times_together():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 60, 207).astype(float)
    pieces = pieces_of(values)
    assert sorted(np.concatenate(pieces).tolist()) == list(range(207))
    for before, after in itertools.pairwise(pieces):
        assert values[before].max() < values[after].min()
    assert 0.4 < len(pieces[0]) / 207 < 0.6


def test_too_few_rows_or_times():
    with pytest.raises(ValueError, match="at least 40 rows"):
        pieces_of(np.arange(39.0))
    with pytest.raises(ValueError, match="too few to predict later rows"):
        pieces_of(np.repeat([1.0, 2.0], 50))
