"""Columns: against a row-by-row reference, in any order, through JSON, and what is refused."""

import copy
import datetime
import decimal
import json
import math
import statistics

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoupled_descent.tables.columns import LEVELS, Column, Columns

NAN, INF = float("nan"), float("inf")
ROWS = 200


def normal(rows, seed=0):
    return np.random.default_rng(seed).normal(size=rows)


def holes(values, share=0.1, seed=0):
    gone = np.random.default_rng(seed).random(len(values)) < share
    return pd.Series(list(values), dtype=object).where(~gone, None)


def example(rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    towns = rng.choice(["Bonn", "Ulm", "Köln"], rows, p=[0.5, 0.3, 0.2])
    days = pd.Timestamp("2024-02-28") + pd.to_timedelta(rng.integers(0, 9, rows), "D")
    return pd.DataFrame(
        {
            "number": rng.normal(size=rows),
            "holes": holes(rng.normal(size=rows)).astype(float),
            "text": holes([f"{value:.3f}" for value in rng.normal(size=rows)]),
            "truth": rng.random(rows) < 0.5,
            "town": holes(towns),
            "kind": pd.Categorical(rng.choice(["u", "v"], rows)),
            "day": days.strftime("%Y-%m-%d"),
            "moment": days,
            "flag": holes([1] * rows, 0.5),
            "constant": 3.0,
            "nothing": None,
            "id": np.arange(rows),
            "code": [f"c{k}" for k in range(rows)],
        }
    )


def naive(train, test):
    """The rules once more, value by value, in plain Python."""
    columns = {}

    def known(name, table=train):
        return [None if pd.isna(value) else value for value in table[name]]

    def number(name, convert):
        values = [convert(v) for v in known(name) if v is not None]
        fill = statistics.median(values)
        columns[name] = [fill if v is None else convert(v) for v in known(name, test)]
        if len(train) - len(values) >= max(5, 0.01 * len(train)):
            columns[f"{name}_missing"] = [float(v is None) for v in known(name, test)]

    def category(name):
        values = known(name)
        levels = {v for v in values if v is not None}
        for level in sorted(levels, key=lambda v: (-values.count(v), v)):
            columns[f"{name}={level}"] = [float(v == level) for v in known(name, test)]
        if None in values:
            columns[f"{name}_missing"] = [float(v is None) for v in known(name, test)]

    for name in ("number", "holes", "text", "truth"):
        number(name, float)
    category("town")
    category("kind")
    first = min(datetime.date.fromisoformat(v) for v in train["day"])
    number("day", lambda v: float((datetime.date.fromisoformat(v) - first).days))
    number("moment", lambda v: float((v.date() - first).days))
    columns["flag_missing"] = [float(v is None) for v in known("flag", test)]
    return columns


def test_against_plain_python():
    table = example()
    train, test = table[:150], table[150:]
    train = train.assign(id=np.arange(1, 151))
    columns = Columns.learn(train)
    for part in (train, test):
        expected = naive(train, part)
        assert columns.names == list(expected)
        np.testing.assert_allclose(
            columns.apply(part), np.array(list(expected.values())).T, rtol=1e-12, atol=1e-12
        )
    assert set(columns.dropped) == {"constant", "nothing", "id", "code"}


def test_notes_say_what_was_done():
    notes = dict(note.split(": ", 1) for note in Columns.learn(example()).notes)
    assert set(notes) == {
        *("'holes'", "'text'", "'town'", "'kind'", "'day'", "'moment'", "'flag'"),
        *("dropped, the same value in every row", "dropped, without values"),
        *("dropped, numbering the rows", "dropped, nearly every row has text of its own"),
    }
    assert "replaced by the median" in notes["'holes'"]
    assert "marked by 'holes_missing'" in notes["'holes'"]
    assert notes["'day'"] == "dates, turned into days since 2024-02-28"
    assert "text with 3 different values, encoded as 4 columns" in notes["'town'"]
    assert notes["dropped, numbering the rows"] == "'id'"


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_order_of_rows_and_columns_does_not_matter(seed):
    table = example().drop(columns="id")
    columns = Columns.learn(table)
    shuffled = table.sample(frac=1, random_state=seed).sample(frac=1, axis=1, random_state=seed)
    np.testing.assert_array_equal(
        columns.apply(shuffled), columns.apply(table)[shuffled.index.to_numpy()]
    )
    again = Columns.learn(shuffled)
    assert {c.name: c for c in again.columns} == {c.name: c for c in columns.columns}
    assert sorted(again.names) == sorted(columns.names)


cells = st.one_of(
    st.none(),
    st.integers(-(10**6), 10**6),
    st.floats(-1e6, 1e6, allow_subnormal=False),
    st.sampled_from(["a", "b", "B ", "?", "1", "01", "TRUE", "2020-01-01", "12,a", "NA"]),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(cells, cells, st.booleans()), min_size=1, max_size=30), st.data())
