"""The section on the checks."""

from decoupled_descent.app.report import render_report
from tests.app.report.examples import DIAGNOSIS, classification
from tests.app.report.reading import Page


def test_advice_is_given_only_where_something_was_found():
    found = {
        "name": "x",
        "value": 1.0,
        "threshold": "note from 2",
        "reason": "Why.",
        "advice": "do",
    }
    for status in ("ok", "note", "caution", "alarm"):
        diagnosis = DIAGNOSIS | {"findings": [found | {"status": status}]}
        text = Page(render_report(classification(diagnosis=diagnosis))).text
        assert f" {status} 1 note from 2" in text
        assert ("Why. → do" in text) == ("Why." in text) == (status != "ok")
        assert ("1 check found no problem" in text) == (status == "ok")


def test_checks_that_found_nothing_say_what_they_ask():
    """A fine check has its question, and never the words for a fault."""
    fine = {"name": "duplicate rows", "value": 0.0, "threshold": "", "status": "ok",
            "reason": "Half of the rows are copies.", "advice": "delete them"}  # fmt: skip
    text = Page(render_report(classification(diagnosis=DIAGNOSIS | {"findings": [fine]}))).text
    assert "Do rows occur twice, exactly or nearly?" in text
    assert "copies" not in text
    assert "delete them" not in text
