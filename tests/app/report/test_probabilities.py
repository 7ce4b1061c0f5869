"""Sections on single rows: the same numbers as naive counts, and sound at the edges."""

import numpy as np
from scipy.stats import binomtest

from decoupled_descent.app.report import render_report
from decoupled_descent.app.report.page import render_section
from decoupled_descent.app.report.probabilities import counts, net_benefit, wilson
from tests.app.report.examples import classification
from tests.app.report.reading import Page


def problem(n=300, seed=0, share=0.3):
    rng = np.random.default_rng(seed)
    shares = np.round(rng.beta(1, 1 / share - 1, size=n), 2)  # with ties
    return shares, rng.random(n) < shares


def test_counts_of_flagged_rows_one_by_one():
    shares, hits = problem()
    at = counts(shares, hits)
    assert at.thresholds.tolist() == sorted(set(shares.tolist()), reverse=True)
    assert at.flagged.tolist() == [int((shares >= limit).sum()) for limit in at.thresholds]
    assert at.hits.tolist() == [int((hits & (shares >= limit)).sum()) for limit in at.thresholds]


def test_the_area_is_the_share_of_pairs_in_the_right_order():
    shares, hits = problem()
    differences = shares[hits][:, None] - shares[~hits]
    area = (differences > 0).mean() + (differences == 0).mean() / 2
    text = Page(render_section("thresholds", two(shares, hits))).text
    assert f"another row in {100 * area:.1f} % of all pairs" in text


def two(shares, hits, names=("fine", "fraud"), **changes):
    labels = np.where(hits, names[1], names[0]).tolist()
    predicted = np.where(shares > 0.5, names[1], names[0]).tolist()
    return classification(
        labels=labels, predictions=predicted, classes=list(names), n_rows=len(labels),
        probabilities=np.stack([1 - shares, shares], 1), row_names=range(1, len(labels) + 1),
        **changes,
    )  # fmt: skip


def test_the_page_of_a_rare_class():
    shares, hits = problem(600, share=0.02)
    shares = np.minimum(shares, 0.49)  # never the most probable class
    text = Page(render_report(two(shares, hits))).text
    assert f"Mostly missed: “fraud” (0 of {hits.sum()} rows found)" in text
    assert "rows flagged" in text
    assert f"0.5 0 0 of {hits.sum()} (0.0 %) –" in text  # what the predictions do
    assert "although their labels may be right" in text
    assert "the area under the line" in text
    worst = int(np.argmin(np.where(hits, shares, 1 - shares)))
    assert f"probability of the label {worst + 1} fraud fine" in text


def test_thresholds_count_rows():
    shares, hits = problem(400, seed=1)
    page = Page(render_section("thresholds", two(shares, hits)))
    rows = page.text.partition("right among flagged")[2]
    flagged = int((shares >= 0.5).sum())
    right = int((hits & (shares >= 0.5)).sum())
    assert f"{flagged} {right} of {hits.sum()}" in rows.replace(",", "")


def test_sections_without_content_are_empty():
    assert render_section("thresholds", classification(3, probabilities=np.ones((600, 3)))) == ""
    one = two(np.ones(5), np.ones(5, dtype=bool))  # of one class
    assert render_section("thresholds", one) == ""
    for section in ("calibration", "largest_errors", "importance", "intervals"):
        assert render_section(section, classification(2)) == ""


def calibrated(content):
    return classification(2, calibration=content)


def test_the_example_of_the_calibration_is_on_its_axis():
    content = {"error": 0.01, "stderr": 0.01, "chance": 0.02}
    for stated, share in (([0.1, 0.5], "30 %"), ([0.01, 0.06], "3 %"), ([0.001, 0.005], "0.3 %")):
        text = Page(
            render_section("calibration", calibrated(content | {"stated": stated, "seen": stated}))
        )
        assert f"a probability of {share} for “class 1”, {share} belong" in text.text


def test_calibration_in_words():
    content = {"stated": [0.1, 0.5], "seen": [0.1, 0.5], "error": 0.01, "stderr": 0.01,
               "chance": 0.02}  # fmt: skip
    assert "are well calibrated" in Page(render_section("calibration", calibrated(content))).text
    text = Page(render_section("calibration", calibrated(content | {"error": 0.2}))).text
    assert "use them only to rank rows" in text


def test_calibration_has_a_dot_per_bin_that_stands_out_from_the_line():
    """Dots of a cloud are faint and hardly wider than the line; these are opaque and wider."""
    stated = [0.1, 0.5, 0.8]
    content = {"stated": stated, "seen": stated, "error": 0.01, "stderr": 0.01, "chance": 0.02}
    drawn = render_section("calibration", calibrated(content))
    marks = drawn.split('<g class="dots bins">')[1].split("</g>")[0]
    assert marks.count("<path") == len(stated)
    assert ".dots.bins { stroke-width: 8; stroke-opacity: 1; }" in render_report(classification())


def test_marks_that_turn_text_around_are_shown():
    page = render_report(classification(title="evil \u202egpj.exe"))
    assert "\u202e" not in page
    assert "\\u202e" in page


def test_net_benefit_counts_hits_and_false_alarms():
    shares, hits = problem(200, seed=2)
    limits = np.array([0.05, 0.2, 0.5, 0.9])
    found = net_benefit(counts(shares, hits), 200, limits)
    for limit, benefit in zip(limits, found, strict=True):
        flagged = shares >= limit
        right, wrong = (flagged & hits).sum(), (flagged & ~hits).sum()
        assert abs(benefit - (right - wrong * limit / (1 - limit)) / 200) < 1e-12
    assert "Decision curve" in Page(render_section("thresholds", two(shares, hits))).text


def test_the_band_of_the_curve_is_wilsons():
    for hits, n in ((0, 12), (5, 12), (12, 12)):
        ends = binomtest(hits, n).proportion_ci(method="wilson")
        low, high = wilson(np.array([hits / n]), n)
        np.testing.assert_allclose([low[0], high[0]], ends, atol=1e-12)


def test_the_probabilities_of_both_classes_are_drawn():
    page = render_section("thresholds", two(*problem(80)))
    assert "Predicted probabilities of both classes" in page
    assert 'class="band"' in page
