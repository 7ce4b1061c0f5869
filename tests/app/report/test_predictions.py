"""The section on predictions shows the true counts, and survives odd values."""

import re
from collections import Counter

import numpy as np
import pytest
from sklearn import metrics

from decoupled_descent.app.report import render_report
from decoupled_descent.app.report.data import MissedClass, names_of
from decoupled_descent.app.report.predictions import confusion_matrix
from decoupled_descent.app.report.text import LONGEST
from tests.app.report.examples import changed, classification, regression
from tests.app.report.reading import Page

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("classes", [2, 3, 12])
def test_confusion_matrix_is_the_true_one(classes):
    data = classification(classes)
    counts, names = confusion_matrix(data.rows.labels, data.rows.predictions, data.rows.classes)
    expected = metrics.confusion_matrix(
        data.rows.labels, data.rows.predictions, labels=data.rows.classes
    )
    np.testing.assert_array_equal(counts, expected)
    assert names == data.rows.classes
    page = Page(render_report(data))
    start = page.cells.index("true")
    shown = page.cells[start : start + (classes + 2) ** 2]
    shown = np.array(shown).reshape(classes + 2, classes + 2)
    np.testing.assert_array_equal(shown[1:-1, 1:-1].astype(int), expected)
    recall = metrics.recall_score(
        data.rows.labels, data.rows.predictions, labels=names, average=None
    )
    precision = metrics.precision_score(
        data.rows.labels, data.rows.predictions, labels=names, average=None
    )
    assert shown[1:-1, -1].astype(float) == pytest.approx(100 * recall, abs=0.051)
    assert shown[-1, 1:-1].astype(float) == pytest.approx(100 * precision, abs=0.051)


@pytest.mark.parametrize("classes", [13, 100])
def test_many_classes_show_the_largest_mixups(classes):
    data = classification(classes, rows=5000)
    page = Page(render_report(data))
    mixups = Counter(
        (a, b) for a, b in zip(data.rows.labels, data.rows.predictions, strict=True) if a != b
    )
    start = page.cells.index("true class") + 4
    shown = [page.cells[start + 4 * k : start + 4 * k + 3] for k in range(15)]
    assert [int(c) for *_, c in shown] == sorted(mixups.values(), reverse=True)[:15]
    for a, b, count in shown:
        assert mixups[a, b] == int(count)
    start = page.cells.index("class") + 4
    recall = metrics.recall_score(
        data.rows.labels, data.rows.predictions, labels=data.rows.classes, average=None
    )
    shown = [float(page.cells[start + 4 * k + 2].split()[0]) for k in range(10)]
    assert shown == pytest.approx(100 * np.sort(recall)[:10], abs=0.051)
    perfect = changed(data, predictions=data.rows.labels)
    assert "All 5,000 rows" in Page(render_report(perfect)).text


def test_labels_may_be_numbers_but_must_be_listed():
    counts, names = confusion_matrix(np.array([0, 1, 1]), np.array([0, 0, 1]), ["1", "0"])
    assert counts.tolist() == [[1, 1], [0, 1]]
    assert names == ["1", "0"]
    with pytest.raises(ValueError, match=r"classes=\['0'\] does not hold the label '1'"):
        confusion_matrix([0, 1], [0, 0], ["0"])


@pytest.mark.parametrize(
    ("labels", "predictions", "words"),
    [
        ([1.0, NAN, 3.0, INF], [1.0, 2.0, NAN, 2.0], "Left out: 3 rows"),
        ([NAN, 1.0], [1.0, INF], "nothing to draw"),
        ([5.0] * 60, [5.0] * 60, "each tenth of the rows"),
        ([1e300, -1e300], [1e-300, 0.0], "the prediction is exact"),
    ],
)
def test_odd_regressions_make_a_sound_page(labels, predictions, words):
    data = changed(regression(), labels=labels, predictions=predictions)
    source = render_report(data)
    assert words in Page(source).text
    assert not re.search(r' d="[^"]*(nan|inf)', source)


def test_long_names_of_missed_classes_are_cut_and_few_are_listed():
    missed = [MissedClass(f"{k}" + "x" * 100, k, 15) for k in range(9)]
    words = names_of(missed)
    assert words.startswith(f"“0{'x' * 39}…” (0 of 15 rows found), “1")
    assert words.endswith("and 4 more classes")
    assert len(words) < LONGEST  # so that the page does not cut it once more
