"""The features of rows: in memory, or read block by block from anywhere else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from decoupled_descent.checks import whole_number
from decoupled_descent.rows.freed_memory import return_freed_memory_after
from decoupled_descent.rows.products import fast_routine
from decoupled_descent.rows.sources import HELD, Source, as_source, read_size, spans
from decoupled_descent.rows.tensors import as_floats, check_finite

#: Rows are processed in blocks of about this many bytes, so that a block is still in the cache at
#: its second use. Data up to ``SINGLE_BLOCK_BYTES`` is one block, and so is any data that oneDNN
#: multiplies: its two products with all of X take less time than one pass in blocks.
BLOCK_BYTES = 4 * 2**20
SINGLE_BLOCK_BYTES = 16 * 2**20
#: Rows are turned into float64 about this many bytes at a time.
PIECE_BYTES = 4 * 2**20


class Inputs:
    """X of the rows of one process, checked once, of which any rows can be read.

    Args:
        X: Features, shape (n, d), or what they are read from; see :class:`Rows`.
        block_size: Rows per block; chosen from the size of X by default.

    Attributes:
        here: The number of rows in this process.
        d: The number of columns.
        like: An empty matrix with the dtype and the device of X.
        labels: Those that X yields with its rows; None if it yields none.
    """

    def __init__(self, X: Any, block_size: int | None = None) -> None:
        if block_size is not None:
            whole_number("block_size", block_size)
        self._source, self._X = as_source(X), None
        self.labels: Tensor | None = None
        if self._source is None:
            self._X = as_floats("X", X).contiguous()
        else:
            self._look_through(self._source, block_size)
        if self._X is not None:
            self.here, self.d = self._X.shape
            self.block_size = block_size or automatic_block_size(self._X)
            self.like = self._X.new_empty(0, self.d)

    def _look_through(self, source: Source, block_size: int | None) -> None:
        """Read and check all rows once; keep them in memory if they are few."""
        size = block_size or read_size(source.values, source.d * source.dtype.itemsize)
        kept: list[Tensor] = []
        labels: list[Tensor] = []
        count = largest = 0
        for blocks, part in enumerate(source.parts(size), 1):
            if part.X.shape[1] != source.d:
                raise ValueError(
                    f"X has blocks of {source.d} and of {part.X.shape[1]} columns; all rows "
                    "must have the same columns"
                )
            check_finite("X", part.X, part.span.start)
            count, largest = part.span.stop, max(largest, len(part.X))
            labels += [] if part.y is None else [part.y]
            kept = [*kept, part.X] if blocks <= HELD else []
        if kept:
            self._source, self._X = None, torch.cat(kept).contiguous()
        self.here, self.d, self.block_size = count, source.d, largest
        self.like = torch.empty(0, self.d, dtype=source.dtype, device="cpu")
        self.labels = torch.cat(labels) if labels else None

    @property
    def in_order_only(self) -> bool:
        """Whether to read single rows takes a pass over all of them."""
        return self._source is not None and self._source.in_order_only

    @property
    def held(self) -> bool:
        """Whether the rows of this process are in its memory."""
        return self._X is not None

    def take(self, index: Tensor) -> Tensor:
        """Return rows of this process by their numbers here, shape (B, d)."""
        if self._X is None:
            assert self._source is not None
            return self._source.take(index)
        return self._X.index_select(0, index)  # faster than self._X[index]

    def parts(self) -> Iterator[tuple[slice, Tensor]]:
        """Go through the rows once, block by block, each with the numbers of its rows."""
        if self._source is not None:
            for span, X, _ in self._source.parts(self.block_size):
                if span.stop > self.here:
                    break
                yield span, X
            if span.stop != self.here:
                raise ValueError(
                    f"X yielded {span.stop} rows or more, and {self.here} before; it must yield "
                    "the same rows each time"
                )
            return
        assert self._X is not None
        for span in spans(self.here, self.block_size):
            yield span, self._X if self.block_size >= self.here else self._X[span]

    def pieces(self, size: int) -> Iterator[tuple[slice, Tensor]]:
        """Go through the rows once, at most ``size`` at a time."""
        passed = 0
        for block, X in self.parts():
            for span, part in zip(spans(len(X), size), torch.split(X, size), strict=True):
                yield slice(block.start + span.start, block.start + span.stop), part
                passed = return_freed_memory_after(passed + 8 * part.numel())  # used in float64

    def doubles(self, width: int = 0) -> Iterator[tuple[slice, Tensor]]:
        """Go through the rows once in float64, in small pieces of ``width`` or d numbers a row."""
        for span, part in self.pieces(piece_size(max(width, self.d))):
            yield span, part.double()

    def move(self, source: Source) -> None:
        """Read the same rows from another source from now on, unless they are in memory."""
        if self._X is None:
            self._source = source


def piece_size(width: int) -> int:
    """How many rows of ``width`` numbers are handled in float64 at a time."""
    return max(64, PIECE_BYTES // (8 * width))


def automatic_block_size(X: Tensor) -> int:
    """Rows per block such that a block fits the cache, or all rows if blocks are not faster."""
    row_bytes = X.shape[1] * X.element_size()
    small = len(X) * row_bytes <= SINGLE_BLOCK_BYTES
    if small or X.device.type != "cpu" or fast_routine(X) is not None:
        return len(X)
    return max(16, BLOCK_BYTES // row_bytes)
