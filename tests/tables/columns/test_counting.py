"""Batches of a table as numbers, with counts of unexpected values."""

import numpy as np
import pandas as pd
import pytest

from decoupled_descent.tables.columns.counting import CountingEncoder
from decoupled_descent.tables.columns.rules import Columns


def table(rows=80):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {"age": rng.integers(20, 60, rows), "pet": rng.choice(["cat", "dog"], rows)}
    )
    frame["when"] = pd.date_range("2024-03-01", periods=rows).strftime("%d.%m.%Y")
    frame["price"] = [f"${1000 + 7 * k:,}.50" for k in range(rows)]
    frame["customer_id"] = [k // 3 for k in range(rows)]
    return frame


@pytest.fixture
def columns():
    return Columns.learn(table())


def test_expected_values_are_encoded_as_by_the_columns(columns):
    frame = table()
    encoder = CountingEncoder(columns)
    parts = [encoder.apply(frame[start : start + 9]) for start in range(0, len(frame), 9)]
    np.testing.assert_array_equal(np.vstack(parts), columns.apply(frame))
    assert encoder.notes("the sample") == []
    assert encoder.notes("training", everything=True) == []


def test_unreadable_values_count_as_missing_and_are_reported(columns):
    frame = table().astype({"age": object}).set_axis(range(1001, 1081))
    expected = columns.apply(frame)
    frame.loc[1003, "age"], frame.loc[1008, "age"], frame.loc[1050, "age"] = "old", "?", 1e200
    frame.loc[1009, "when"] = "May"
    frame.loc[1010, "price"] = "dear"
    places = {name: k for k, name in enumerate(columns.names)}
    fill = {one.name: getattr(one, "fill", 0.0) for one in columns.columns}
    for row, name in ((1003, "age"), (1008, "age"), (1050, "age"), (1009, "when"), (1010, "price")):
        expected[row - 1001, places[name]] = fill[name]
    weekday = [place for name, place in places.items() if name.startswith("when_")]
    expected[1009 - 1001, weekday] = 0
    encoder = CountingEncoder(columns)
    result = np.vstack([encoder.apply(frame[:40]), encoder.apply(frame[40:])])
    np.testing.assert_array_equal(result, expected)
    notes = [
        "'age': 2 values are not numbers and count as missing: 'old', '1e+200' "
        "(first in row 1,003)",
        "'when': 1 value is not a date and counts as missing: 'May' (first in row 1,009)",
        "'price': 1 value is not a number and counts as missing: 'dear' (first in row 1,010)",
    ]
    assert encoder.notes("the sample") == notes
    more = encoder.notes("training", everything=True)
    assert more[0].startswith(notes[0] + "; 3 missing values replaced by the median")


def test_unknown_categories_are_other_ones():
    learnt = Columns.learn(pd.DataFrame({"a": range(6), "pet": ["cat", "dog"] * 3}))
    encoder = CountingEncoder(learnt)
    frame = pd.DataFrame({"a": 1.5, "pet": ["emu", "cat", "Dog ", "yak", None]}, index=range(5, 10))
    np.testing.assert_array_equal(
        encoder.apply(frame)[:, 1:], [[0, 0], [1, 0], [0, 1], [0, 0], [0, 0]]
    )
    (note,) = encoder.notes("the sample")
    assert note == (
        "'pet': 2 values not seen in the sample: 'emu', 'yak' (first in row 5); 1 missing value; "
        "there were none in the sample"
    )


def test_a_category_other_needs_no_note():
    pets = ["cat", "dog"] * 5 + ["emu", "yak"]
    learnt = Columns.learn(pd.DataFrame({"a": range(12), "pet": pets}))
    encoder = CountingEncoder(learnt)
    encoder.apply(pd.DataFrame({"a": [1], "pet": ["gnu"]}, index=[7]))
    assert encoder.notes("the sample") == []
    (note,) = encoder.notes("training", everything=True)
    assert "1 value not seen in training, or only rarely: 'gnu' (first in row 7)" in note


def test_of_many_values_a_few_are_shown(columns):
    encoder = CountingEncoder(columns)
    pets = [f"pet {k % 20}" for k in range(80)]
    for start in (0, 40):
        encoder.apply(table().assign(pet=pets)[start : start + 40])
    (note,) = encoder.notes("training", everything=True)
    assert note == (
        "'pet': 80 values not seen in training: 'pet 0', 'pet 1', 'pet 2', … (first in row 0)"
    )


def test_unreadable_values_are_errors_if_strict(columns):
    with pytest.raises(ValueError, match="column 'age', row 3: 'old' is not a number"):
        CountingEncoder(columns, strict=True).apply(
            table().astype({"age": object}).assign(age="old")[3:]
        )


def test_columns_that_are_not_there_are_named(columns):
    with pytest.raises(ValueError, match="lacks 'pet'"):
        CountingEncoder(columns).apply(table().drop(columns="pet"))


def test_another_unit_and_another_population(columns):
    rng = np.random.default_rng(5)

    def notes(frame):
        encoder = CountingEncoder(columns)
        for start in range(0, len(frame), 25):
            encoder.apply(frame[start : start + 25])
        return encoder.notes("training", everything=True)

    same = table().sample(60, random_state=0)
    assert notes(same) == []
    months = same.assign(age=12 * same["age"])
    (note,) = notes(months)
    assert note.startswith("'age': all 60 values far outside the numbers of training (20 to 59)")
    assert note.endswith("are they in another unit?")
    older = same.assign(age=rng.integers(45, 60, 60))
    (note,) = notes(older)
    assert "60 of 60 values are above the median of training; estimates are for rows like" in note


def test_rows_of_the_same_population_are_not_called_others():
    """Also with codes, of which most are the median: 200 tables, level 1e-4 each."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        frame = pd.DataFrame(
            {"x": rng.normal(size=90), "flag": (rng.random(90) < 0.45).astype(int)}
        )
        encoder = CountingEncoder(Columns.learn(frame[:40]))
        encoder.apply(frame[40:])
        assert not any("median of training;" in n for n in encoder.notes("training", True))
