"""Sheets of real spreadsheets: those of openpyxl, xlwt and odfpy, and files that are none."""

import datetime

import numpy as np
import openpyxl
import pandas as pd
import pytest
import xlwt

from decoupled_descent.app.files.reading import as_written, read_table

ROWS = [
    ["age", "town", "seen", "smoker", "code"],
    [31, "Ulm", datetime.datetime(2024, 5, 31), True, "007"],
    [44.5, "Köln", datetime.datetime(2024, 6, 1, 12, 30), False, "012"],
    [None, "Bonn", datetime.datetime(2024, 6, 2), True, "113"],
]


def write(path, sheets):
    """Write sheets, given as lists of rows, with the library for the suffix."""
    if path.suffix == ".xlsx":
        book = openpyxl.Workbook()
        book.remove(book.active)
        for name, rows in sheets.items():
            sheet = book.create_sheet(name)
            for row in rows:
                sheet.append(row)
        book.save(path)
    elif path.suffix == ".xls":
        book, date = xlwt.Workbook(), xlwt.easyxf(num_format_str="YYYY-MM-DD hh:mm")
        for name, rows in sheets.items():
            sheet = book.add_sheet(name)
            for i, row in enumerate(rows):
                for j, value in enumerate(row):
                    is_date = isinstance(value, datetime.datetime)
                    sheet.write(i, j, value, *([date] if is_date else []))
        book.save(str(path))
    else:
        with pd.ExcelWriter(path, engine="odf") as writer:
            for name, rows in sheets.items():
                frame = pd.DataFrame(rows, dtype=object)
                frame.to_excel(writer, sheet_name=name, header=False, index=False)
    return path


@pytest.fixture(params=[".xlsx", ".xls", ".ods"])
def book(request, tmp_path):
    other = [["x", "y"], [1, 2], [3, 5]]
    return write(tmp_path / f"a{request.param}", {"People": ROWS, "Other": other})


def test_the_first_sheet_is_read_and_noted(book):
    table = read_table(book)
    assert table.attrs["notes"] == [
        "the sheet 'People' was read; --sheet NAME reads another: 'Other'"
    ]
    np.testing.assert_array_equal(table["age"], [31, 44.5, np.nan])
    assert table["town"].tolist() == ["Ulm", "Köln", "Bonn"]
    assert table["seen"].tolist() == ["2024-05-31", "2024-06-01 12:30:00", "2024-06-02"]
    assert table["smoker"].tolist() == [True, False, True]
    assert as_written(book, "code") == ["007", "012", "113"]


def test_a_sheet_by_name(book):
    table = read_table(book, sheet="Other")
    assert table.to_numpy().tolist() == [[1, 2], [3, 5]]
    assert table.attrs["notes"] == []
    assert as_written(book, "y", "Other") == ["2", "5"]
    with pytest.raises(ValueError, match="no sheet 'other'; did you mean 'Other'"):
        read_table(book, sheet="other")


def test_a_sheet_of_something_else(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"a sheet is for \.xlsx"):
        read_table(path, sheet="A")


def test_titles_and_empty_rows_and_columns_around_a_table(tmp_path):
    rows = [["Trial 2024"], [], ["a", "b", "c"], [1, None, 3], [], [4, 5, None], [], [None, ""]]
    table = read_table(write(tmp_path / "a.xlsx", {"S": rows}))
    assert list(table.columns) == ["a", "b", "c"]
    np.testing.assert_array_equal(table, [[1, np.nan, 3], [4, 5, np.nan]])


def test_an_empty_first_sheet_is_passed_over(tmp_path):
    path = write(tmp_path / "a.xlsx", {"Empty": [], "Data": [["a", "b"], [1, 2]]})
    assert read_table(path)["b"].tolist() == [2]
    with pytest.raises(ValueError, match="the sheet is empty"):
        read_table(path, sheet="Empty")
    with pytest.raises(ValueError, match="no sheet with values"):
        read_table(write(tmp_path / "b.xlsx", {"Empty": []}))


def test_ods_is_as_pandas_reads_it(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=50), "b": rng.choice(["x", "y  z", "<&>"], 50)})
    frame.loc[::7, "a"] = np.nan
    frame.to_excel(tmp_path / "a.ods", engine="odf", index=False)
    ours, theirs = read_table(tmp_path / "a.ods"), pd.read_excel(tmp_path / "a.ods", engine="odf")
    np.testing.assert_array_equal(ours["a"], theirs["a"])
    assert [one.split() for one in ours["b"]] == [one.split() for one in theirs["b"]]


