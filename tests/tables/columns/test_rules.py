"""Columns: against a row-by-row reference, in any order, through JSON, and what is refused."""

import copy
import datetime
import json
import statistics

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoupled_descent.tables.columns.counting import CountingEncoder
from decoupled_descent.tables.columns.rules import Columns

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

    def values_of(name, table=train):
        return [None if pd.isna(value) else value for value in table[name]]

    def number(name, convert):
        values = [convert(v) for v in values_of(name) if v is not None]
        fill = statistics.median(values)
        columns[name] = [fill if v is None else convert(v) for v in values_of(name, test)]
        if len(train) - len(values) >= max(5, 0.01 * len(train)):
            columns[f"{name}_missing"] = [float(v is None) for v in values_of(name, test)]

    def category(name):
        values = values_of(name)
        levels = {v for v in values if v is not None}
        for level in sorted(levels, key=lambda v: (-values.count(v), v)):
            columns[f"{name}={level}"] = [float(v == level) for v in values_of(name, test)]
        if None in values:
            columns[f"{name}_missing"] = [float(v is None) for v in values_of(name, test)]

    for name in ("number", "holes", "text", "truth"):
        number(name, float)
    category("town")
    category("kind")
    first = min(datetime.date.fromisoformat(v) for v in train["day"])
    number("day", lambda v: float((datetime.date.fromisoformat(v) - first).days))
    number("moment", lambda v: float((v.date() - first).days))
    columns["flag_missing"] = [float(v is None) for v in values_of("flag", test)]
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
        *("dropped, row numbers", "dropped, text that is different in nearly every row"),
    }
    assert "replaced by the median" in notes["'holes'"]
    assert "marked by 'holes_missing'" in notes["'holes'"]
    assert notes["'day'"] == "dates, turned into days since 2024-02-28"
    assert "text with 3 different values, encoded as 4 columns" in notes["'town'"]
    assert notes["dropped, row numbers"] == "'id'"


@settings(max_examples=15, deadline=None)
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


def remarks(columns, table):
    encoder = CountingEncoder(columns, strict=True)
    np.testing.assert_array_equal(encoder.apply(table), columns.apply(table))
    return encoder.notes("training", everything=True)


def test_remarks_on_what_is_made_up():
    columns = Columns.learn(example())
    assert remarks(Columns.learn(example().drop(columns=["holes", "text"])), example()) == []
    table = example(10).astype({"number": object, "moment": object})
    table.loc[[0, 3], "number"] = None
    table.loc[1, "moment"] = None
    table.loc[[2, 5], "town"] = ["Atlantis", "Rungholt"]
    table.loc[[2], "kind"] = None
    result = dict(remark.split(": ", 1) for remark in remarks(columns, table))
    assert result["'number'"].startswith("2 missing values replaced by the median, ")
    assert result["'moment'"].endswith(" days")
    assert result["'town'"] == (
        "2 values not seen in training: 'Atlantis', 'Rungholt' (first in row 2)"
    )
    assert result["'kind'"] == "1 missing value; there were none in training"
    rare = Columns.learn(pd.DataFrame({"a": ["x"] * 5 + ["y"] * 5 + ["z"]}))
    assert remarks(rare, pd.DataFrame({"a": ["x", "w"]})) == [
        "'a': 1 value not seen in training, or only rarely: 'w' (first in row 1)"
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
    assert columns.extra(table) == ["new", "y"]
    with pytest.raises(ValueError, match="lacks 'number', 'town', which the model was trained"):
        columns.apply(table)
    dropped = ["constant", "nothing", "id", "code"]
    assert columns.apply(example(10).drop(columns=dropped)).shape == (10, len(columns.names))
    assert columns.apply(example()[:0]).shape == (0, len(columns.names))


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
    if key not in entry:
        return False
    if key == "name":
        return value in ("x", "2020-01-01")
    if key == "fill":
        return type(value) is int and value == 7
    if key == "missing":
        return value is True
    if key == "other":
        return value is True
    return False


@pytest.mark.parametrize("name", ["holes", "town", "day", "flag"])
@pytest.mark.parametrize(
    "key",
    ["name", "kind", "fill", "missing", "origin", "levels", "other", "style", "terms", "weights"],
)
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
        with pytest.raises(ValueError, match=r"is not valid|cannot be used") as caught:
            Columns.from_dict(content)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "spoil",
    [
        lambda c: c.pop("remarks"),
        lambda c: c.update(more=1),
        lambda c: c.update(columns={}),
        lambda c: c.update(columns=[]),
        lambda c: c.update(columns=[None]),
        lambda c: c.update(columns=c["columns"] * 2),
        lambda c: c.update(dropped=[1]),
        lambda c: c.update(dropped="ab"),
        lambda c: c.update(dropped=["number"]),
        lambda c: c.update(remarks=[None]),
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
    with pytest.raises(ValueError, match=r"is not valid|cannot be used"):
        Columns.from_dict(content)


@pytest.mark.parametrize("content", [None, 3, "x", [], {}, {"columns": []}])
def test_not_even_a_dictionary(content):
    with pytest.raises(ValueError, match="the keys must be columns, dropped, reasons"):
        Columns.from_dict(content)


def test_the_table_is_left_alone():
    table = example()
    before = table.copy(deep=True)
    Columns.learn(table).apply(table)
    pd.testing.assert_frame_equal(table, before)


def test_the_summary_has_the_reason_of_every_dropped_column():
    table = pd.DataFrame({f"same{k}": 1 for k in range(15)} | {"age": np.arange(9) ** 2})
    summary = Columns.learn(table).summary()
    assert set(summary.loc[summary["used as"] == "dropped", "note"]) == {
        "the same value in every row"
    }
