"""Spreadsheets, JSON lines and packed files that nobody wrote, for tests/test_fuzz.py.

A drawn file is read as ``decoupled train`` reads it: it becomes a matrix, or one error with one
line.
"""

import bz2
import gzip
import io
import json
import warnings
import zipfile
from xml.sax.saxutils import quoteattr

import numpy as np
from hypothesis import strategies as st

from decoupled_descent.app.cli.tables import prepare

MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
DOCUMENT = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"
STYLES = (
    f'<styleSheet {MAIN}><numFmts count="1"><numFmt numFmtId="170" formatCode="[h]:mm"/></numFmts>'
    '<fonts count="1"><font/></fonts><fills count="1"><fill/></fills>'
    '<borders count="1"><border/></borders><cellStyleXfs count="1"><xf/></cellStyleXfs>'
    '<cellXfs count="3"><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="170"/></cellXfs>'
    "</styleSheet>"
)
OASIS = "urn:oasis:names:tc:opendocument:xmlns:"
ODS = (
    f'xmlns:office="{OASIS}office:1.0" xmlns:table="{OASIS}table:1.0" xmlns:text="{OASIS}text:1.0"'
)

ODD = st.one_of(
    st.text(max_size=5), st.integers(-5, 10**7).map(str), st.floats().map(str),
    st.sampled_from(["", "1", "1e999", "-1", "2958466", "45000", "#DIV/0!", "9" * 400, "true"]),
)  # fmt: skip
CELL_PLACES = st.sampled_from(
    ["A1", "B1", "C1", "A2", "A0", "XFD1", "XFD1048576", "ZZZZZZ9", "1", "A99999999999", "", "Ä1"]
)
ENTITIES = "".join(f'<!ENTITY e{k + 1} "{f"&e{k};" * 10}">' for k in range(8))
PROLOGUES = st.sampled_from(
    [
        '<?xml version="1.0"?>', "", '<?xml version="1.0" encoding="utf-16"?>',
        f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e0 "ha">{ENTITIES}]>',
        '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e8 SYSTEM "file:///etc/passwd">]>',
    ]
)  # fmt: skip


def read_as_the_command_does(path, target="y"):
    """Prepare a table for training; only errors of one line may be raised."""
    refusal = ""
    try:
        prepared = prepare(path, target, None)
    except (ValueError, OSError) as error:
        refusal = str(error)
    if refusal:
        assert len(refusal) < 3000
        return
    assert np.isfinite(prepared.X).all()


def damaged(data, content):
    """Change a few bytes of a file, or cut it."""
    content = bytearray(content)
    for _ in range(data.draw(st.integers(0, 3)) if content else 0):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.integers(0, 9)) == 9:
        del content[data.draw(st.integers(0, len(content))) :]
    return bytes(content)


def archive_of(data, members):
    """Pack files, some of them left out, twice, or in another way."""
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w") as archive:
        warnings.simplefilter("ignore", UserWarning)  # on a name that occurs twice
        for name, content in members.items():
            for _ in range(data.draw(st.sampled_from([1, 1, 1, 1, 1, 1, 0, 2]))):
                way = data.draw(st.sampled_from([zipfile.ZIP_DEFLATED] * 6 + [zipfile.ZIP_LZMA]))
                archive.writestr(name, content, way)
    return damaged(data, stream.getvalue())


def xlsx_cell(data):
    place = data.draw(CELL_PLACES)
    kind = data.draw(st.sampled_from(["n", "s", "str", "b", "e", "inlineStr", "d", "other", ""]))
    style = data.draw(st.sampled_from(["0", "1", "2", "99", "-1", "x"]))
    value = quoteattr(data.draw(ODD))[1:-1]
    text = data.draw(st.sampled_from(["v", "is", "f", "is><t", "other"]))
    given = f' r="{place}"' * (place != "") + f' t="{kind}"' * (kind != "")
    close = "</t></is>" if text.startswith("is><") else f"</{text}>"
    return f'<c{given} s="{style}"><{text}>{value}{close}</c>'


