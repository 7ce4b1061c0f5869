"""The section on categories: the worst is named, others are folded."""

from dataclasses import replace

from decoupled_descent.app.report.data import Analyses
from decoupled_descent.app.report.page import render_section
from decoupled_descent.app.report.subgroups import MOST, worst
from decoupled_descent.tables.analyses.subgroups import Subgroup
from tests.app.report.examples import classification


def with_subgroups(*some):
    return replace(classification(), analyses=Analyses(subgroups=some))


def test_without_categories_there_is_no_section():
    assert render_section("subgroups", classification()) == ""
    assert worst(classification()) == ""


def test_a_worse_category_is_named():
    bad = Subgroup("town", "Ulm <b>", 30, 0.9, 0.6, 0.5, 0.1, is_worse=True)
    fine = Subgroup("town", "Bonn", 40, 0.4, 0.9, 0.0, 0.1)
    page = render_section("subgroups", with_subgroups(bad, fine))
    assert "Rows with town = Ulm &lt;b&gt; are predicted clearly worse" in page
    assert page.count("as others") == 1
    assert "Not listed" not in page


def test_chance_and_long_lists_are_stated():
    many = [Subgroup("town", f"t{k}", 30, 0.5, 0.8, 0.0, 0.1) for k in range(MOST + 3)]
    page = render_section("subgroups", with_subgroups(*many))
    assert "No category is clearly worse" in page
    assert "Not listed: 3 categories" in page
