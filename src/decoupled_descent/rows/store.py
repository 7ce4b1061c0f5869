"""Rows that are made from other rows: kept as numbers, in memory or on disk, or made when read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from decoupled_descent.files import unnamed_file
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.freed_memory import return_freed_memory
from decoupled_descent.rows.inputs import piece_size
from decoupled_descent.rows.sources import (
    HELD,
    READ_BYTES,
    Source,
    SourceBlock,
    ahead,
    released,
    spans,
)

#: Up to this many bytes, numbers are kept in float64 whatever they were made from: ``Rows`` reads
#: as much into memory.
SMALL = HELD * READ_BYTES
#: Numbers made from rows on disk stay in memory up to this many bytes. Features of kernels never
#: take more: with more than 67,000 rows there are fewer than 2000 landmarks.
MEMORY = 2**30


class Store(Source):
    """A matrix that is written once and read in float64.

    It is stored in the precision of the rows that it was made from, since double precision would
    take twice the memory; sums over rows are in float64 in any case. What is made from rows on disk
    and takes more than ``MEMORY`` goes to a temporary file without a name, which the system deletes
    when the process ends.

    Args:
        n: Rows.
        d: Columns.
        rows: What it is made from.

    Example:
        >>> store = Store(3, 2, Rows(torch.zeros(3, 5), torch.zeros(3)))
        >>> store.write(slice(0, 3), torch.ones(3, 2).double())
        >>> [part.X.sum().item() for part in store.parts(2)]
        [4.0, 2.0]
    """

    def __init__(self, n: int, d: int, rows: Rows) -> None:
        like = rows.like
        dtype = torch.float64 if 8 * n * d <= SMALL else like.dtype
        self.n, self.d, self.dtype = n, d, torch.float64
        on_disk = not rows.held and n * d * dtype.itemsize > MEMORY
        self.map = _temporary(n, d, dtype) if on_disk else None
        return_freed_memory(n * d * dtype.itemsize)
        self.values: Tensor = (
            like.new_empty(n, d, dtype=dtype) if self.map is None else torch.from_numpy(self.map)
        )

    def write(self, span: slice, block: Tensor) -> None:
        """Write some consecutive rows, as many columns as there are."""
        self.values[span, : block.shape[1]] = block.to(self.values)
        released(self.map)

    def narrow(self, d: int) -> None:
        """Leave out the columns from d on."""
        self.d, self.values = d, self.values[:, :d]

    def parts(self, size: int | None) -> Iterator[SourceBlock]:
        """Read slice by slice, ``size`` rows at a time where there are few."""
        few = 8 * self.n * self.d <= SMALL  # read at once
        step = (size or self.n) if few else piece_size(self.d)

        def read() -> Iterator[SourceBlock]:
            for span in spans(self.n, step):
                block = self.values[span].to(torch.float64, copy=self.map is not None)
                released(self.map)
                yield SourceBlock(span, block, None)

        return read() if self.map is None else ahead(read())

    def take(self, index: Tensor) -> Tensor:
        """Read some rows."""
        return self.values[index].double()

    def matrix_of_all(self) -> Tensor:
        """All rows in float64."""
        return self.values.double()


class FunctionSource(Source):
    """Rows of d columns that are made from other rows whenever they are read.

    ``function`` takes some of the other rows in float64 and returns as many rows.
    """

    def __init__(
        self,
        rows: Rows,
        function: Callable[[Tensor], Tensor],
        d: int,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        self.values, self.function, self.d, self.dtype = rows, function, d, dtype

    def parts(self, size: int | None) -> Iterator[SourceBlock]:
        """Go through the other rows, in their own pieces."""
        for span, part in self.values.doubles(self.d):
            yield SourceBlock(span, self.function(part).to(self.dtype), None)

    def take(self, index: Tensor) -> Tensor:
        """Make some rows."""
        return self.function(self.values.take(index).double()).to(self.dtype)


def _temporary(n: int, d: int, dtype: torch.dtype) -> np.memmap:
    """A matrix in a file without a name; disk space is taken at once, or ``OSError`` says so."""
    with unnamed_file(n * d * dtype.itemsize) as file:
        kind = "float32" if dtype == torch.float32 else "float64"
        return np.memmap(file, dtype=kind, mode="r+", shape=(n, d))
