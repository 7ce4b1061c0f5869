"""One column: numbers, dates, categories, missing values, numberings, and what is refused."""

import datetime
import decimal
import math

import numpy as np
import pandas as pd
import pytest

from decoupled_descent.tables.columns.column import LEVELS, NumberColumn
from decoupled_descent.tables.columns.rules import Columns

NAN, INF = float("nan"), float("inf")
ROWS = 200


def normal(rows, seed=0):
    return np.random.default_rng(seed).normal(size=rows)


@pytest.mark.parametrize("gone", [0, 1, 4, 5, 6, 12, 50])
@pytest.mark.parametrize("rows", [100, 1000])
def test_when_missing_numbers_are_marked(gone, rows):
    values = normal(rows)
    values[:gone] = NAN
    columns = Columns.learn(pd.DataFrame({"a": values}))
    marked = gone >= 5 and gone >= rows / 100
    assert columns.names == ["a", "a_missing"][: 1 + marked]
    assert bool(columns.notes) == (gone > 0)


def test_missing_values_where_training_had_none():
    train = pd.DataFrame({"a": [1.0, 2.0, 4.0], "b": ["x", "x", "y"]})
    columns = Columns.learn(train.loc[[0, 0, 1, 2, 2]])
    result = columns.apply(pd.DataFrame({"a": [None, 4], "b": ["?", None]}))
    np.testing.assert_array_equal(result, [[2, 0, 0], [4, 0, 0]])


@pytest.mark.parametrize(
    "marker", ["", " ", "NA", "n/a", "NaN", "null", "None", "?", "-", "Missing"]
)
def test_markers(marker):
    table = pd.DataFrame({"a": ["1.5", marker, "3.5", "10"], "b": ["x", "x", marker, "y"]})
    columns = Columns.learn(table.loc[[0, 0, 1, 2, 3, 3]])
    assert columns.names == ["a", "b=x", "b=y", "b_missing"]
    expected = [[1.5, 1, 0, 0], [3.5, 1, 0, 0], [3.5, 0, 0, 1], [10, 0, 1, 0]]
    np.testing.assert_array_equal(columns.apply(table), expected)


def test_rare_levels_share_a_column():
    levels = [f"v{k:02d}" for k in range(30) for _ in range(31 - k)] + ["once"]
    columns = Columns.learn(pd.DataFrame({"a": np.random.default_rng(0).permutation(levels)}))
    assert columns.names == [*(f"a=v{k:02d}" for k in range(LEVELS)), "a=other"]
    assert "the 11 rarest values together" in columns.notes[0]
    result = columns.apply(pd.DataFrame({"a": ["v03", "v25", "once", "new", None]}))
    assert result.argmax(1).tolist()[:4] == [3, LEVELS, LEVELS, LEVELS]
    assert result.sum(1).tolist() == [1, 1, 1, 1, 0]


def test_unknown_level_without_other():
    columns = Columns.learn(pd.DataFrame({"a": ["x", "x", "y", "y"] * 3}))
    np.testing.assert_array_equal(columns.apply(pd.DataFrame({"a": ["z", "y"]})), [[0, 0], [0, 1]])


def test_levels_do_not_depend_on_how_a_file_was_typed():
    """Of "1", "x" and "TRUE", a file with the first alone is read as numbers, perhaps as floats."""
    columns = Columns.learn(pd.DataFrame({"a": ["1", "x", "TRUE"] * 5}))
    for values, level in (([1], "1"), ([1.0], "1"), (["01"], "1"), ([True], "True"), (["x "], "x")):
        result = columns.apply(pd.DataFrame({"a": values}))
        assert [name for name, value in zip(columns.names, result[0], strict=True) if value] == [
            f"a={level}"
        ]


@pytest.mark.parametrize(
    "values",
    [
        pd.array([1, None, 3, 7], dtype="Int64"),
        pd.array([1.0, None, 3.0, 7.0], dtype="Float64"),
        np.array([1, NAN, 3, 7], dtype=np.float16),
        [1, None, 3, 7],
        ["1", "", "3.0", "7e0"],
        pd.array(["1", None, "3", "7"], dtype="string"),
        [decimal.Decimal(1), None, decimal.Decimal(3), decimal.Decimal(7)],
    ],
)
def test_numbers_of_many_types(values):
    result = Columns.learn(pd.DataFrame({"a": values})).apply(pd.DataFrame({"a": values}))
    np.testing.assert_array_equal(result, [[1], [3], [3], [7]])


