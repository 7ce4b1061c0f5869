"""Names in two rows of a sheet, as below merged cells."""

import openpyxl
import pytest

from decoupled_descent.app.files.reading import read_table
from decoupled_descent.app.files.two_header_rows import joined_names


def saved(path, rows, merged=()):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for cells in merged:
        book.active.merge_cells(cells)
    book.save(path)
    return path


def test_merged_cells_of_a_real_file(tmp_path):
    rows = [
        ["Study 12, hospital north"],
        ["patient", "blood", None, "body", None],
        [None, "hb", "crp", "weight", "ill"],
        *([k, 13.5 + k, 0.1 * k, 70 + k, "yes"] for k in range(5)),
    ]
    path = saved(tmp_path / "a.xlsx", rows, ["A1:E1", "B2:C2", "D2:E2"])
    table = read_table(path)
    assert list(table.columns) == ["patient", "hb", "crp", "weight", "ill"]
    assert len(table) == 5
    assert table["hb"].tolist() == [13.5, 14.5, 15.5, 16.5, 17.5]
    assert "the names of the columns are from rows 2 and 3" in table.attrs["notes"][0]


def test_names_that_occur_twice_have_both_parts(tmp_path):
    rows = [["", "left", None, "right", None], ["id", "eye", "ear", "eye", "ear"], [1, 2, 3, 4, 5]]
    table = read_table(saved(tmp_path / "a.xlsx", rows))
    assert list(table.columns) == ["id", "left eye", "left ear", "right eye", "right ear"]


@pytest.mark.parametrize(
    "rows",
    [
        [["a", "b"], [1, 2], [3, 4]],
        [["a", None], [1, 2], [3, 4]],  # a missing name is an error of its own
        [["", "a", "b"], ["r1", "x", "y"], ["r2", "z", "x"]],  # an index without a name, and texts
        [["a", "b"], ["x", "y"], ["z", 3]],  # text above a number, but no name is missing
        [["a", None, "c"], ["x", None, "y"], [1, 2, 3]],  # one name is missing in both
        [["title"], ["a", "b"]],
        [],
    ],
)
def test_other_sheets_stay_as_they_are(rows):
    assert joined_names(rows) == (rows, [])
