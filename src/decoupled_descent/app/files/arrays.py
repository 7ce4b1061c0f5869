"""Read arrays of NumPy from ``.npz`` and ``.npy`` files, without pickled objects."""

from __future__ import annotations

import io
import math
import sys
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from decoupled_descent.app.files.limits import check_width, most_bytes
from decoupled_descent.app.files.packing import parts_of
from decoupled_descent.app.files.text import Notes
from decoupled_descent.tables.columns.values import listed

KINDS = "biufU"  # NumPy's codes of types that are read: booleans, numbers, text
UNREADABLE = (
    "the file is damaged, is not a NumPy file, or contains Python objects ({}); save arrays of "
    "numbers or text"
)


def read_matrix(content: bytes) -> tuple[pd.DataFrame, Notes]:
    """Read a table from the bytes of a file with one matrix, or with X and y."""
    arrays = arrays_of(content)
    y = arrays.pop("y") if set(arrays) == {"X", "y"} else None
    if len(arrays) != 1:
        raise ValueError(f"it contains {listed(arrays) or 'nothing'}; keep one matrix, or X and y")
    ((name, X),) = arrays.items()
    if X.ndim != 2 or not X.shape[1] or X.dtype.kind not in KINDS:
        raise ValueError(
            f"{name} has shape {X.shape} and dtype {X.dtype}; it must be a matrix of numbers or "
            "text with one row per sample"
        )
    frame = pd.DataFrame(_native(X)).rename(columns=lambda k: f"x{k}")
    if y is None:
        return frame, []
    if y.shape not in ((len(X),), (len(X), 1)) or y.dtype.kind not in KINDS:
        raise ValueError(
            f"y has shape {y.shape} and dtype {y.dtype}; it must hold one number or text for each "
            f"of the {len(X)} rows of X"
        )
    return frame.assign(y=_native(y.reshape(-1))), []


def arrays_of(content: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file by name."""
    try:
        members = {"the array": content}
        if content.startswith(b"PK"):
            parts = parts_of(content, lambda _: True, most_bytes(len(content)))
            members = {name.removesuffix(".npy"): part for name, part in parts.items()}
    except ValueError:
        raise
    except Exception as error:  # the type depends on where the damage is
        raise ValueError(UNREADABLE.format(error)) from error
    return {name: _array(member) for name, member in members.items()}


def _array(member: bytes) -> NDArray[Any]:
    """Read one array, after a check that it has the bytes and columns that its header states."""
    stream = io.BytesIO(member)
    try:
        version = np.lib.format.read_magic(stream)[0]
        if version > 2:  # only for records with names
            raise ValueError(f"version {version}")
        read = (np.lib.format.read_array_header_1_0, np.lib.format.read_array_header_2_0)
        shape, _, dtype = read[version - 1](stream)
        size = max(1, dtype.itemsize)  # strings of length 0 take no bytes
        if not dtype.hasobject and math.prod(shape) * size > len(member):
            raise ValueError(f"shape {shape!s:.60} needs more bytes than the file has")
    except Exception as error:  # the type depends on where the damage is
        raise ValueError(UNREADABLE.format(error)) from error
    check_width(shape[1] if len(shape) > 1 else 1)
    try:
        array: NDArray[Any] = np.load(io.BytesIO(member), allow_pickle=False)
    except Exception as error:
        raise ValueError(UNREADABLE.format(error)) from error
    return array


def _native(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array in the byte order of this machine, which pandas needs; text as objects."""
    if array.dtype.kind == "U" and array.size:
        codes = np.frombuffer(array.astype(array.dtype.newbyteorder("=")).tobytes(), np.uint32)
        if codes.max(initial=0) > sys.maxunicode:
            raise ValueError(UNREADABLE.format("invalid characters"))
    return array.astype(object if array.dtype.kind == "U" else array.dtype.newbyteorder("="))