def test_any_cells_give_finite_numbers_or_one_clear_line(rows, data):
    table = pd.DataFrame(rows, columns=["p", "q", "r"])
    try:
        columns = Columns.learn(table)
    except ValueError as error:
        message = str(error)
    else:
        X = columns.apply(table)
        assert X.shape == (len(rows), len(columns.names))
        assert np.isfinite(X).all()
        assert len(set(columns.names)) == len(columns.names)
        assert all(X[:, k].min() < X[:, k].max() for k in range(X.shape[1]))
        assert Columns.from_dict(json.loads(json.dumps(columns.to_dict()))) == columns
        message = "column"
    assert "column" in message
    assert "\n" not in message


def test_json_round_trip():
    columns = Columns.learn(example())
    content = json.dumps(columns.to_dict(), allow_nan=False)
    again = Columns.from_dict(json.loads(content))
    assert again == columns
    np.testing.assert_array_equal(again.apply(example(20)[::-1]).shape, (20, len(columns.names)))


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
    found = columns.apply(pd.DataFrame({"a": [None, 4], "b": ["?", None]}))
    np.testing.assert_array_equal(found, [[2, 0, 0], [4, 0, 0]])


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
    found = columns.apply(pd.DataFrame({"a": ["v03", "v25", "once", "new", None]}))
    assert found.argmax(1).tolist()[:4] == [3, LEVELS, LEVELS, LEVELS]
    assert found.sum(1).tolist() == [1, 1, 1, 1, 0]


def test_unknown_level_without_other():
    columns = Columns.learn(pd.DataFrame({"a": ["x", "x", "y", "y"] * 3}))
    np.testing.assert_array_equal(columns.apply(pd.DataFrame({"a": ["z", "y"]})), [[0, 0], [0, 1]])


def test_levels_do_not_depend_on_how_a_file_was_typed():
    """Of "1", "x" and "TRUE", a file with the first alone is read as numbers, perhaps as floats."""
    columns = Columns.learn(pd.DataFrame({"a": ["1", "x", "TRUE"] * 5}))
    for values, level in (([1], "1"), ([1.0], "1"), (["01"], "1"), ([True], "True"), (["x "], "x")):
        found = columns.apply(pd.DataFrame({"a": values}))
        assert [name for name, value in zip(columns.names, found[0], strict=True) if value] == [
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
    found = Columns.learn(pd.DataFrame({"a": values})).apply(pd.DataFrame({"a": values}))
    np.testing.assert_array_equal(found, [[1], [3], [3], [7]])


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
    found = columns.apply(pd.DataFrame({"a": values}))
    np.testing.assert_array_equal(found, [[0], [2.5], [1.25]])
    earlier = columns.apply(pd.DataFrame({"a": ["2020-02-27", "2021-02-28"]}))
    np.testing.assert_array_equal(earlier, [[-1], [366]])
    np.testing.assert_array_equal(columns.apply(pd.DataFrame({"a": [NAN]})), [[1.25]])


def test_date_objects():
    values = [datetime.date(2020, 1, 1), datetime.date(2020, 1, 3), None]
    found = Columns.learn(pd.DataFrame({"a": values})).apply(pd.DataFrame({"a": values}))
    np.testing.assert_array_equal(found, [[0], [2], [1]])


@pytest.mark.parametrize("start", [0, 1])
def test_numberings_are_dropped_even_with_rows_left_out(start):
    table = pd.DataFrame({"id": range(start, start + 40), "a": normal(40)})
    kept = [k for k in range(40) if k not in (3, 17, 30)]
    for index in (range(40), range(1, 41)):
        whole = table.set_axis(pd.Index(index), axis=0)
        assert Columns.learn(whole).dropped == ("id",)
        assert Columns.learn(whole.iloc[kept]).dropped == ("id",)
        assert Columns.learn(whole.iloc[kept].reset_index(drop=True)).dropped == ()


def test_not_numberings():
    table = pd.DataFrame({"year": range(1990, 2010), "back": range(19, -1, -1)})
    columns = Columns.learn(table)
    assert columns.dropped == ()
    assert columns.notes == ("'year': rises by 1 in every row: delete it if it numbers the rows",)
    assert Columns.learn(pd.DataFrame({"dose": [1, 2, 3]})).dropped == ()


def test_days_in_a_row_are_no_numbering():
    days = pd.date_range("2020-01-01", periods=150)
    table = pd.DataFrame({"text": days.strftime("%Y-%m-%d"), "moment": days})
    columns = Columns.learn(table)
    assert columns.names == ["text", "moment"]
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
        (f"dropped, numbering the rows: {name!r}",)
        if dropped
        else (f"{name!r}: rises by 1 in every row: delete it if it numbers the rows",)
    )
    some = [k for k in range(rows) if k not in (3, 17)]
    assert Columns.learn(table.iloc[some]).dropped == columns.dropped


