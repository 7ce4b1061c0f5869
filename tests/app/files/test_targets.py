"""Targets: labels in plain types, the task they mean, and what is refused."""

import numpy as np
import pandas as pd
import pytest

from decoupled_descent.app.files.targets import (
    check_target,
    labels_of,
    look_like_counts,
    recognise_task,
    values_of,
)
from decoupled_descent.checks import Target

NAN, INF = float("nan"), float("inf")


TABLE = pd.DataFrame(
    {
        "Size": [1.5, 2.5, 3.5, 4.5],
        "count": ["1", "?", "3", "NA"],
        "share": ["0.5", "1.5", "none", "2"],
        "sign": ["+", "-", "+ ", "none"],
        "answer": [True, None, False, True],
        "truth": [True, True, False, True],
        "grade": pd.Categorical(["low", "high", None, "low"]),
        "whole": [1.0, NAN, 3.0, INF],
        "many": pd.array([1, None, 3, 4], dtype="Int64"),
        "empty": [None] * 4,
    },
    index=range(1, 5),
)


@pytest.mark.parametrize(
    ("target", "labels", "rows"),
    [
        ("Size", [1.5, 2.5, 3.5, 4.5], [1, 2, 3, 4]),
        ("count", [1, 3], [1, 3]),
        ("share", [0.5, 1.5, 2.0], [1, 2, 4]),
        ("sign", ["+", "-", "+", "none"], [1, 2, 3, 4]),
        ("answer", [True, False, True], [1, 3, 4]),
        ("truth", [True, True, False, True], [1, 2, 3, 4]),
        ("grade", ["low", "high", "low"], [1, 2, 4]),
        ("whole", [1.0, 3.0, INF], [1, 3, 4]),
        ("many", [1, 3, 4], [1, 3, 4]),
    ],
)
def test_labels(target, labels, rows):
    result, labelled, notes = labels_of(TABLE[target])
    assert result.tolist() == labels
    assert {type(label) for label in result.tolist()} == {type(labels[0])}
    assert result.name == target
    assert TABLE.index[labelled].tolist() == result.index.tolist() == rows
    absent = [row for row in range(1, 5) if row not in rows]
    assert len(notes) == bool(absent)
    assert all(str(row) in notes[0] for row in absent)


def test_long_lists_of_rows_are_shortened():
    labels, labelled, (note,) = labels_of(pd.Series([1.0] * 20 + [NAN] * 30, name="y"))
    assert note.startswith("30 rows without a value of 'y' were left out: 20")
    assert note.endswith("29, …")
    assert len(labels) == labelled.sum() == 20


def test_values_for_the_estimators():
    labels = pd.Series([1, 2, 1])
    assert values_of(labels, Target.NUMBERS).dtype == np.float64
    assert values_of(labels, Target.CLASSES).tolist() == [1, 2, 1]
    assert values_of(pd.Series([0.5, 1.0]), Target.CLASSES).tolist() == ["0.5", "1"]


@pytest.mark.parametrize(
    ("table", "target", "message"),
    [
        (TABLE, "size", "no column 'size'; did you mean 'Size'?"),
        (TABLE, "shares", "did you mean 'share'?"),
        (TABLE, "qqqq", "no column 'qqqq'; there are 'Size', 'count'"),
        (TABLE, "empty", "'empty' has no values"),
        (TABLE[["Size"]], "Size", "'Size' is the only column"),
        (pd.DataFrame({f"x{k}": [0] for k in range(40)}), "z", "'x9' and 30 more$"),
        (
            pd.DataFrame({"a": range(30), "y": [str(k) for k in range(29)] + ["12,a"]}),
            "y",
            "column 'y', row 29: '12,a' is not a number",
        ),
        (
            pd.DataFrame({"a": [1, 2], "y": pd.to_datetime(["2020-01-01", "2020-01-02"])}),
            "y",
            "'y' holds dates",
        ),
        (
            pd.DataFrame({"a": range(30), "y": [f"2020-01-{k + 1:02}" for k in range(30)]}),
            "y",
            "'y' holds dates; turn them into numbers",
        ),
        (
            pd.DataFrame({"a": range(30), "y": [f"{k + 1}.1.2020" for k in range(30)]}),
            "y",
            "'y' holds dates; turn them into numbers",
        ),
    ],
)
def test_bad_targets(table, target, message):
    def read():
        check_target(list(table.columns), target)
        return labels_of(table[target])

    with pytest.raises(ValueError, match=message):
        read()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([f"${k:,}" for k in range(1000, 1030)], range(1000, 1030)),
        ([f"{k} %" for k in range(30)], range(30)),
        ([f"{k},5" for k in range(30)], [k + 0.5 for k in range(30)]),
    ],
)
def test_quantities_in_other_styles(values, expected):
    labels, _, (note,) = labels_of(pd.Series(values, name="y"))
    assert labels.tolist() == list(expected)
    assert "'y': numbers, written as" in note
    few = pd.Series(values[:4], name="y")
    assert labels_of(few)[0].tolist() == values[:4]  # perhaps classes
    assert labels_of(few, quantity=True)[0].tolist() == list(expected)[:4]


def test_classes_that_differ_by_capitals_are_one_class():
    written = ["Yes", "yes", "no  way", "no way", "Yes"]
    labels, _, notes = labels_of(pd.Series(written, name="y"))
    assert labels.tolist() == ["Yes", "Yes", "no way", "no way", "Yes"]
    assert notes == ["'y': other spellings: 'yes' (1) as 'Yes'"]


def test_classes_that_only_capitals_tell_apart():
    labels, _, notes = labels_of(pd.Series(["AA", "Aa", "aa", "Aa"], name="y"))
    assert labels.tolist() == ["AA", "Aa", "aa", "Aa"]
    assert notes == ["'y': classes that differ only by capitals were kept apart: 'AA', 'Aa', 'aa'"]


