"""Sections on single rows: the same numbers as scikit-learn's, and sound at the edges."""

import dataclasses

import numpy as np
import pytest
from sklearn import metrics

from decoupled_descent.app.report import judged, render_report
from decoupled_descent.app.report.data import Width
from tests.app.report.examples import classification, regression
from tests.app.report.reading import Page


def problem(n=300, seed=0, share=0.3):
    rng = np.random.default_rng(seed)
    chances = np.round(rng.beta(1, 1 / share - 1, size=n), 2)  # with ties
    return chances, rng.random(n) < chances


def test_curves_against_scikit_learn():
    chances, hits = problem()
    found = judged.curves(chances, hits)
    assert judged.area(found, 300) == pytest.approx(metrics.roc_auc_score(hits, chances), abs=1e-12)
    precision, recall, limits = metrics.precision_recall_curve(hits, chances)
    np.testing.assert_allclose(found.thresholds[::-1], limits)
    np.testing.assert_allclose((found.found / found.flagged)[::-1], precision[:-1])
    np.testing.assert_allclose((found.found / hits.sum())[::-1], recall[:-1])


def two(chances, hits, names=("fine", "fraud"), **changes):
    labels = np.where(hits, names[1], names[0]).tolist()
    predicted = np.where(chances > 0.5, names[1], names[0]).tolist()
    return classification(
        labels=labels, predictions=predicted, classes=list(names), n_rows=len(labels),
        chances=np.stack([1 - chances, chances], 1), row_names=range(1, len(labels) + 1), **changes,
    )  # fmt: skip


def test_the_page_of_a_rare_class():
    chances, hits = problem(600, share=0.02)
    chances = np.minimum(chances, 0.49)  # never the most probable class
    text = Page(render_report(two(chances, hits))).text
    assert f"Mostly missed: “fraud” (0 of {hits.sum()} rows found)" in text
    assert "rows flagged" in text
    assert f"0.5 0 0 of {hits.sum()} (0.0 %) –" in text  # what the predictions do
    assert "although their labels may be right" in text
    assert "the area under the line" in text
    worst = int(np.argmin(np.where(hits, chances, 1 - chances)))
    assert f"probability of the label {worst + 1} fraud fine" in text


def test_thresholds_count_rows():
    chances, hits = problem(400, seed=1)
    page = Page(judged.thresholds(two(chances, hits)))
    rows = page.text.partition("right among flagged")[2]
    flagged = int((chances >= 0.5).sum())
    found = int((hits & (chances >= 0.5)).sum())
    assert f"{flagged} {found} of {hits.sum()}" in rows.replace(",", "")


def test_nothing_is_said_where_there_is_nothing():
    assert judged.thresholds(classification(3, chances=np.ones((600, 3)))) == ""
    one = two(np.ones(5), np.ones(5, dtype=bool))  # of one class
    assert judged.thresholds(one) == ""
    for section in (judged.calibration, judged.wrong_rows, judged.importance, judged.widths):
        assert section(classification(2)) == ""


def calibrated(content):
    return classification(2, calibration=content)


def test_the_example_of_the_calibration_is_on_its_axis():
    content = {"error": 0.01, "stderr": 0.01, "chance": 0.02}
    for stated, said in (([0.1, 0.5], "30 %"), ([0.01, 0.06], "3 %"), ([0.001, 0.005], "0.3 %")):
        text = Page(judged.calibration(calibrated(content | {"stated": stated, "seen": stated})))
        assert f"a probability of {said} for “class 1”, {said} belong" in text.text


def test_calibration_in_words():
    content = {"stated": [0.1, 0.5], "seen": [0.1, 0.5], "error": 0.01, "stderr": 0.01,
               "chance": 0.02}  # fmt: skip
    assert "are well calibrated" in Page(judged.calibration(calibrated(content))).text
    text = Page(judged.calibration(calibrated(content | {"error": 0.2}))).text
    assert "use them only to rank rows" in text


def test_calibration_has_a_dot_per_bin_that_stands_out_from_the_line():
    """Dots of a cloud are faint and hardly wider than the line; these are opaque and wider."""
    stated = [0.1, 0.5, 0.8]
    content = {"stated": stated, "seen": stated, "error": 0.01, "stderr": 0.01, "chance": 0.02}
    drawn = judged.calibration(calibrated(content))
    marks = drawn.split('<g class="dots bins">')[1].split("</g>")[0]
    assert marks.count("<path") == len(stated)
    assert ".dots.bins { stroke-width: 8; stroke-opacity: 1; }" in render_report(classification())


def test_widths_in_words():
    found = Width(0.9, 1.65, 0.91, (1.0, 1.5, 2.5), (0.95, 0.9, 0.8))
    text = Page(judged.widths(dataclasses.replace(regression(), widths=[found]))).text
    assert "90 % ± 1.65 91.0 % 95.0 % (± 1) 90.0 % (± 1.5) 80.0 % (± 2.5)" in text.replace(
        "\xa0", " "
    )
    page = render_report(dataclasses.replace(regression(), widths=[found]))
    assert "How wide are prediction intervals?" in Page(page).text


def test_marks_that_turn_text_around_are_shown():
    page = render_report(classification(title="evil \u202egpj.exe"))
    assert "\u202e" not in page
    assert "\\u202e" in page


def test_importance_of_columns_is_in_the_units_of_the_target():
    data = dataclasses.replace(regression(), importance=[("a", 120.0), ("b", 0.21), ("c", -0.1)])
    text = Page(judged.importance(data)).text.replace("\u00a0", " ")
    assert "typical error rises" in text
    assert "a to 11 times b by 10.0 % c not at all" in text  # roots of 121 and 1.21
    data = classification(importance=[("a", 0.21)])
    assert "log loss rises a by 21.0" in Page(judged.importance(data)).text
