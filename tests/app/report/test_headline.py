"""After the first lines a reader knows how good, better than what, and whether to believe it."""

import numpy as np
import pytest

from decoupled_descent.app.report import render_report
from decoupled_descent.app.report.data import Measure
from decoupled_descent.app.report.headline import in_short, roots
from tests.app.report.examples import DIAGNOSIS, changed, classification, regression
from tests.app.report.reading import Page
from tests.app.report.test_comparison import three

FINE = {"verdict": "trust", "summary": "trust: none of 2 checks found a problem", "findings": []}


def shortly(data):
    return " ".join(in_short(data)).replace("\u00a0", " ")


def test_a_good_model():
    data = classification(2, contenders=three(), diagnosis=FINE, score=0.8)
    text = shortly(data)
    assert text.startswith(
        "About 80.0 % of new rows are predicted right. Always answering “no” would"
    )
    assert "The model is better than guessing. It is better than a linear model." in text
    assert text.endswith("These numbers can be trusted: no check found a problem.")
    assert shortly(data) in Page(render_report(data)).text.replace("\u00a0", " ")


def test_a_useless_model_that_is_well_known_to_be_so():
    labels = ["ok"] * 99 + ["fraud"]
    data = classification(
        2, labels=labels, predictions=["ok"] * 100, classes=["fraud", "ok"], diagnosis=FINE,
        contenders=three(guess=(0.0, 0.1)), score=0.99,
    )  # fmt: skip
    text = shortly(data)
    assert "About 99.0 % of new rows are predicted right. Always answering “no” would be" in text
    assert "The model is not better than guessing. Do not rely on it." in text
    assert "Mostly missed: “fraud” (0 of 1 rows found)." in text


def test_numbers_are_in_the_units_of_the_target():
    data = changed(regression(), contenders=three(median=2.0), error=25.0)
    median = np.median(np.abs(np.asarray(data.rows.labels) - np.asarray(data.rows.predictions)))
    text = shortly(data)
    assert text.startswith("Predictions of new rows miss by about 5 (root mean square), and half")
    assert (
        f"by less than {median:.3g}. Guessing (“always no”) misses by about 0.775." in text
    )  # √0.6
    assert "Do not trust" not in text
    assert text.endswith("Use these numbers with caution (heavy tails, duplicates).")


@pytest.mark.parametrize("verdict", ["do not trust", None])
def test_other_verdicts(verdict):
    data = classification(2, diagnosis=DIAGNOSIS | {"verdict": verdict} if verdict else None)
    assert ("Do not trust these numbers (heavy tails, duplicates)." in shortly(data)) == bool(
        verdict
    )


def test_a_verdict_that_is_bad_for_the_comparison_too():
    diagnosis = DIAGNOSIS | {"verdict": "do not trust"}
    data = classification(2, contenders=three(), diagnosis=diagnosis)
    text = shortly(data)
    assert "better than a linear model" not in text
    assert "predicted right" not in text  # a number that is not trusted is not repeated
    assert text.endswith("So it is not known either whether the model is better than guessing.")
    assert "which is not to be trusted" in Page(render_report(data)).text
    useless = changed(data, contenders=three(guess=(0.0, 0.1)))
    assert "The model is not better than guessing. Do not rely on it." in shortly(useless)


def test_an_interruption_comes_first():
    for changes, words in (
        ({"interrupted": True}, "Interrupted: training was not complete."),
        ({"missing": ["a", "b"]}, "the model is complete, but this report is not. Missing: a, b."),
        ({"interrupted": True, "missing": ["a"]}, "These are the results so far. Missing: a."),
    ):
        text = Page(render_report(classification(**changes))).text
        assert words in text
        assert text.index(words) < text.index("In short")


def test_a_leak_and_remarks_are_told():
    leak = {
        "name": "column that leaks the target", "status": "note", "value": 1.0, "threshold": "",
        "reason": "'tax' alone predicts it.", "advice": "if so, train with --drop tax",
        "definition": "", "widening": 1.0,
    }  # fmt: skip
    text = shortly(classification(2, contenders=three(), diagnosis=FINE | {"findings": [leak]}))
    assert "'tax' alone predicts it." in text
    assert text.endswith("These numbers can be trusted: no check found a serious problem.")


def test_roots_of_an_interval():
    assert roots((4.0, 1.0, 9.0)) == (2.0, 1.0, 3.0)
    assert roots((-1e-20,)) == (0.0,)
    assert np.isnan(roots((np.nan,))[0])


def test_the_median_error_is_beside_the_root_mean_square():
    median = Measure("median absolute error", "half are below", 12.3456, (11.4, 13.9))
    text = Page(render_report(changed(regression(), measures=[median]))).text
    assert "Half of the rows are missed by less than 12.35 (11.40 to 13.90)" in text
