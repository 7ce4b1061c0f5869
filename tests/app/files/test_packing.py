"""Packed files: one table in them, bounded sizes, and one clear line for damage."""

import bz2
import gzip
import zipfile

import pytest

from decoupled_descent.app.files import limits, packing
from decoupled_descent.app.files.packing import blocks_of, content_of, is_large, kind_of_file
from decoupled_descent.app.files.reading import read_table

TEXT = b"a,b\n1,2\n3,4\n5,7\n"


def zipped(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/").replace("_csv", ".csv"), content)
    return path


@pytest.mark.parametrize(
    ("name", "pack"), [("a.csv.gz", gzip.compress), ("a.csv.bz2", bz2.compress)]
)
def test_packed_text_is_the_text(name, pack, tmp_path):
    path = tmp_path / name
    path.write_bytes(pack(TEXT))
    assert content_of(path) == TEXT
    assert kind_of_file(path).suffix == ".csv"
    assert read_table(path)["b"].tolist() == [2, 4, 7]
    assert not is_large(path, len(TEXT))
    assert is_large(path, len(TEXT) - 1)


def test_an_archive_with_one_table(tmp_path):
    path = zipped(tmp_path / "a.zip", folder__table_csv=TEXT)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("__MACOSX/._table.csv", "x")
        archive.writestr(".hidden", "x")
    assert kind_of_file(path) == (".csv", ".zip")
    assert read_table(path)["a"].tolist() == [1, 3, 5]


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"a_csv": TEXT, "b_csv": TEXT}, "must have one table, but has 'a.csv', 'b.csv'"),
        ({}, "has nothing"),
        ({"a.exe": TEXT}, r"extension '\.exe\.zip' is not known"),
    ],
)
def test_other_archives(members, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        read_table(zipped(tmp_path / "a.zip", **members))


def test_an_unusual_archive_is_refused(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("a.csv", TEXT)
    with pytest.raises(ValueError, match="unusual way; unpack it first"):
        read_table(path)


@pytest.mark.parametrize("name", ["a.csv.gz", "a.csv.bz2", "a.zip"])
def test_damage_is_named(name, tmp_path):
    (tmp_path / name).write_bytes(b"no archive at all")
    with pytest.raises(ValueError, match="damaged or not a"):
        read_table(tmp_path / name)


@pytest.mark.parametrize("name", ["a.csv.gz", "a.csv.bz2", "a.zip"])
def test_bombs_end_at_the_limit(name, monkeypatch, tmp_path):
    monkeypatch.setattr(limits, "SMALL", 100_000)
    monkeypatch.setattr(packing, "BLOCK", 1000)
    path, content = tmp_path / name, TEXT + b"1,2\n" * 300_000
    if name == "a.zip":
        zipped(path, a_csv=content)
    else:
        path.write_bytes((gzip if ".gz" in name else bz2).compress(content))
    sizes = []
    with pytest.raises(ValueError, match="it unpacks to more than"):
        sizes.extend(map(len, blocks_of(path)))
    assert sum(sizes) <= max(100_000, limits.DENSE * path.stat().st_size)
