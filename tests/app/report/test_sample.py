"""The table of the rows by class."""

from decoupled_descent.app.report.page import render_section
from decoupled_descent.tables.analyses.sample import SampleRow
from tests.app.report.examples import classification, regression
from tests.app.report.reading import Page


def test_the_columns_stand_beside_the_classes():
    rows = [SampleRow("rows", "9", ("4", "5")), SampleRow("sex = f", "6 (67 %)", ("1", "5"))]
    page = Page(render_section("sample", classification(2, sample=rows)))
    assert page.cells[:4] == ["column", "all", "class 0", "class 1"]
    assert page.cells[4:] == ["rows", "9", "4", "5", "sex = f", "6 (67 %)", "1", "5"]
    assert render_section("sample", regression()) == ""
