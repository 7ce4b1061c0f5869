"""Sections on single rows: the same numbers as scikit-learn's, and sound at the edges."""

import dataclasses

import numpy as np
import pytest
from sklearn import metrics

from decoupled_descent.report import judged, render_report
from tests.report.examples import classification, regression
from tests.report.reading import Page


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
    assert f"Hardly ever found: 0 of {hits.sum()} rows of “fraud”" in text
    assert "rows flagged" in text
    assert "the area under the line" in text
    worst = int(np.argmin(np.where(hits, chances, 1 - chances)))
    assert f"probability of the label {worst + 1} fraud fine" in text


def test_thresholds_count_rows():
    chances, hits = problem(400, seed=1)
    page = Page(judged.thresholds(np.where(hits, "b", "a").tolist(),
                                  np.stack([1 - chances, chances], 1), ["a", "b"]))  # fmt: skip
    rows = page.text.partition("right among flagged")[2]
    flagged = int((chances >= 0.5).sum())
    found = int((hits & (chances >= 0.5)).sum())
    assert f"{flagged} {found} of {hits.sum()}" in rows.replace(",", "")


def test_nothing_is_said_where_there_is_nothing():
    assert judged.thresholds(["a"] * 5, np.ones((5, 3)), ["a", "b", "c"]) == ""
    assert judged.thresholds(["a"] * 5, np.ones((5, 2)), ["a", "b"]) == ""
    assert judged.calibration(None, ["a", "b"]) == ""
    assert judged.wrong_rows("regression", [], [], None, None, []) == ""
    assert judged.importance([], "log loss") == ""
    assert judged.widths([]) == ""


def test_calibration_in_words():
    content = {"stated": [0.1, 0.5], "seen": [0.1, 0.5], "error": 0.01, "stderr": 0.01,
               "chance": 0.02}  # fmt: skip
    assert "are well calibrated" in Page(judged.calibration(content, ["a", "b"])).text
    text = Page(judged.calibration(content | {"error": 0.2}, ["a", "b"])).text
    assert "use them only to rank rows" in text


def test_calibration_has_a_dot_per_bin_that_stands_out_from_the_line():
    """Dots of a cloud are faint and hardly wider than the line; these are opaque and wider."""
    stated = [0.1, 0.5, 0.8]
    content = {"stated": stated, "seen": stated, "error": 0.01, "stderr": 0.01, "chance": 0.02}
    drawn = judged.calibration(content, ["a", "b"])
    marks = drawn.split('<g class="dots bins">')[1].split("</g>")[0]
    assert marks.count("<path") == len(stated)
    assert ".dots.bins { stroke-width: 8; stroke-opacity: 1; }" in render_report(classification())


def test_widths_in_words():
    found = judged.Width(0.9, 1.65, 0.91, (1.0, 1.5, 2.5), (0.95, 0.9, 0.8))
    text = Page(judged.widths([found])).text
    assert "90 % ± 1.65 91.0 % 95.0 % (± 1) 90.0 % (± 1.5) 80.0 % (± 2.5)" in text.replace(
        "\xa0", " "
    )
    page = render_report(dataclasses.replace(regression(), widths=[found]))
    assert "How wide are prediction intervals?" in Page(page).text


def test_marks_that_turn_text_around_are_shown():
    page = render_report(classification(title="evil \u202egpj.exe"))
    assert "\u202e" not in page
    assert "\\u202e" in page
