"""Read parquet files: as a whole, or in batches of rows.

The size that a file states says little, because equal values are stored once. So values are
counted. Text is first read as a list of different values; the size of the plain text is computed
from it before memory is taken.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from decoupled_descent.app.files import limits
from decoupled_descent.app.files.limits import (
    check_cells,
    check_size,
    check_width,
    most_bytes,
    most_cells,
    need,
)
from decoupled_descent.app.files.text import Notes
from decoupled_descent.tables.columns.values import with_numpy_type

NO_PARQUET = "the file is damaged or not a parquet file ({}); save it again"
#: Arrow's names of types that hold text or bytes.
TEXTS = frozenset(
    {"string", "large_string", "string_view", "binary", "large_binary", "binary_view"}
)
#: Stands for a nested value, such as a list, which is not read.
NESTED = np.empty(0)


class ParquetFile:
    """A parquet file. Nested values are not read; each is an empty array instead.

    Attributes:
        path: The file, or a stream of bytes.
        size: The bytes that it unpacks to: what it states, but at least eight for each value, or
            its width if all values of a column have the same.
        n_rows: The number of rows.
        names: The names of the columns that are read, without spaces around them.
        notes: An empty list: there is nothing to tell the user about the format.

    Args:
        source: The path, or a stream of bytes.
        packed: The number of bytes of the file.

    Raises ``OSError`` without pyarrow, ``ValueError`` if the file is damaged or too wide.
    """

    def __init__(self, source: Any, packed: int) -> None:
        need("pyarrow", "parquet")
        import pyarrow.parquet

        try:
            with pyarrow.parquet.ParquetFile(source) as file:
                schema, about = file.schema_arrow, file.metadata
            groups = (about.row_group(k) for k in range(about.num_row_groups))
            wide = sum(_fixed_width(field.type) for field in schema)
            self.size = max(sum(_size(group) for group in groups), wide * about.num_rows)
            self._types = {field.name: field.type for field in schema}
            texts = [name for name, kind in self._types.items() if str(kind) in TEXTS]
            self._file = pyarrow.parquet.ParquetFile(source, read_dictionary=texts)
        except Exception as error:  # the type depends on where the damage is
            raise ValueError(NO_PARQUET.format(error)) from error
        self.path, self.n_rows, self._most = source, about.num_rows, most_bytes(packed)
        nested = [pyarrow.types.is_nested(field.type) for field in schema]
        self._nested = [
            field.name for field, is_nested in zip(schema, nested, strict=True) if is_nested
        ]
        flat = [name for name in schema.names if name not in self._nested]
        self._read = {"columns": flat if self._nested else None, "use_threads": False}
        fields = [field for field in self._file.schema_arrow if field.name in flat]
        self.empty = self._decoded(pyarrow.schema(fields, schema.metadata).empty_table())
        self.names, self.notes = [name.strip() for name in flat], Notes()
        check_width(len(schema))
        check_cells(self.n_rows * len(schema), most_cells(packed, objects=False))

    def read(self) -> pd.DataFrame:
        """Read all rows."""
        check_size(self.size, self._most)
        try:
            return self.frame(self._decoded(self._file.read(**self._read)))
        except Exception as error:
            raise _damaged(error) from error

    def batches(self) -> Iterator[Any]:
        """Yield the rows as tables of Arrow. One row group is in memory at a time."""
        import pyarrow

        rows = max(1, round(self.n_rows * limits.BATCH_BYTES / max(1, self.size)))
        try:
            for group in range(self._file.metadata.num_row_groups):
                options = {"row_groups": [group], "batch_size": rows, **self._read}
                for batch in self._file.iter_batches(**options):
                    if len(batch):
                        yield self._decoded(pyarrow.Table.from_batches([batch]))
        except Exception as error:
            raise _damaged(error) from error

    def _decoded(self, table: Any) -> Any:
        """Turn lists of different texts into plain text, if all texts are not too large.

        Categories of the file stay categories, but other code may need their texts in every row.
        """
        from pyarrow import compute, types

        size = 0
        for k, field in enumerate(table.schema):
            if not types.is_dictionary(field.type):
                continue
            for chunk in table.column(k).chunks if str(field.type.value_type) in TEXTS else ():
                lengths = compute.binary_length(chunk.dictionary).take(chunk.indices)
                size += compute.sum(lengths).as_py() or 0
                check_size(size, self._most)
            if not types.is_dictionary(self._types[field.name]):
                with_numpy_type = table.column(k).cast(field.type.value_type)
                table = table.set_column(k, field.name, with_numpy_type)
        table.validate(full=True)  # text may not be UTF-8
        return table

    def frame(self, table: Any, sample: pd.DataFrame | None = None) -> pd.DataFrame:
        """Turn a table of Arrow into one of pandas, with nested columns in their positions.

        The types are those of the file, whatever the ``sample``.
        """
        frame: pd.DataFrame = plain_frame(table.unify_dictionaries().to_pandas())
        if not self._nested:
            return frame
        for name in self._nested:
            frame[name] = pd.Series([NESTED] * len(frame), dtype=object, index=frame.index)
        order = [name for name in self._types if name in frame.columns]
        return frame[[*order, *(name for name in frame.columns if name not in order)]]

    def series(self, column: Any) -> pd.Series:
        """Turn a column of Arrow into a series of pandas. Categories become their values."""
        series = with_numpy_type(column.to_pandas())
        if isinstance(series.dtype, pd.CategoricalDtype):
            return series.astype(series.dtype.categories.dtype)
        return series

    def as_written(self, column: Any) -> None:
        """Return None: values of a parquet file have a type, and no spelling."""


def read_parquet(content: bytes) -> tuple[pd.DataFrame, Notes]:
    """Read a table from the bytes of a parquet file."""
    return ParquetFile(io.BytesIO(content), len(content)).read(), []


def plain_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Turn named levels of the index into columns, and Arrow types into pandas types."""
    index = frame.index.names
    new = [k for k, name in enumerate(index) if name is not None and name not in frame.columns]
    frame = frame.reset_index(level=new) if new else frame
    for k, dtype in enumerate(frame.dtypes):
        if isinstance(dtype, pd.ArrowDtype):
            frame.isetitem(k, with_numpy_type(frame.iloc[:, k]))
    return frame


def _size(group: Any) -> int:
    """The unpacked bytes of a group of rows.

    The numbers of single columns are not read: pyarrow ends the process if one is damaged.
    """
    return int(max(group.total_byte_size, 8 * group.num_rows * group.num_columns))


def _fixed_width(kind: Any) -> int:
    """Bytes of a value of a type whose values all have the same number; 0 for other types."""
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    return int(kind.byte_width) if types.is_fixed_size_binary(kind) else 0


def _damaged(error: Exception) -> Exception:
    """The error to raise: a limit as it is, anything else as damage of the file."""
    return error if type(error) is ValueError else ValueError(NO_PARQUET.format(error))
