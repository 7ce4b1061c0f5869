"""Small files that expand to gigabytes are refused before memory is taken, in all formats.

All files are read in one process whose peak of memory is measured: memory that libraries in C and
Rust take is not seen by tracemalloc.
"""

import gzip
import io
import json
import subprocess
import sys
import zipfile

import pytest

MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
DOCUMENT = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
OASIS = "urn:oasis:names:tc:opendocument:xmlns:"
SPACES = " ".join(f'xmlns:{name}="{OASIS}{name}:1.0"' for name in ("office", "table", "text"))

READ = """
import json, resource, sys
from decoupled_descent.app.files.reading import read_table
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))
said = {}
for path in sys.argv[1:]:
    before = peak()
    try:
        said[path] = str(read_table(path).shape), peak() - before
    except (ValueError, OSError) as error:
        said[path] = str(error), peak() - before
print(json.dumps(said))
"""


def zipped(**parts):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return stream.getvalue()


def xlsx(rows, shared="", **more):
    sheet = '<sheet name="S" sheetId="1" r:id="r1"></sheet>'
    return zipped(
        **{
            "_rels/.rels": f'<Relationships xmlns="{PACKAGE}"><Relationship Id="r0" '
            f'Type="{DOCUMENT}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
            "xl/workbook.xml": f'<workbook {MAIN} xmlns:r="{DOCUMENT}"><sheets>{sheet}</sheets>'
            "</workbook>",
            "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}"><Relationship Id="r1" '
            f'Type="{DOCUMENT}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
            "xl/worksheets/sheet1.xml": f"<worksheet {MAIN}><sheetData>{rows}</sheetData>"
            "</worksheet>",
            "xl/sharedStrings.xml": f"<sst {MAIN}>{shared}</sst>",
        },
        **more,
    )


def ods(rows, sheets=1, above=""):
    tables = f"<table:table table:name='S'>{rows}</table:table>" * sheets
    text = (
        f"{above}<office:document-content {SPACES}><office:body><office:spreadsheet>{tables}"
        "</office:spreadsheet></office:body></office:document-content>"
    )
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    return zipped(**{"mimetype": kind, "content.xml": text, "META-INF/manifest.xml": "<m/>"})


def ods_row(times, *cells):
    return (
        f"<table:table-row table:number-rows-repeated='{times}'>{''.join(cells)}</table:table-row>"
    )


def ods_cell(times=1, text="x"):
    return (
        f"<table:table-cell office:value-type='string' table:number-columns-repeated='{times}'>"
        f"<text:p>{text}</text:p></table:table-cell>"
    )


def parquet(rows, value):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet as files

    stream = io.BytesIO()
    codes = arrow.array([0] * rows, "int8")
    column = arrow.DictionaryArray.from_arrays(codes, arrow.array([value]))
    files.write_table(arrow.table({"a": column, "y": column}), stream, compression="zstd")
    return stream.getvalue()


SHARED = "".join(
    f'<row r="{k}"><c r="A{k}" t="s"><v>0</v></c></row>' for k in range(1, 4001)
)  # fmt: skip
EMPTY = "<table:table-cell table:number-columns-repeated='16384'/>"

