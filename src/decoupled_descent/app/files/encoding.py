"""Turn a table into numbers batch by batch.

The rules for the columns were learnt from a sample of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from decoupled_descent.app.files.table_reader import FirstPass, TableReader
from decoupled_descent.files import unnamed_file
from decoupled_descent.tables.columns.counting import CountingEncoder
from decoupled_descent.tables.columns.rules import Columns
from decoupled_descent.tables.columns.values import Floats


class EncodedTable(NamedTuple):
    """A table as numbers."""

    X: Floats  # (n, d); that of a large table is a memory map of a temporary file
    codes: dict[str, NDArray[np.int64]]  # of the values of some columns, (n,)
    notes: list[str]  # about values that the sample did not have


def encode(
    reader: TableReader,
    first: FirstPass,
    columns: Columns,
    labelled: NDArray[np.bool_],
    coded: Sequence[str] = (),
) -> EncodedTable:
    """Turn rows into numbers: in memory, or of a large table on disk.

    Args:
        reader: The table.
        first: The result of the first pass.
        columns: The rules for the columns.
        labelled: Whether each row of the table has a label. Rows without one are left out.
        coded: Names of columns whose different values get the codes 0, 1, 2, …
    """
    encoder = CountingEncoder(columns)
    codebooks: dict[str, dict[str, int]] = {name: {} for name in coded}
    X, codes = _encoded(reader, first, encoder, labelled, codebooks)
    return EncodedTable(X, codes, encoder.notes("the sample"))


def _encoded(
    reader: TableReader, first: FirstPass, encoder: CountingEncoder, labelled: NDArray[np.bool_],
    codebooks: dict[str, dict[str, int]],
) -> tuple[Floats, dict[str, NDArray[np.int64]]]:  # fmt: skip
    """Turn rows into a matrix, and the values of the columns in ``codebooks`` into codes."""
    codes: dict[str, list[NDArray[np.int64]]] = {name: [] for name in codebooks}

    def blocks() -> Iterator[Floats]:
        for frame in reader.frames(first):
            rows = frame[labelled[frame.index.to_numpy() - 1]]
            if len(rows):
                yield encoder.columns.apply(rows) if reader.in_memory else encoder.apply(rows)
                for name, codebook in codebooks.items():
                    codes[name].append(codes_of(rows[name], codebook))

    if reader.in_memory:
        (X,) = blocks()
    else:
        shape = int(labelled.sum()), len(encoder.columns.names)
        with unnamed_file(8 * shape[0] * shape[1]) as file:
            file.writelines(np.ascontiguousarray(block).data for block in blocks())
            file.flush()
            X = np.memmap(file, dtype=np.float64, mode="r", shape=shape)
    return X, {name: np.concatenate(parts) for name, parts in codes.items()}


def codes_of(column: pd.Series, codebook: dict[str, int]) -> NDArray[np.int64]:
    """Return the codes of the values of a column; new values are added to the codebook."""
    local, texts = pd.factorize(column.astype(str))
    table = [codebook.setdefault(str(text), len(codebook)) for text in texts]
    codes: NDArray[np.int64] = np.array([*table, -1], dtype=np.int64)[local]
    return codes
