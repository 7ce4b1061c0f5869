"""Read large parquet files in pieces; several processes read the rows of one file together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from decoupled_descent.app.tables import pieces
from decoupled_descent.app.tables.limits import check_size, most_bytes
from decoupled_descent.app.tables.parquet import Parquet
from decoupled_descent.app.tables.pieces import Drawn, Pieces, Scan, sampled_rows
from decoupled_descent.app.tables.reading import named
from decoupled_descent.app.tables.shares import Share
from decoupled_descent.app.tables.text import Notes
from decoupled_descent.app.tables.values import plain


class ParquetPieces(Pieces):
    """A parquet file. Each process reads the groups of rows in which it has rows."""

    def __init__(self, path: Path, file: Parquet, share: Share) -> None:
        self.path, self._file, self.size, self.share = path, file, file.size, share
        check_size(self.size, most_bytes(path.stat().st_size, whole=False))
        share.same(path.stat().st_size, file.about)
        self._own = share.span(file.rows)

    def _batches(self) -> Iterator[Any]:
        rows = max(1, round(self._file.rows * pieces.PIECE / self.size))
        return self._file.batches(rows, self._own)

    def scan(self, kept: Sequence[str] = ()) -> Scan:
        """Read the rows of this process once, and join what all processes found."""
        import pyarrow

        rows = self._file.rows
        drawn = Drawn(sampled_rows(self._file.width))
        for start in range(0, rows, pieces.MOST_SAMPLED):
            drawn.offer(range(start, min(start + pieces.MOST_SAMPLED, rows)))
        places = np.array([number - 1 for number, _ in drawn.items()], dtype=np.int64)
        read: list[tuple[list[Any], list[Any]]] = []
        self.share.together(lambda: read.append(self._read(kept, places)))
        taken, columns = map(self._of_all, read[0])
        notes: Notes = []
        sample = self._file.frame(pyarrow.concat_tables(taken))
        frame = named(sample, notes).set_axis(places + 1, axis=0)
        whole = {
            name: pd.concat([_plain(one.column(name)) for one in columns]).set_axis(
                pd.RangeIndex(1, rows + 1)
            )
            for name in columns[0].schema.names
        }
        return Scan(rows, self._own, frame, whole, lambda _: None, notes)

    def _read(self, kept: Sequence[str], places: NDArray[np.int64]) -> tuple[list[Any], list[Any]]:
        """Rows at these places, and some columns, of this process's rows, as tables of Arrow."""
        import pyarrow

        taken, columns, start = [], [], self._own.start
        for batch in self._batches():
            inside = places[(places >= start) & (places < start + len(batch))] - start
            taken.append(batch.take(pyarrow.array(inside)))
            columns.append(batch.select([k for k in kept if k in batch.schema.names]))
            start += len(batch)
        return taken, columns

    def _of_all(self, tables: list[Any]) -> list[Any]:
        """Tables of Arrow of all processes, by rank."""
        if self.share.size == 1:
            return tables
        import pyarrow
        from pyarrow import ipc

        def packed() -> bytes:
            joined = pyarrow.concat_tables(tables).unify_dictionaries()
            sink = pyarrow.BufferOutputStream()
            with ipc.new_stream(sink, joined.schema) as stream:
                stream.write_table(joined)
            return bytes(sink.getvalue())

        return [ipc.open_stream(one).read_all() for one in self.share.sent(packed)]

    def frames(self, scan: Scan) -> Iterator[pd.DataFrame]:
        """Yield batches of rows as data frames."""
        found = map(self._file.frame, self._batches())
        stripped = (one.rename(columns=lambda k: str(k).strip()) for one in found)
        return self.checked(stripped, scan, self._own)

    def read_only(self, own: slice, scan: Scan) -> Scan:
        """Read the groups that have these rows."""
        self._own = own
        return scan._replace(own=own)


def _plain(column: Any) -> pd.Series:
    """A column of Arrow in pandas. Categories become values: pieces may have different ones."""
    found = plain(column.to_pandas())
    dtype = found.dtype
    return found.astype(dtype.categories.dtype) if isinstance(dtype, pd.CategoricalDtype) else found
