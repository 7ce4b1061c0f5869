"""Codes for missing values, names made of digits, pairs, and numbers outside anything seen."""

import numpy as np
import pandas as pd
import pytest

from decoupled_descent.tables.columns.codes import are_names, missing_codes
from decoupled_descent.tables.columns.counting import CountingEncoder
from decoupled_descent.tables.columns.rules import Columns

RNG = np.random.default_rng(0)
AGES = RNG.integers(18, 90, 100).astype(float)


def with_code(values, *codes, times=4):
    return np.concatenate([values, *([code] * times for code in codes)])


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        (with_code(AGES, -999), (-999,)),
        (with_code(AGES, 999), (999,)),
        (with_code(AGES, -9, 9999), (9999,)),  # -9 is near to 18
        (with_code(AGES, -99, 9999), (-99, 9999)),
        (with_code(RNG.integers(1, 6, 50), 99), (99,)),
        (with_code(RNG.integers(1, 6, 50), -9, 88, 99), (-9, 88, 99)),
        (with_code(3000 * RNG.random(50), -999), (-999,)),  # the only negative number
    ],
)
def test_isolated_repeated_extreme_values_are_codes(values, codes):
    assert missing_codes(values) == codes


@pytest.mark.parametrize(
    "values",
    [
        AGES,
        with_code(AGES, 99),  # may be an age
        with_code(AGES, -999, times=1),  # not repeated
        with_code(AGES, 1000),  # no code
        with_code(RNG.normal(size=100) * 500, -999),  # not isolated
        np.array([99.0] * 9 + [1.0] * 9),  # too few others, and no spread
        np.full(5, np.nan),
    ],
)
def test_other_values_are_numbers(values):
    assert missing_codes(values) == ()


def test_codes_are_missing_values_also_in_new_rows():
    table = pd.DataFrame({"age": with_code(AGES, -999, times=29), "b": RNG.normal(size=129)})
    columns = Columns.learn(table)
    assert "-999 in 29 rows was taken as a missing value" in columns.notes[0]
    assert columns.names == ["age", "age_missing", "b"]
    made = columns.apply(table)
    assert made[:, 0].max() < 90
    assert made[-29:, 1].all()
    encoder = CountingEncoder(columns)
    made = encoder.apply(pd.DataFrame({"age": [-999, 40], "b": [0.0, 0.0]}))
    assert made[0, 0] == np.median(AGES)
    assert "not" not in " ".join(encoder.notes("training", everything=True))
    assert Columns.from_dict(columns.to_dict()) == columns


def test_digits_with_leading_zeros_are_names():
    assert are_names(["01067", "80331"])
    assert not are_names(["1067", "80331"])
    zips = RNG.choice(["01067", "80331", "10115"], 60)
    columns = Columns.learn(pd.DataFrame({"zip": zips, "a": RNG.normal(size=60)}))
    assert columns.columns[0].kind == "category"
    assert len(columns.columns[0].levels) == 3
    assert "look like numbers" not in " ".join(columns.notes)
    months = [f"{k % 12 + 1:02}" for k in range(60)]
    assert Columns.learn(pd.DataFrame({"month": months})).columns[0].kind == "number"


def test_pairs_become_two_columns():
    texts = [f"{high}/{low}" for high, low in zip(range(110, 150), range(60, 100), strict=True)]
    table = pd.DataFrame({"pressure": [*texts, None, "?"], "a": RNG.normal(size=42)})
    columns = Columns.learn(table)
    assert columns.names[:2] == ["pressure_1", "pressure_2"]
    made = columns.apply(table)
    np.testing.assert_array_equal(made[0, :2], [110, 60])
    np.testing.assert_array_equal(made[-1, :2], [129.5, 79.5])
    note = "'110/60', turned into two columns (plain_columns=['pressure'] if they are names); 2 m"
    assert note in columns.notes[0]
    with pytest.raises(ValueError, match="'high' is not a pair of numbers such as 120/80"):
        columns.apply(table.assign(pressure="high"))
    assert Columns.from_dict(columns.to_dict()) == columns


def test_numbers_and_above():
    texts = [*(str(k) for k in range(60, 90)), "90+", ">90"]
    columns = Columns.learn(pd.DataFrame({"age": texts}))
    assert columns.apply(pd.DataFrame({"age": ["90+", "61"]})).tolist() == [[90.0], [61.0]]


@pytest.mark.parametrize(
    ("age", "noted"), [(-5, True), (1_000_000, True), (95, False), (17, False)]
)
def test_numbers_outside_anything_seen_are_noted(age, noted):
    encoder = CountingEncoder(Columns.learn(pd.DataFrame({"age": AGES})))
    encoder.apply(pd.DataFrame({"age": [age, 40]}, index=[1, 2]))
    notes = encoder.notes("training", everything=True)
    assert bool(notes) == noted
    if noted:
        assert "far outside the numbers of training (18 to 89)" in notes[0]
