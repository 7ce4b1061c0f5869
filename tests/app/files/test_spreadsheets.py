"""Sheets of real spreadsheets: those of openpyxl, xlwt and odfpy, and files that are none."""

import datetime
import io
import zipfile

import numpy as np
import openpyxl
import pandas as pd
import pytest
import xlwt

from decoupled_descent.app.files import spreadsheets
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


def ods(rows):
    """An .ods file with these rows as XML."""
    names = {"office": spreadsheets.OFFICE, "table": spreadsheets.TABLE, "text": spreadsheets.TEXT}
    spaces = " ".join(f'xmlns:{short}="{long[1:-1]}"' for short, long in names.items())
    text = f"<office:body {spaces}><table:table table:name='S'>{rows}</table:table></office:body>"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("content.xml", text)
    return stream.getvalue()


CELL = "<table:table-cell {}><text:p>x</text:p></table:table-cell>"


@pytest.mark.parametrize(
    "rows",
    [
        "<table:table-row table:number-rows-repeated='1000000'>"
        + CELL.format("table:number-columns-repeated='16000'")
        + "</table:table-row>",
        "<table:table-row>"
        + CELL.format("table:number-columns-repeated='16000'") * 5
        + "</table:table-row>",
        "<table:table-row>" + CELL.format("table:number-columns-repeated='16000'")
        + "</table:table-row><table:table-row table:number-rows-repeated='1000000'/>"
        + f"<table:table-row>{CELL.format('')}</table:table-row>",
    ],
)  # fmt: skip
def test_cells_that_are_claimed_are_counted(rows, tmp_path):
    (tmp_path / "a.ods").write_bytes(ods(rows))
    with pytest.raises(ValueError, match=r"more than (1,000,000|65,536) cells"):
        read_table(tmp_path / "a.ods")


def test_wide_and_tall_sheets_are_counted(monkeypatch, tmp_path):
    monkeypatch.setattr(spreadsheets, "MOST_CELLS", 300)
    book = openpyxl.Workbook()
    book.active.cell(1, 100, "wide")
    book.active.cell(101, 1, "tall")
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(ValueError, match="more than 300 cells"):
        read_table(tmp_path / "a.xlsx")


def test_bombs_are_not_unpacked(monkeypatch, tmp_path):
    path = tmp_path / "a.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", b" " * 150_000_000)
    with pytest.raises(ValueError, match="unpacks to more than 100 MB"):
        read_table(path)
    monkeypatch.setattr(spreadsheets, "find_spec", lambda _: None)
    with pytest.raises(OSError, match=r"Excel needs openpyxl: pip install 'decoupled-descent\["):
        read_table(path)