@pytest.mark.parametrize("suffix", [".xlsx", ".xls", ".ods"])
@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"PK\x03\x04 and so on", b""])
def test_files_that_are_no_spreadsheets(suffix, content, tmp_path):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"a{suffix}: .*(damaged or not an|empty)"):
        read_table(path)


@pytest.mark.parametrize("suffix", [".xlsx", ".xls"])
def test_hidden_sheets_are_read_last(suffix, tmp_path):
    path, rows = tmp_path / f"a{suffix}", [["a", "b"], [1, 2]]
    if suffix == ".xlsx":
        book = openpyxl.Workbook()
        book.active.title, book.active.sheet_state = "Old", "hidden"
        book.active.append(["x", "y"])
        book.active.append([3, 4])
        shown = book.create_sheet("New")
        for row in rows:
            shown.append(row)
        book.save(path)
    else:
        book = xlwt.Workbook()
        for name, table in (("Old", [["x", "y"], [3, 4]]), ("New", rows)):
            sheet = book.add_sheet(name)
            sheet.visibility = int(name == "Old")
            for i, j in np.ndindex(2, 2):
                sheet.write(i, j, table[i][j])
        book.active_sheet = 1
        book.save(str(path))
    table = read_table(path)
    assert list(table.columns) == ["a", "b"]
    assert table.attrs["notes"] == ["the sheet 'New' was read; --sheet NAME reads another: 'Old'"]
    assert list(read_table(path, sheet="Old").columns) == ["x", "y"]


def test_a_hidden_sheet_is_noted_if_no_other_has_values(tmp_path):
    book = openpyxl.Workbook()
    book.create_sheet("Old").sheet_state = "hidden"
    for row in (["a", "b"], [1, 2]):
        book["Old"].append(row)
    book.save(tmp_path / "a.xlsx")
    notes = read_table(tmp_path / "a.xlsx").attrs["notes"]
    assert notes == [
        "the sheet 'Old', which is hidden, was read; --sheet NAME reads another: 'Sheet'"
    ]


def test_texts_of_an_old_file_are_counted_before_they_are_copied(tmp_path):
    """Each text is stored once; the table would have 2 GB."""
    book = xlwt.Workbook()
    sheet = book.add_sheet("S")
    for k in range(65_536):
        sheet.write(k, 0, "x" * 32_000)
    book.save(str(tmp_path / "a.xls"))
    assert (tmp_path / "a.xls").stat().st_size < 3_000_000
    with pytest.raises(ValueError, match="unpacks to more than"):
        read_table(tmp_path / "a.xls")


def test_an_excel_file_with_the_suffix_of_the_old_format(tmp_path):
    write(tmp_path / "a.xlsx", {"S": [["a", "b"], [1, 2]]}).rename(tmp_path / "a.xls")
    assert read_table(tmp_path / "a.xls")["b"].tolist() == [2]


def test_title_shift_footnote_and_merged_cells_together(tmp_path):
    book = openpyxl.Workbook()
    sheet = book.active
    sheet["B3"] = "Trial 2024"
    for column, name in enumerate(["site", "age", "ill"], 3):
        sheet.cell(5, column, name)
    for k in range(12):
        sheet.cell(6 + k, 3, f"S{k // 4}" if k % 4 == 0 else None)
        sheet.cell(6 + k, 4, 20 + k)
        sheet.cell(6 + k, 5, "yes" if k % 2 else "no")
    for top in (6, 10, 14):
        sheet.merge_cells(start_row=top, end_row=top + 3, start_column=3, end_column=3)
    sheet["C20"], sheet["C21"] = "* age in years", "see the protocol"
    book.save(tmp_path / "a.xlsx")
    table = read_table(tmp_path / "a.xlsx")
    assert table["site"].tolist() == [f"S{k // 4}" for k in range(12)]
    assert table["age"].tolist() == list(range(20, 32))
    notes = " ".join(table.attrs["notes"])
    assert "merged cells were filled downwards (9 cells)" in notes
    assert "2 footnotes were left out: '* age in years', 'see the protocol'" in notes


def test_a_last_row_with_one_number_is_no_footnote(tmp_path):
    rows = [["a", "b", "c"], [1, 2, 3], [2, 3, 4], [], [7, None, None]]
    assert read_table(write(tmp_path / "a.xlsx", {"S": rows}))["a"].tolist() == [1, 2, 7]
