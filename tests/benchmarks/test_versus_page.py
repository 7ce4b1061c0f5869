"""The pages have the tables of the results."""

from pathlib import Path

import pytest

from benchmarks.versus.__main__ import RESULTS
from benchmarks.versus.records import read
from benchmarks.versus.summary import family_tables, short_table

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("page", "table"), [("versus.md", short_table), ("studies/versus.md", family_tables)]
)
def test_the_tables_of_the_pages_are_those_of_the_results(page, table):
    printed = {line for line in table(read(RESULTS)).splitlines() if line.startswith("|")}
    lines = set((DOCS / page).read_text(encoding="utf-8").splitlines())
    assert len(printed) > 20
    assert printed <= lines