#: Name of a file, its content, and what the error says.
ATTACKS = {
    "text-stored-once.parquet": (lambda: parquet(20_000, "x" * 1_000_000), "unpacks to more than"),
    "rows-stored-once.parquet": (lambda: parquet(10_000_000, "x"), "more than .* cells"),
    "bytes-stored-once.parquet": (lambda: parquet(5000, b"x" * 1_000_000), "unpacks to more than"),
    "text-in-repeated-rows.ods": (
        lambda: ods(ods_row(7000, ods_cell(text="x" * 1_000_000))), "unpacks to more than",
    ),
    "text-in-repeated-cells.ods": (
        lambda: ods(ods_row(1, ods_cell(7000, "x" * 1_000_000))), "unpacks to more than",
    ),
    "spaces.ods": (
        lambda: ods(ods_row(90, ods_cell(text="<text:s text:c='99999999'/>"))), "unpacks to more",
    ),
    "cells.ods": (lambda: ods(ods_row(10**6, ods_cell(16_000))), "more than 1,000,000 cells"),
    "empty-between.ods": (
        lambda: ods(ods_row(1, EMPTY, ods_cell()) + ods_row(10**6, EMPTY) + ods_row(1, ods_cell())),
        "more than 1,000,000 cells",
    ),
    "many-sheets-of-cells.ods": (
        lambda: ods(ods_row(900, ods_cell(1000)), sheets=900), "more than 1,000,000 cells",
    ),
    "sheets.ods": (lambda: ods("", sheets=20_000), "10,001 parts"),
    "times.ods": (lambda: ods(ods_row("x", ods_cell())), "number-rows-repeated is 'x'"),
    "entities.ods": (
        lambda: ods(ods_row(1, ods_cell(text="&e;")), above="<!DOCTYPE x [<!ENTITY e 'ha'>]>"),
        "entities of XML",
    ),
    "shared-text.xlsx": (
        lambda: xlsx(SHARED, f"<si><t>{'x' * 1_000_000}</t></si>"), "unpacks to more than",
    ),
    "shared-text-with-a-prefix.xlsx": (
        lambda: xlsx(SHARED, f"<a:si xmlns:a='a'><t>{'x' * 1_000_000}</t></a:si>"),
        "unpacks to more than",
    ),
    "two-shared-parts.xlsx": (
        lambda: xlsx(SHARED, "<si><t>x</t></si>", **{"xl/more.xml": "<sst><si>x</si></sst>"}),
        "not in one part",
    ),
    "far-cell.xlsx": (
        lambda: xlsx('<row r="1"><c r="A1"><v>1</v></c><c r="XFD1048576"><v>1</v></c></row>'),
        "more than 1,000,000 cells",
    ),
    "far-row.xlsx": (
        lambda: xlsx('<row r="9999999"><c><v>1</v></c><c r="ZZ"><v>1</v></c></row>'),
        "more than 1,000,000 cells",
    ),
    "position.xlsx": (
        lambda: xlsx('<row r="1"><c r="ABCDE1"><v>1</v></c></row>'), "position 'ABCDE1'",
    ),
    "blanks.xlsx": (lambda: xlsx("", " " * 150_000_000), "unpacks to more than"),
    "parts.xlsx": (
        lambda: xlsx("", **{f"xl/p{k}.xml": "" for k in range(10_001)}), "parts; the limit is",
    ),
    "same-name.xlsx": (lambda: xlsx("", **{"XL/WORKBOOK.xml": "<a/>"}), "the same name"),
    "damaged.xlsx": (lambda: xlsx("<row>"), "XML is damaged"),
    "commas.jsonl": (lambda: b'{"a": [' + b"1," * 11_000_000 + b"1]}", "10,000,000 cells"),
    "names.jsonl": (
        lambda: "\n".join(json.dumps({f"a{k}": 1}) for k in range(5000)).encode(),
        "more than .* cells",
    ),
    "lines.csv.gz": (lambda: gzip.compress(b"a,y\n" + b"1,2\n" * 20_000_000), "unpacks to more"),
}  # fmt: skip


def test_small_files_that_expand_are_refused_in_one_line_and_little_memory(tmp_path):
    pytest.importorskip("resource")
    words = {}
    for name, (content, message) in ATTACKS.items():
        path = tmp_path / name
        path.write_bytes(content())
        assert path.stat().st_size < 60_000_000
        words[str(path)] = message
    result = subprocess.run(
        [sys.executable, "-c", READ, *words], capture_output=True, text=True, check=True
    )
    said = json.loads(result.stdout)
    for path, message in words.items():
        text, megabytes = said[path]
        with pytest.raises(ValueError, match=rf"{path}: .*{message}"):
            raise ValueError(text)
        assert "\n" not in text
        assert megabytes < 200, (path, megabytes)