CLASSIFICATION, REGRESSION = "classification", "regression"


@pytest.mark.parametrize(
    ("labels", "task", "expected"),
    [
        (["a", "b"] * 2, None, CLASSIFICATION),
        ([True, False] * 2, None, CLASSIFICATION),
        ([True, False] * 2, REGRESSION, REGRESSION),
        ([0, 1] * 3, None, CLASSIFICATION),
        ([-1.0, 1.0] * 3, None, CLASSIFICATION),
        ([0.5, 1.5] * 3, None, CLASSIFICATION),
        (list(range(20)) * 10, None, CLASSIFICATION),
        (list(range(20)) * 9, None, REGRESSION),
        (list(range(21)) * 20, None, REGRESSION),
        (list(range(21)) * 20, CLASSIFICATION, CLASSIFICATION),
        ([0.5, 1, 2] * 50, None, REGRESSION),
        ([0.5, 1, 2] * 50, CLASSIFICATION, CLASSIFICATION),
        ([0, 1, 2] * 10, None, CLASSIFICATION),
        ([0, 1, 2] * 9, None, REGRESSION),
        ([0, 1] * 50, REGRESSION, REGRESSION),
        ([0, 1, 2] * 30 + [15], None, REGRESSION),
        ([0, 1, 2] * 30 + [15, 15], None, CLASSIFICATION),
        ([0] * 9 + [1], None, REGRESSION),
        (np.repeat(range(7), [30, 25, 18, 12, 7, 4, 2]), None, "counts"),
        (np.repeat(range(7), [30, 25, 18, 12, 7, 4, 2]), CLASSIFICATION, CLASSIFICATION),
        (np.repeat(range(1, 6), [4, 16, 50, 20, 10]), None, CLASSIFICATION),  # grades
        (np.repeat([1, 2, 3, 5, 6, 7], [70, 76, 17, 13, 9, 29]), None, CLASSIFICATION),
        (np.random.default_rng(0).normal(size=50), None, REGRESSION),
        ([1e70, -1e70, 0.0], None, REGRESSION),
        ([f"c{k}" for k in range(100)] * 2, None, CLASSIFICATION),
    ],
)
def test_tasks(labels, task, expected):
    assert recognise_task(pd.Series(labels, name="y"), task) == expected


@pytest.mark.parametrize(
    ("drawn", "low", "high"),
    [
        (lambda rng, n: rng.poisson(2, n), 0.75, 1.0),
        (lambda rng, n: rng.negative_binomial(1, 0.3, n), 0.9, 1.0),
        (lambda rng, n: rng.integers(0, 8, n), 0.0, 0.01),
        (lambda rng, n: rng.choice(6, n, p=rng.dirichlet(np.ones(6))), 0.0, 0.1),
    ],
)
def test_counts_are_recognised(drawn, low, high):
    """Shares of 200 draws of 150 labels; the limits are three standard errors from those stated."""
    rng = np.random.default_rng(3)
    assert low <= np.mean([look_like_counts(drawn(rng, 150)) for _ in range(200)]) <= high


@pytest.mark.parametrize(
    ("labels", "task", "message"),
    [
        (["a", "b"] * 2, REGRESSION, "'y' holds text such as 'a'; use task='classification'"),
        (["a", "b"], "ranking", "task='ranking' must be one of classification, regression"),
        (["a"] * 3, None, "'y' is 'a' in every row"),
        ([2.5] * 3, None, "'y' is '2.5' in every row"),
        (["a\nb"] * 3, None, r"'a\\nb' in every row"),
        (["a", "a", "b"], None, "only one row of the class 'b'; at least 2"),
        ([1, 1, 2, 3], CLASSIFICATION, "only one row of the classes '2', '3'.*task='regression'$"),
        (["a", "a", "b"], None, "join or delete the class$"),
        (
            [f"{k} kg" for k in range(40)],
            None,
            "40 different values.*most look like numbers: write",
        ),
        (range(101), CLASSIFICATION, "101 different values in 101 rows.*task='regression'"),
        ([*range(101)] * 5, CLASSIFICATION, "101 different values in 505 rows"),
        ([*range(60), 1], CLASSIFICATION, "60 different values in 61 rows"),
        ([f"id{k}" for k in range(40)], None, "40 different values.*choose another target"),
        ([1.0, INF, 2.0], None, "row 1: inf is beyond ±1e"),
        ([1.0, 2.0, -1.1e70], REGRESSION, r"row 2: -1\.1e\+70 is beyond"),
        ([0.0, 2e-71, -1e-71], REGRESSION, r"no number beyond ±1e-70; multiply it"),
        ([1.0, NAN], None, "missing values"),
        ([], None, "no values"),
    ],
)
def test_bad_tasks(labels, task, message):
    with pytest.raises(ValueError, match=message) as caught:
        recognise_task(pd.Series(labels, name="y"), task)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("rare", "usual", "is_asked"),
    [
        ("il", "ill", True),
        ("benigm", "benign", True),
        ("unknown", "known", False),
        ("female", "male", False),
        ("stage 2", "stage 1", False),
        ("dead", "alive", False),
    ],
)
def test_rare_classes_that_are_spelt_like_others(rare, usual, is_asked):
    column = pd.Series([rare] * 3 + [usual] * 40 + ["other one"] * 20, name="y")
    notes = labels_of(column)[2]
    asked = f"{rare!r} (3 rows) may be a typing error for {usual!r} (40 rows); --merge-classes"
    assert any(asked in note for note in notes) == is_asked
    few = labels_of(column[:30])[2]  # as frequent as a typing error would not be
    assert not any("typing error" in note for note in few)