@pytest.mark.parametrize(
    "values",
    [
        [True, False, True, True],
        pd.array([True, False, None, True], dtype="boolean"),
        [True, False, None, True],
        ["TRUE", "false", "NA", "True"],
    ],
)
def test_truth_values(values):
    columns = Columns.learn(pd.DataFrame({"a": values}))
    assert columns.columns[0].kind == "number"
    np.testing.assert_array_equal(columns.apply(pd.DataFrame({"a": values})), [[1], [0], [1], [1]])


MOMENTS = pd.to_datetime(["2020-02-28 00:00", "2020-03-01 12:00", None])


@pytest.mark.parametrize(
    "values",
    [
        MOMENTS,
        MOMENTS.tz_localize("UTC"),
        MOMENTS.tz_localize("UTC").tz_convert("Asia/Tokyo"),
        ["2020-02-28", "2020-03-01 12:00", ""],
        ["2020-02-28T00:00:00Z", "2020-03-01T14:00+02:00", "?"],
        [datetime.datetime(2020, 2, 28), datetime.datetime(2020, 3, 1, 12), None],
    ],
)
def test_dates(values):
    columns = Columns.learn(pd.DataFrame({"a": values}))
    result = columns.apply(pd.DataFrame({"a": values}))
    np.testing.assert_array_equal(result, [[0], [2.5], [1.25]])
    earlier = columns.apply(pd.DataFrame({"a": ["2020-02-27", "2021-02-28"]}))
    np.testing.assert_array_equal(earlier, [[-1], [366]])
    np.testing.assert_array_equal(columns.apply(pd.DataFrame({"a": [NAN]})), [[1.25]])


def test_date_objects():
    values = [datetime.date(2020, 1, 1), datetime.date(2020, 1, 3), None]
    result = Columns.learn(pd.DataFrame({"a": values})).apply(pd.DataFrame({"a": values}))
    np.testing.assert_array_equal(result, [[0], [2], [1]])


@pytest.mark.parametrize("start", [0, 1])
def test_numberings_are_dropped_even_with_rows_left_out(start):
    table = pd.DataFrame({"id": range(start, start + 40), "a": normal(40)})
    rows = [k for k in range(40) if k not in (3, 17, 30)]
    for index in (range(40), range(1, 41)):
        whole = table.set_axis(pd.Index(index), axis=0)
        assert Columns.learn(whole).dropped == ("id",)
        assert Columns.learn(whole.iloc[rows]).dropped == ("id",)
        assert Columns.learn(whole.iloc[rows].reset_index(drop=True)).dropped == ("id",)


def test_not_numberings():
    table = pd.DataFrame({"year": range(1990, 2010), "back": range(19, -1, -1)})
    columns = Columns.learn(table)
    assert columns.dropped == ()
    assert columns.notes == ("'year': rises by 1 in every row: drop it if it is a row number",)
    assert Columns.learn(pd.DataFrame({"dose": [1, 2, 3]})).dropped == ()


def test_days_in_a_row_are_no_numbering():
    days = pd.date_range("2020-01-01", periods=150)
    table = pd.DataFrame({"text": days.strftime("%Y-%m-%d"), "moment": days})
    columns = Columns.learn(table)
    assert [column.name for column in columns.columns] == ["text", "moment"]
    assert "rises" not in " ".join(columns.notes)


def test_numbers_too_large_to_tell_apart_number_nothing():
    table = pd.DataFrame({"huge": [1e25] * 120, "a": normal(120)})
    assert Columns.learn(table).notes == ("dropped, the same value in every row: 'huge'",)


@pytest.mark.parametrize(
    ("name", "rows", "dropped"),
    [
        *((name, 20, True) for name in ("patient_id", "ID", "Patient-No.", "caseNumber", "row nr")),
        *((name, 20, False) for name in ("year", "dose", "nonsense", "volcano", "idle")),
        *((name, 102, True) for name in ("patient_id", "year")),
    ],
)
def test_numberings_from_elsewhere(name, rows, dropped):
    table = pd.DataFrame({name: range(1001, 1001 + rows), "a": normal(rows)})
    columns = Columns.learn(table)
    assert columns.dropped == ((name,) if dropped else ())
    assert columns.notes == (
        (f"dropped, row numbers: {name!r}",)
        if dropped
        else (f"{name!r}: rises by 1 in every row: drop it if it is a row number",)
    )
    some = [k for k in range(rows) if k not in (3, 17)]
    assert Columns.learn(table.iloc[some]).dropped == columns.dropped


