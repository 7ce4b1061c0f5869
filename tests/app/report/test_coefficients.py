"""The section on coefficients."""

from dataclasses import replace

from decoupled_descent.app.report.data import Analyses
from decoupled_descent.app.report.page import render_section
from decoupled_descent.tables.analyses.coefficients import LinearPart
from tests.app.report.examples import regression


def test_both_tables_are_written_and_escaped():
    part = LinearPart(0.25, "units <x>", [("a<b", 1.5, 0.2)], [("c", -2.0, 0.9)])
    page = render_section(
        "coefficients", replace(regression(), analyses=Analyses(coefficients=part))
    )
    assert "Coefficients, in units &lt;x&gt;" in page
    assert "a&lt;b" in page
    assert "25.0" in page
    assert "−2" in page
    assert page.count("<table") == 2


def test_without_linear_models_there_is_no_section():
    assert render_section("coefficients", regression()) == ""