def words(share, word, values):
    return [word if k < share * len(values) else value for k, value in enumerate(values)]


TENTHS = [f"{k / 10:.1f}" for k in range(50)] * 2


@pytest.mark.parametrize(
    ("values", "meant"),
    [
        (words(0.25, "<0.5", TENTHS), "numbers"),
        (words(0.3, "unknown", TENTHS), "numbers"),
        (words(0.3, ".", TENTHS), "numbers"),
        (words(0.6, "unknown", TENTHS), ""),
        ([f"{k} kg" for k in range(60, 85)] * 4, "numbers"),
        ([f"1'{k:03}" for k in range(25)] * 4, "numbers"),
        ([f"{k:02}/05/2020" for k in range(1, 26)] * 4, "dates"),
        ([f"{k:02}.05.20" for k in range(1, 26)] * 4, "dates"),
        ([f"{k:02}.05.2020 12:30" for k in range(1, 26)] * 4, "dates"),
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
    table = pd.DataFrame({"a": [f"{k} kg" for k in range(100)], "b": range(100, 0, -1)})
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


def test_remarks_on_what_is_made_up():
    columns = Columns.learn(example())
    assert Columns.learn(example().drop(columns=["holes", "text"])).remarks(example()) == []
    table = example(10).astype({"number": object, "moment": object})
    table.loc[[0, 3], "number"] = None
    table.loc[1, "moment"] = None
    table.loc[[2, 5], "town"] = ["Atlantis", "Rungholt"]
    table.loc[[2], "kind"] = None
    found = dict(remark.split(": ", 1) for remark in columns.remarks(table))
    assert found["'number'"].startswith("2 missing values replaced by the median, ")
    assert found["'moment'"].endswith(" days")
    assert found["'town'"] == "2 values that training did not have: 'Atlantis', 'Rungholt'"
    assert found["'kind'"] == "1 missing value, of which training had none"
    rare = Columns.learn(pd.DataFrame({"a": ["x"] * 5 + ["y"] * 5 + ["z"]}))
    assert rare.remarks(pd.DataFrame({"a": ["x", "w"]})) == [
        "'a': 1 value that training did not have, or only rarely: 'w'"
    ]


def test_names_stay_different():
    table = pd.DataFrame(
        {
            "a": holes(normal(100), 0.3).astype(float),
            "a_missing": normal(100, seed=1),
            "a_missing_2": normal(100, seed=2),
            "b": ["other", "x"] * 49 + ["y", "z"],
        }
    )
    names = Columns.learn(table).names
    assert len(set(names)) == len(names) == 7
    assert names[:2] == ["a", "a_missing"]


def test_missing_and_extra_columns():
    columns = Columns.learn(example())
    table = example(10).drop(columns=["number", "town", "code"]).assign(new=1, y=2)
    assert columns.missing(table) == ["number", "town"]
    assert columns.extra(table) == ["new", "y"]
    with pytest.raises(ValueError, match="lacks 'number', 'town', which the model was trained"):
        columns.apply(table)
    dropped = ["constant", "nothing", "id", "code"]
    assert columns.apply(example(10).drop(columns=dropped)).shape == (10, len(columns.names))
    assert columns.apply(example()[:0]).shape == (0, len(columns.names))


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
        (["1,5", "2,5", "3,5"], "row 0: '1,5' is not a number"),
        (["1,234.5", "17", "2,000"], "row 0: '1,234.5' is not a number"),
        (["12%", "13 %", "9%"], "row 0: '12%' is not a number"),
        (["$5", "$7", "$9.50"], r"row 0: '\$5' is not a number"),
        (["2020-01-01"] * 9 + ["2020-13-01"], "row 9: '2020-13-01' is not a date such as"),
        ([[1], [2], [3]], "column 'a' holds values of type list"),
        ([b"x", b"y", b"y"], "column 'a' holds values of type bytes"),
        ([1j, 2j, 3j], "column 'a' has the type complex128"),
        (pd.to_timedelta([1, 2, 3], "D"), "column 'a' has the type timedelta64"),
        ([1.0, 1.0, 1.0], "no column is left.*the same value in every row: 'a'"),
        ([None, "?", ""], "no column is left.*without values: 'a'"),
        (pd.Categorical([None, None]), "no column is left.*without values: 'a'"),
        (["u", "v", "w"], "no column is left.*text of its own: 'a'"),
        ([], "no rows"),
    ],
)
def test_bad_training_tables(values, message):
    with pytest.raises(ValueError, match=message) as caught:
        Columns.learn(pd.DataFrame({"a": values}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("number", "abc", "column 'number', row 7: 'abc' is not a number"),
        ("number", "2020-01-01", "row 7: '2020-01-01' is not a number"),
        ("number", INF, "row 7: inf is beyond"),
        ("text", "1,5", "column 'text', row 7: '1,5' is not a number"),
        ("day", "31.12.2020", "column 'day', row 7: '31.12.2020' is not a date such as 2024-05-31"),
        ("moment", "soon", "column 'moment', row 7: 'soon' is not a date"),
    ],
)
def test_values_of_another_kind(name, value, message):
    columns = Columns.learn(example())
    table = example(10).astype({name: object})
    table.loc[7, name] = value
    with pytest.raises(ValueError, match=message):
        columns.apply(table)