def words(share, word, values):
    return [word if k < share * len(values) else value for k, value in enumerate(values)]


TENTHS = [f"{k / 10:.1f}" for k in range(50)] * 2


@pytest.mark.parametrize(
    ("values", "meant"),
    [
        (words(0.25, "below 0.5", TENTHS), "numbers"),
        (words(0.3, "untested", TENTHS), "numbers"),
        (words(0.6, "untested", TENTHS), ""),
        ([f"{k} {'kg' if k % 2 else 'lb'}" for k in range(60, 85)] * 4, "numbers"),
        ([f"{k:02}/05/2020" for k in range(1, 13)] * 4, "dates"),
        ([f"{k:02}.05.20" for k in range(1, 26)] * 4, "dates"),
        (["1.2.3", "1.2.4", "2.0.0", "2.1.0"] * 25, ""),
        (["10-20", "20-30", "30+", "A4"] * 25, ""),
        (pd.Categorical([1, 2] * 50), ""),
    ],
)
def test_what_text_may_be_meant_as(values, meant):
    (note,) = Columns.learn(pd.DataFrame({"a": values})).notes
    assert note.startswith("'a': text with")
    assert ("most look like" in note) == bool(meant)
    assert (f"most look like {meant}: write all as" in note) == bool(meant)


def test_dropped_text_may_be_meant_as_numbers():
    weights = [f"{k} {'kg' if k % 2 else 'lb'}" for k in range(100)]
    table = pd.DataFrame({"a": weights, "b": np.arange(100, 0, -1) / 7})
    assert "most look like numbers" in Columns.learn(table).notes[0]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("bool[pyarrow]", [True, False, None, True]),
        ("date32[pyarrow]", [datetime.date(2020, 1, d) for d in (2, 1, 2, 2)]),
        (
            "timestamp[us, UTC][pyarrow]",
            pd.to_datetime([f"2020-01-{k:02}" for k in (2, 1, 2, 2)], utc=True),
        ),
        ("double[pyarrow]", [1.0, 0.0, None, 1.0]),
        ("int64[pyarrow]", [1, 0, None, 1]),
    ],
)
def test_types_of_arrow(kind, values):
    table = pd.DataFrame({"a": pd.Series(values, dtype=kind)}, index=None)
    columns = Columns.learn(table)
    assert columns.columns[0].kind == ("date" if "2020" in str(values[0]) else "number")
    np.testing.assert_array_equal(columns.apply(table)[[0, 1, 3]], [[1], [0], [1]])


NUMBERS = [str(k) for k in (1, 5, 2, 7, 3, 8, 4, 9)]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, INF, 2.0], "column 'a', row 1: inf is beyond ±1e"),
        ([1.0, 2.0, -1e300], r"column 'a', row 2: -1e\+300 is beyond"),
        (
            [*NUMBERS, "1e400"],
            "row 8: (inf is beyond|'1e400' is not a number)",
        ),  # by pandas' version
        ([*NUMBERS, "12,a"], "column 'a', row 8: '12,a' is not a number such as 1234.5; correct"),
        (["x", *NUMBERS, "?"], "column 'a', row 0: 'x' is not a number.*leave it empty"),
        (["1,234.5", "1.234,5", "1,005.5"], "row 1: '1.234,5' is not a number such as 1,234.5"),
        (["2020-01-01"] * 9 + ["2020-13-01"], "row 9: '2020-13-01' is not a date such as"),
        ([[1], [2], [3]], "column 'a' holds lists or other nested values"),
        ([b"x", b"y", b"y"], "column 'a' holds bytes"),
        ([1j, 2j, 3j], "column 'a' has the type complex128"),
        (pd.to_timedelta([1, 2, 3], "D"), "column 'a' has the type timedelta64"),
        ([1.0, 1.0, 1.0], "no column is left.*the same value in every row: 'a'"),
        ([None, "?", ""], "no column is left.*without values: 'a'"),
        (pd.Categorical([None, None]), "no column is left.*without values: 'a'"),
        (["u", "v", "w"], "no column is left.*nearly every row: 'a'"),
        ([], "no rows"),
    ],
)
def test_bad_training_tables(values, message):
    with pytest.raises(ValueError, match=message) as caught:
        Columns.learn(pd.DataFrame({"a": values}))
    assert "\n" not in str(caught.value)


