"""Rows that are not in memory: anything that can be sliced or iterated over.

A source yields X in consecutive blocks, any number of times. While one block is in use, a thread
reads the next. Including the block that was used last, at most ``HELD`` blocks are in memory.
"""

from __future__ import annotations

import copy
import mmap
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from decoupled_descent.rows.tensors import as_tensor

#: The most blocks in memory at a time: one in use, the one before it, and one that is being read.
HELD = 3
#: A block that is read has about this many bytes: small enough that the allocator reuses the
#: memory, large enough that reading takes longer than the call.
READ_BYTES = 16 * 2**20


class SourceBlock(NamedTuple):
    """Consecutive rows of a source."""

    span: slice  # where they sit among all rows
    X: Tensor  # shape (b, d)
    y: Tensor | None  # their labels, where the source has labels


class Source(ABC):
    """Rows that are read when they are needed."""

    values: Any  # what the rows are read from
    d: int  # columns
    dtype: torch.dtype  # which the rows are turned into
    in_order_only = False  # whether blocks come in one order only, so that ``take`` reads them all

    @abstractmethod
    def parts(self, size: int | None) -> Iterator[SourceBlock]:
        """Go through all rows once, ``size`` at a time if the source can be sliced."""

    @abstractmethod
    def take(self, index: Tensor) -> Tensor:
        """Return some rows, shape (B, d), in the given order."""

    def _learn(self, first: Any) -> None:
        """Note the columns and the dtype of some rows."""
        features = _divided(first)[0]
        row = as_tensor("X", features.toarray() if hasattr(features, "toarray") else features)
        self.d = row.shape[-1]
        self.dtype = row.dtype if row.is_floating_point() else torch.get_default_dtype()

    def to(self, dtype: torch.dtype) -> Self:
        """The same rows in another dtype."""
        other = copy.copy(self)
        other.dtype = dtype
        return other

    def matrix(self, values: Any) -> Tensor:
        """Turn what was read into rows."""
        matrix = as_tensor("X", values.toarray() if hasattr(values, "toarray") else values)
        if matrix.ndim != 2:
            raise ValueError(
                f"X yields blocks of shape {tuple(matrix.shape)}; each must be a matrix of rows: "
                "torch.utils.data.DataLoader(X, batch_size=1000) makes blocks of single rows"
            )
        return matrix.to(self.dtype)


class Sliced(Source):
    """Anything with a length whose slices are rows: arrays on disk, CSR matrices, datasets."""

    def __init__(self, values: Any, n: int) -> None:
        self.values, self.n = values, n
        self._learn(values[0] if isinstance(values, Dataset) else values[0:1])

    def parts(self, size: int | None) -> Iterator[SourceBlock]:
        """Read slice by slice."""

        def read(span: slice) -> SourceBlock:
            return SourceBlock(span, *self._read(span, range(span.start, span.stop)))

        try:
            yield from ahead(read(span) for span in spans(self.n, size or self.n))
        finally:
            released(self.values)

    def take(self, index: Tensor) -> Tensor:
        """Read some rows, each once and in ascending order, as HDF5 requires."""
        unique, inverse = torch.unique(index.cpu(), return_inverse=True)
        return self._read(unique.numpy(), unique.tolist())[0][inverse]

    def _read(self, which: Any, numbers: Iterable[int]) -> tuple[Tensor, Tensor | None]:
        """Rows and labels; items of a dataset are put together."""
        if isinstance(self.values, Dataset):
            return self._collated([_divided(self.values[k]) for k in numbers])
        held = _mapped(self.values)
        if held is None:
            return self.matrix(self.values[which]), None
        if isinstance(which, slice) and self.values.flags.c_contiguous:
            return self._in_place(held, which), None
        values = self.matrix(np.array(self.values[which]))
        released(self.values)  # the rows were copied, so the pages can be given back
        return values, None

    def _in_place(self, held: mmap.mmap, which: slice) -> Tensor:
        """Consecutive rows of a map without a copy, whose pages are read here, before their use.

        Meanwhile the disk reads the block after it. The pages of the block that is no longer used
        are given back; if it is used after all, they are read again.
        """
        start, size = which.start, which.stop - which.start
        _advise(held, self.values, mmap.MADV_WILLNEED, which.stop, which.stop + size)
        _advise(held, self.values, mmap.MADV_DONTNEED, start - HELD * size, start - 2 * size)
        block = self.values[which]
        block.reshape(-1).view(np.uint8)[:: mmap.PAGESIZE].max()  # a byte of each page
        return self.matrix(block)

    def _collated(self, pairs: list[tuple[Any, Any]]) -> tuple[Tensor, Tensor | None]:
        X = self.matrix(torch.stack([as_tensor("X", x) for x, _ in pairs]))
        if pairs[0][1] is None:
            return X, None
        return X, torch.stack([torch.as_tensor(y, device="cpu") for _, y in pairs])


