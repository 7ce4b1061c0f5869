"""Sections on single rows and columns."""

import re

from decoupled_descent.app.report import render_report
from decoupled_descent.app.report.data import IntervalWidth
from decoupled_descent.app.report.page import render_section
from decoupled_descent.tables.analyses.importance import Importance
from tests.app.report.examples import changed, classification, regression
from tests.app.report.reading import Page


def test_widths_in_words():
    width = IntervalWidth(0.9, 1.65, 0.91, (1.0, 1.5, 2.5), (0.95, 0.9, 0.8))
    text = Page(render_section("intervals", changed(regression(), intervals=[width]))).text
    assert "90 % ± 1.65 91.0 % 95.0 % (± 1) 90.0 % (± 1.5) 80.0 % (± 2.5)" in text.replace(
        "\xa0", " "
    )
    page = render_report(changed(regression(), intervals=[width]))
    assert "How wide are prediction intervals?" in Page(page).text


def rises(**columns):
    return [Importance(name, rise, 0.1) for name, rise in columns.items()]


def test_importance_of_columns_is_in_the_units_of_the_target():
    data = changed(regression(), importance=rises(a=120.0, b=0.21, c=-0.1))
    text = Page(render_section("importance", data)).text.replace("\u00a0", " ")
    assert "typical error rises" in text
    # roots of 121 and 1.21, with intervals of the roots
    assert "a to 11 times 11 to 11 times – b by 10.0 % 1 % to 19 % – c not at all" in text
    data = classification(importance=rises(a=0.21))
    assert "log loss rises" in Page(render_section("importance", data)).text
    both = [Importance("a", 0.2, 0.1, 0.9), Importance("b", 0.1, 0.1, -0.5)]
    text = Page(render_section("importance", classification(importance=both))).text
    assert re.search("a by 20.0.% 0.% to 40.% more b by 10.0.% −10.% to 30.% less", text)