def test_columns_are_checked_however_they_are_made():
    with pytest.raises(ValueError, match="is not valid; train the model again"):
        NumberColumn("a", fill=math.nan)


@pytest.mark.parametrize(
    ("cells", "note", "numbers"),
    [
        (["85 kg", "7.5 kg", "n.d."], "1,234.5 kg ('7.5 kg' was read as 7.5)", [85, 7.5]),
        (["<0.5", "0.7", "1.25"], "1,234.5 ('<0.5' was read as 0.5)", [0.5, 0.7, 1.25]),
        (["#DIV/0!", "12 %", "8%"], "1,234.5 ('12 %' was read as 12)", [12, 8]),
    ],
)
def test_notes_on_numbers_have_an_example(cells, note, numbers):
    table = pd.DataFrame({"a": cells * 5})
    columns = Columns.learn(table)
    assert columns.notes[0].startswith(f"'a': numbers, written as {note}")
    assert set(numbers) <= set(columns.apply(table)[:, 0])
    assert Columns.from_dict(columns.to_dict()) == columns


def test_times_are_hours():
    table = pd.DataFrame({"a": ["8:30", "12:20", "9:10"] * 5})
    columns = Columns.learn(table)
    assert columns.notes == ("'a': times, turned into hours ('12:20' was read as 12.33333)",)
    np.testing.assert_allclose(columns.apply(table)[:3, 0], [8.5, 37 / 3, 55 / 6])


def test_capitals_that_tell_all_values_apart_matter():
    """Genotypes, say. Where other values remain, spellings are merged."""
    genes = pd.DataFrame({"a": ["AA", "Aa", "aa", "AA"] * 5})
    columns = Columns.learn(genes)
    np.testing.assert_array_equal(columns.apply(genes[:4]).sum(0), [2, 1, 1])
    assert columns.names == ["a=AA", "a=Aa", "a=aa"]
    assert columns.notes[0].endswith("by capitals were kept apart: 'AA', 'Aa', 'aa'")
    letters = Columns.learn(pd.DataFrame({"a": ["M", "m", "F", "F"] * 5}))
    assert letters.names == ["a=F", "a=M", "a=m"]
    assert letters.notes[0].endswith("by capitals were kept apart: 'M', 'm'")
    towns = pd.DataFrame({"a": ["Ulm", "ULM", "Bonn", "Ulm"] * 5})
    assert Columns.learn(towns).names == ["a=Ulm", "a=Bonn"]
    assert "(1 other spelling was merged)" in Columns.learn(towns).notes[0]
    assert "capitals" not in Columns.learn(towns).notes[0]


@pytest.mark.parametrize("name", ["patient_id", "MRN", "case number", "Patient-Nr.", "caseId"])
def test_identifiers_that_are_numbers_are_not_used(name):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: 1000 + 7 * rng.permutation(60), "age": rng.normal(size=60)})
    columns = Columns.learn(frame)
    assert [one.name for one in columns.columns] == ["age"]
    assert "different in every row" in columns.notes[0]
    assert name in columns.notes[0]
    plain = Columns.learn(frame, plain_columns=[name])
    assert [one.name for one in plain.columns] == [name, "age"]


def test_numbers_that_only_number_the_rows_are_not_used():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"entry": rng.permutation(150) + 1, "age": rng.normal(size=150)})
    assert Columns.learn(frame).dropped == ("entry",)
    assert Columns.learn(frame, plain_columns=["entry"]).dropped == ()


def test_numbers_of_things_are_used():
    """All different, but no identifiers: the name says what is counted, or there are gaps."""
    rng = np.random.default_rng(0)
    people = rng.choice(100_000, 60, replace=False)
    for name in ("number of people", "income", "no of steps"):
        frame = pd.DataFrame({name: people, "age": rng.normal(size=60)})
        assert Columns.learn(frame).dropped == ()