class Repeated(Source):
    """An object that yields blocks of rows, or of rows and labels, each time it is iterated."""

    in_order_only = True

    def __init__(self, values: Iterable[Any]) -> None:
        self.values = values
        start = iter(values)
        if start is values:
            raise ValueError(
                f"X is a {type(values).__name__}, which can be iterated only once; pass an "
                "object whose __iter__ starts from the first row each time"
            )
        first = next(start, None)
        if first is None:
            raise ValueError(f"X is a {type(values).__name__} that yields no rows")
        self._learn(first)

    def parts(self, size: int | None) -> Iterator[SourceBlock]:
        """Take the blocks as they come."""

        def read() -> Iterator[SourceBlock]:
            start = 0
            for item in self.values:
                X, y = _divided(item)
                rows, labels = self.matrix(X), None if y is None else as_tensor("y", y)
                yield SourceBlock(slice(start, start + len(rows)), rows, labels)
                start += len(rows)

        return ahead(read())

    def take(self, index: Tensor) -> Tensor:
        """Go through all blocks, and keep some rows."""
        taken = torch.empty(len(index), self.d, dtype=self.dtype, device="cpu")
        for span, X, _ in self.parts(None):
            inside = (index >= span.start) & (index < span.stop)
            taken[inside] = X[index[inside] - span.start]
        return taken


def as_source(values: Any) -> Source | None:
    """The source for anything that is not in memory; None for tensors, arrays and lists.

    Example:
        >>> as_source(torch.eye(2)) is None
        True
        >>> import scipy.sparse
        >>> [part.X.shape[0] for part in as_source(scipy.sparse.eye(5, format="csr")).parts(2)]
        [2, 2, 1]
    """
    if isinstance(values, Source):
        return values
    if isinstance(values, np.memmap) and values.ndim == 2 and len(values):
        return Sliced(values, len(values))
    if isinstance(values, Tensor | np.ndarray | Sequence | Mapping | Set | str | None):
        return None
    if hasattr(values, "tocsr"):
        values = values.tocsr()
    if isinstance(values, Dataset) and not isinstance(values, IterableDataset):
        return Sliced(values, len(values))  # type: ignore[arg-type]
    if all(hasattr(values, name) for name in ("shape", "dtype", "__getitem__")):
        sliced = len(values.shape) == 2 and all(values.shape)
        return Sliced(values, int(values.shape[0])) if sliced else None
    if hasattr(values, "__iter__") and not hasattr(values, "__array__"):
        return Repeated(values)
    return None


def spans(n: int, size: int) -> Iterator[slice]:
    """Consecutive parts of n rows, ``size`` at a time."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def ahead(parts: Iterator[SourceBlock]) -> Iterator[SourceBlock]:
    """Yield what an iterator yields, while a thread fetches the next part."""
    with ThreadPoolExecutor(1, thread_name_prefix="rows") as thread:
        coming = thread.submit(next, parts, None)
        while (part := coming.result()) is not None:
            coming = thread.submit(next, parts, None)
            yield part


def read_size(values: Any, row_bytes: int) -> int:
    """Rows per block: about ``READ_BYTES``, and whole chunks where rows are stored in chunks."""
    size = max(16, READ_BYTES // row_bytes)
    chunks = getattr(values, "chunks", None)
    chunk = chunks[0] if isinstance(chunks, tuple) and chunks else None
    if isinstance(chunk, int) and 1 < chunk <= size:
        size -= size % chunk
    return size


def _divided(item: Any) -> tuple[Any, Any]:
    """Rows, and labels where they come in pairs."""
    if not isinstance(item, tuple | list):
        return item, None
    return item[0], item[1] if len(item) > 1 else None


def released(values: Any) -> None:
    """Give the pages of a memory map back to the system; nothing for anything else."""
    held = _mapped(values)
    if held is not None:
        held.madvise(mmap.MADV_DONTNEED)


def _mapped(values: Any) -> mmap.mmap | None:
    """The map behind a memory map whose pages can be dropped after use; None for anything else.

    They stay in the cache of the system, which takes their memory back when it needs it. Private
    maps may have changes that are nowhere else.
    """
    if not isinstance(values, np.memmap) or values.mode == "c":
        return None
    base: Any = values
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, mmap.mmap) and hasattr(base, "madvise") else None


def _advise(
    held: mmap.mmap, values: np.memmap[Any, Any], advice: int, start: int, stop: int
) -> None:
    """Tell the system what becomes of consecutive rows of a map; others are left out."""
    stride, n = values.strides[0], len(values)
    first = values.ctypes.data - np.frombuffer(held, np.uint8).ctypes.data
    begin, end = (first + stride * min(max(row, 0), n) for row in (start, stop))
    begin -= begin % mmap.PAGESIZE
    if begin < min(end, len(held)):
        held.madvise(advice, begin, min(end, len(held)) - begin)