def fuzz_xlsx(folder, data):
    rows = ""
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.sampled_from(["1", "2", "1048576", "99999999999", "-1", "x", ""]))
        cells = "".join(xlsx_cell(data) for _ in range(data.draw(st.integers(0, 4))))
        given = f' r="{place}"' * (place != "")
        rows += f"<row{given}>{cells}</row>"
    usual = "".join(
        f'<row r="{k}"><c r="A{k}"><v>{k * k % 7}</v></c>'
        f'<c r="B{k}" t="str"><v>{word}</v></c></row>'
        for k, word in enumerate(["y", *"ababbaabbaba"], start=1)
    )
    size = data.draw(st.sampled_from(["A1:B13", "A1", "A1:XFD1048576", "x", ""]))
    sheet = (
        f'{data.draw(PROLOGUES)}<worksheet {MAIN}><dimension ref="{size}"/><sheetData>'
        f"{usual * data.draw(st.integers(0, 1))}{rows}</sheetData>"
        f'<mergeCells><mergeCell ref="{data.draw(CELL_PLACES)}:B1"/></mergeCells></worksheet>'
    )
    name = quoteattr(data.draw(st.sampled_from(["Sheet1", "", "a\n", "\u202e", "x" * 50])))
    book = f'<sheets><sheet name={name} sheetId="1" r:id="r1"/></sheets>'
    links = "".join(
        f'<Relationship Id="r{k}" Type="{DOCUMENT}/{what}" Target="{target}"/>'
        for k, (what, target) in enumerate(
            [("styles", "styles.xml"), ("worksheet", "worksheets/sheet1.xml")]
        )
    )
    types = "".join(
        f'<Override PartName="/xl/{part}" ContentType="{KIND}.{kind}+xml"/>'
        for part, kind in [
            ("workbook.xml", "sheet.main"), ("worksheets/sheet1.xml", "worksheet"),
            ("styles.xml", "styles"), ("sharedStrings.xml", "sharedStrings"),
        ]
    )  # fmt: skip
    top = f'<Relationship Id="r0" Type="{DOCUMENT}/officeDocument" Target="xl/workbook.xml"/>'
    content_types = "http://schemas.openxmlformats.org/package/2006/content-types"
    members = {
        "[Content_Types].xml": f'<Types xmlns="{content_types}"><Default Extension="xml" '
        f'ContentType="application/xml"/>{types}</Types>',
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}">{top}</Relationships>',
        "xl/workbook.xml": f'<workbook {MAIN} xmlns:r="{DOCUMENT}">{book}</workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}">{links}</Relationships>',
        "xl/styles.xml": STYLES,
        "xl/sharedStrings.xml": f'<sst {MAIN} count="9"><si><t>one</t></si><si/></sst>',
        "xl/worksheets/sheet1.xml": sheet.encode("utf-8", "replace"),
    }
    path = folder / "a.xlsx"
    path.write_bytes(archive_of(data, members))
    read_as_the_command_does(path)


def ods_cell(data):
    kind = data.draw(
        st.sampled_from(["float", "date", "boolean", "string", "time", "currency", "", "other"])
    )
    name = {"date": "date-value", "boolean": "boolean-value"}.get(kind, "value")
    value = quoteattr(data.draw(ODD))
    times = data.draw(st.sampled_from(["", "1", "3", "16384", "99999999999", "-1", "x"]))
    repeated = f' table:number-columns-repeated="{times}"' * (times != "")
    text = f"<text:p>{value[1:-1]}</text:p>" * data.draw(st.integers(0, 2))
    given = f' office:value-type="{kind}"' * (kind != "")
    given += f" office:{name}={value}" * data.draw(st.booleans())
    return f"<table:table-cell{given}{repeated}>{text}</table:table-cell>"


