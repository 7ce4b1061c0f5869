"""The page has the table of the results."""

from pathlib import Path

from benchmarks.versus.__main__ import RESULTS
from benchmarks.versus.records import read
from benchmarks.versus.summary import short_table

PAGE = Path(__file__).parents[2] / "docs" / "versus.md"


def test_the_table_of_the_page_is_that_of_the_results():
    printed = {line for line in short_table(read(RESULTS)).splitlines() if line.startswith("|")}
    assert len(printed) > 20
    assert printed <= set(PAGE.read_text(encoding="utf-8").splitlines())
