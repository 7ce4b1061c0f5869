"""Arrays of NumPy: headers that lie, archives that unpack to too much."""

import io
import tracemalloc
import zipfile

import numpy as np
import pytest

from decoupled_descent.app.files import limits
from decoupled_descent.app.files.arrays import arrays_of, read_matrix

MATRIX = np.random.default_rng(0).normal(size=(4, 2))


def npy(description, shape, body=b"", version=1):
    text = repr({"descr": description, "fortran_order": False, "shape": shape}).encode() + b"\n"
    length = len(text).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + body


def zipped(method=zipfile.ZIP_STORED, **members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return stream.getvalue()


@pytest.mark.parametrize("version", [1, 2])
def test_versions_of_the_header(version):
    result = arrays_of(npy("<f8", (4, 2), MATRIX.tobytes(), version))
    np.testing.assert_array_equal(result["the array"], MATRIX)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy("<f8", (4, 2), MATRIX.tobytes(), version=3), r"\(version 3\)"),
        (npy("<f8", (10**9, 2)), r"shape \(1000000000, 2\) needs more bytes"),
        (npy("<f8", (10**400, 2)), r"shape \(10{58} needs more bytes"),
        (npy("<f8", (0, 10**9)), "1,000,000,000 columns; the limit"),
        (npy("<f8", (-1, 3), bytes(48)), "negative dimensions"),
        (npy("<U9999999", (20, 3), bytes(500)), "needs more bytes"),
        (npy("<f8", (2**62, 0)), "array is too big"),
        (
            zipped(zipfile.ZIP_BZIP2, X=npy("<f8", (4, 2), MATRIX.tobytes())),
            "packed in an unusual way",
        ),
        (
            zipped(zipfile.ZIP_LZMA, X=npy("<f8", (4, 2), MATRIX.tobytes())),
            "packed in an unusual way",
        ),
    ],
)
def test_headers_are_checked_before_memory_is_taken(content, message):
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=message):
            read_matrix(content)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_an_archive_is_measured_before_it_is_unpacked(monkeypatch):
    monkeypatch.setattr(limits, "SMALL", 1_000_000)
    bomb = zipped(zipfile.ZIP_DEFLATED, X=bytes(30_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="unpacks to more than 3 MB"):
            arrays_of(bomb)
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()


def test_an_archive_that_states_a_wrong_size_is_not_unpacked_beyond_it():
    bomb = zipped(zipfile.ZIP_DEFLATED, X=bytes(30_000_000))
    size = (30_000_000).to_bytes(4, "little")
    assert bomb.count(size) == 2  # before the member, and in the list at the end
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="damaged"):
            arrays_of(bomb.replace(size, (200).to_bytes(4, "little")))
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()