def test_tables_that_are_none():
    with pytest.raises(ValueError, match=r"DataFrame is needed, not numpy\.ndarray"):
        Columns.learn(np.ones((2, 2)))
    with pytest.raises(ValueError, match="more than one column 'a'; rename"):
        Columns.learn(pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]))
    with pytest.raises(ValueError, match="no column is left"):
        Columns.learn(pd.DataFrame(index=range(3)))


def column(content, name):
    return next(entry for entry in content["columns"] if entry["name"] == name)


WRONG = [None, 7, "x", [], {}, [1], NAN, INF, 1e101, 10**400, True, "2020-01-01", ["a", "a"]]


def reasonable(key, value, entry):
    """Whether a value could stand there, so that nobody can call it wrong."""
    if key == "name":
        return value in ("x", "2020-01-01")
    if key == "fill":
        return type(value) is int and value == 7
    if key == "missing":
        return value is True
    if key == "other":
        return value is True and entry["kind"] == "category"
    if key == "origin":
        return False
    return key == "levels" and value == [] and entry["kind"] != "category"


@pytest.mark.parametrize("name", ["holes", "town", "day", "flag"])
@pytest.mark.parametrize("key", ["name", "kind", "fill", "missing", "origin", "levels", "other"])
def test_every_entry_is_checked(name, key):
    good = Columns.learn(example()).to_dict()
    for value in WRONG:
        content = copy.deepcopy(good)
        entry = column(content, name)
        if reasonable(key, value, entry):
            entry[key] = value
            Columns.from_dict(content)
            continue
        entry[key] = value
        with pytest.raises(ValueError, match=r"makes no sense|cannot be used") as caught:
            Columns.from_dict(content)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "spoil",
    [
        lambda c: c.pop("notes"),
        lambda c: c.update(more=1),
        lambda c: c.update(columns={}),
        lambda c: c.update(columns=[]),
        lambda c: c.update(columns=[None]),
        lambda c: c.update(columns=c["columns"] * 2),
        lambda c: c.update(dropped=[1]),
        lambda c: c.update(dropped="ab"),
        lambda c: c.update(dropped=["number"]),
        lambda c: c.update(notes=[None]),
        lambda c: c["columns"][0].pop("fill"),
        lambda c: c["columns"][0].update(extra=1),
        lambda c: c["columns"][0].update(kind="category"),
        lambda c: column(c, "day").update(kind="number"),
        lambda c: column(c, "day").update(origin="2024-02-30"),
        lambda c: column(c, "day").update(origin="2024-02-28 00:00+02:00"),
        lambda c: column(c, "flag").update(missing=False),
        lambda c: column(c, "town").update(levels=[str(k) for k in range(21)]),
    ],
)
def test_bad_dictionaries(spoil):
    content = Columns.learn(example()).to_dict()
    spoil(content)
    with pytest.raises(ValueError, match=r"makes no sense|cannot be used"):
        Columns.from_dict(content)


@pytest.mark.parametrize("content", [None, 3, "x", [], {}, {"columns": []}])
def test_not_even_a_dictionary(content):
    with pytest.raises(ValueError, match="the keys must be columns, dropped, notes"):
        Columns.from_dict(content)


def test_columns_are_checked_however_they_are_made():
    with pytest.raises(ValueError, match="makes no sense; train the model again"):
        Column("a", "number", math.nan)


def test_the_table_is_left_alone():
    table = example()
    before = table.copy(deep=True)
    Columns.learn(table).apply(table)
    pd.testing.assert_frame_equal(table, before)
