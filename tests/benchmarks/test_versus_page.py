"""The page says what the results say."""

from pathlib import Path

from benchmarks.versus.__main__ import RESULTS
from benchmarks.versus.records import read
from benchmarks.versus.summary import family_tables

PAGE = Path(__file__).parents[2] / "docs" / "versus.md"


def test_the_tables_of_the_page_are_those_of_the_results():
    printed = {line for line in family_tables(read(RESULTS)).splitlines() if line.startswith("|")}
    page = set(PAGE.read_text(encoding="utf-8").splitlines())
    assert len(printed) > 50
    assert printed <= page