def fuzz_ods(folder, data):
    rows = ""
    for _ in range(data.draw(st.integers(0, 5))):
        times = data.draw(st.sampled_from(["", "2", "1048576", "99999999999999", "-1", "x"]))
        repeated = f' table:number-rows-repeated="{times}"' * (times != "")
        cells = "".join(ods_cell(data) for _ in range(data.draw(st.integers(0, 4))))
        rows += f"<table:table-row{repeated}>{cells}</table:table-row>"
    usual = "".join(
        f'<table:table-row><table:table-cell office:value-type="float" office:value="{k * k % 7}"/>'
        f"<table:table-cell><text:p>{word}</text:p></table:table-cell></table:table-row>"
        for k, word in enumerate(["y", *"ababbaabbaba"])
    )
    name = quoteattr(data.draw(st.sampled_from(["Sheet1", "", "a\n", "x" * 50])))
    tables = "".join(
        f"<table:table table:name={name}>{usual * data.draw(st.integers(0, 1))}{rows}</table:table>"
        for _ in range(data.draw(st.integers(0, 2)))
    )
    text = (
        f"{data.draw(PROLOGUES)}<office:document-content {ODS}>{tables}</office:document-content>"
    )
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    path = folder / "a.ods"
    members = {"mimetype": kind, "content.xml": text.encode("utf-8", "replace")}
    path.write_bytes(archive_of(data, members))
    read_as_the_command_does(path)


JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=5),
        st.sampled_from(["a", "b", "2024-05-31", "-999", "120/80", "\ud800", "\u2028"]),
    ),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=3,
)  # fmt: skip


def json_lines(data):
    """Objects in lines, with a line that is none now and then."""
    names = st.sampled_from(["y", "a", "b", "", " a", "\n", "\ud800", "y\u0000", "__class__"])
    rows = data.draw(st.lists(st.dictionaries(names, JSON, max_size=4), max_size=6))
    usual = [{"y": word, "a": k * k % 7} for k, word in enumerate("ababbaabbaba")]
    lines = [json.dumps(one) for one in usual * data.draw(st.integers(0, 1)) + rows]
    odd = ["[1]", "{", '{"a": 1} {"a": 2}', "[" * 5000, '{"a": ' + "9" * 5000 + "}", "null", "NaN"]
    if data.draw(st.integers(0, 3)) == 3:
        lines.insert(data.draw(st.integers(0, len(lines))), data.draw(st.sampled_from(odd)))
    encoding = data.draw(st.sampled_from(["utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16"]))
    text = data.draw(st.sampled_from(["\n", "\n", "\r\n", "\r"])).join(lines)
    return damaged(data, text.encode(encoding, "replace"))


def fuzz_jsonl(folder, data):
    path = folder / data.draw(st.sampled_from(["a.jsonl", "a.ndjson"]))
    path.write_bytes(json_lines(data))
    read_as_the_command_does(path)


def csv_bytes(data):
    """A table that can be trained on, with a few bytes changed."""
    lines = ["a,y", *(f"{k * k % 7},{word}" for k, word in enumerate("ababbaabbaba"))]
    return damaged(data, "\n".join(lines).encode())


def zipped(data, depth=0):
    """An archive of tables, and perhaps of archives."""
    names = ["a.csv", "b.tsv", "a.jsonl", "sub/a.csv", "../a.csv", "a\n.csv", "__MACOSX/._a.csv"]
    names += [".hidden", "folder/", "a.csv.gz", "a.txt", "a", "a.parquet"]
    members = {}
    for name in data.draw(st.lists(st.sampled_from(names), max_size=3, unique=True)):
        members[name] = b"" if name.endswith("/") else data.draw(
            st.sampled_from([csv_bytes, json_lines])
        )(data)  # fmt: skip
    if depth == 0 and data.draw(st.integers(0, 4)) == 4:
        members["inner.zip"] = zipped(data, depth=1)
    return archive_of(data, members)


def fuzz_packed(folder, data):
    packing = data.draw(st.sampled_from(["zip", "bz2", "gz", "zip"]))
    if packing == "zip":
        path, content = folder / "a.zip", zipped(data)
    else:
        suffix = data.draw(st.sampled_from([".csv", ".jsonl", ".xlsx", "", ".bz2"]))
        pack = bz2.compress if packing == "bz2" else gzip.compress
        parts = data.draw(st.integers(0, 2))  # several streams in one file are allowed
        content = damaged(data, b"".join(pack(csv_bytes(data)) for _ in range(parts)))
        path = folder / f"a{suffix}.{packing}"
    path.write_bytes(content)
    read_as_the_command_does(path)
