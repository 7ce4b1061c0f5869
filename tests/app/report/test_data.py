"""What a report holds."""

from decoupled_descent.app.report.data import MissedClass, names_of
from tests.app.report.examples import classification, regression


def test_classes_that_are_mostly_missed():
    labels = ["a"] * 80 + ["b"] * 10 + ["c"] * 10
    predicted = ["a"] * 80 + ["b"] + ["a"] * 9 + ["c"] * 5 + ["a"] * 5
    data = classification(labels=labels, predictions=predicted, classes=["a", "b", "c", "d"])
    assert data.rows.mostly_missed == [MissedClass("b", 1, 10)]  # half of "c", and "d" has no row
    assert regression().rows.mostly_missed == []
    assert classification(labels=[], predictions=[]).rows.mostly_missed == []


def test_many_of_them_are_counted():
    rare = [MissedClass(f"k{k}", 0, 1_000) for k in range(8)]
    written = names_of(rare, most=2)
    assert (
        written == "“k0” (0 of 1,000 rows found), “k1” (0 of 1,000 rows found) and 6 more classes"
    )
    assert names_of([]) == ""
