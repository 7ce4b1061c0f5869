"""Values that misled the model are named for the rows to check."""

import html

import numpy as np
import pandas as pd
import pytest

from decoupled_descent.tables.columns.column import CategoryColumn, NumberColumn


def test_a_wrong_value_is_named_in_its_row(run, tmp_path):
    """One row has a wrong value of a column that matters, and one has a wrong category."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 150)).round(3)
    town = rng.choice(["Ulm", "Bonn"], 150)
    y = (10 * a + b + 8 * (town == "Ulm")).round(3)
    a[11], town[40] = 4.567, "Ulm" if town[40] == "Bonn" else "Bonn"
    frame = pd.DataFrame({"a": a, "b": b, "town": town, "y": y})
    frame.to_csv(tmp_path / "t.csv", index=False)
    given = ("train", tmp_path / "t.csv", "--target", "y", "--features", "linear")
    assert run(*given, "--out", tmp_path / "o")[0] == 0
    page = html.unescape((tmp_path / "o" / "report.html").read_text())
    part = page[page.index("Rows to check") :]
    lines = {row: text for row in (12, 41) for text in part.split("<tr>") if f">{row}</th>" in text}
    assert "a = 4.567" in lines[12]
    assert f"town = {town[40]}" in lines[41]


@pytest.mark.parametrize(
    ("column", "values", "text"),
    [
        (NumberColumn("a"), [1.25], "a = 1.25"),
        (NumberColumn("a", True), [0.0, 1.0], "a"),
        (CategoryColumn("t", False, ("x", "y")), [0.0, 1.0], "t = y"),
        (CategoryColumn("t", False, ("x",), True), [0.0, 1.0], "t = other"),
        (CategoryColumn("t", False, ("x",)), [0.0], "t = other"),
    ],
)
def test_values_are_written_as_in_the_table(column, values, text):
    assert column.written(np.array(values)) == text
