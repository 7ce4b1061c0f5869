r"""A large text file as a stream of tables of Arrow, in which all values are strings.

pyarrow parses the text, and pandas converts the strings to numbers with the options that it has for
a table in memory. So the numbers are the same to the last bit. pyarrow's conversion would round
some of them differently.

Four promises need more than pyarrow's parser:

- Several processes: a parser that starts in the middle of a file cannot know whether it is inside
  quotation marks. Each process therefore parses the stream from its start, and converts only its
  rows to numbers. So reading a csv does not become faster with more processes: 350 MB took 4.1 s in
  one process and 5.3 s in two.
- Fields that begin with a space: pyarrow does not recognise quotation marks after it. Files that
  have a space next to an opening mark are parsed with Python's ``csv``, seven times slower.
- Errors with line numbers: pyarrow counts rows, and rows may have several lines. After an error of
  pyarrow, Python's ``csv`` reads the file up to the wrong line.
- A quotation mark that is left open: no parser reports it at the end of a file. The stream
  therefore has one more row, ``END``, which must be the last one.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import pandas as pd

from decoupled_descent.app.files import limits
from decoupled_descent.app.files.limits import need
from decoupled_descent.app.files.packing import blocks_of, kind_of_file
from decoupled_descent.app.files.text import HEAD, decodes, recognise, records
from decoupled_descent.tables.columns.values import is_number

#: The fields of the row that is added at the end. Zero bytes do not occur in text files.
END = "\0"
#: The number of rows of a table that is parsed with Python's ``csv``.
ROWS = 10_000
#: The number of bytes that a field may have on average. A batch must have space for a row.
FIELD_BYTES = 40


class ByteStream(io.RawIOBase):
    """A stream of the bytes in an iterator of blocks."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks, self._rest = iter(blocks), memoryview(b"")

    def readable(self) -> bool:
        """Return True: the stream can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes."""
        self._rest = self._rest or memoryview(next(self._blocks, b""))
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


class TextFile:
    """A text file with several columns, packed or not.

    Attributes:
        path: The file.
        size: The number of its bytes, unpacked.
        n_rows: The number of rows, or None before they are counted.
        names: The names of the columns, without spaces around them.
        notes: Sentences for the user about the format.

    Args:
        path: The file.
        usual: The decimal mark, if the file does not show it.

    Raises ``OSError`` without pyarrow, ``ValueError`` if the file is damaged or not a table.
    """

    def __init__(self, path: Path, usual: str = "") -> None:
        need("pyarrow", "a table that is read in pieces")
        self.path, self.size = path, path.stat().st_size
        if kind_of_file(path).packing:
            self.size = sum(map(len, blocks_of(path, in_memory=False)))
        head = io.BufferedReader(ByteStream(self._blocks())).read(HEAD)
        self.format = recognise(head, lambda encoding: decodes(self._blocks(), encoding), usual)
        self.n_rows: int | None = None
        self.names, self.notes = [name.strip() for name in self.format.names], self.format.notes
        self._has_spaces_at_quotes = has_spaces_at_quotes(self._blocks(), self.format.separator)

    def _blocks(self) -> Iterator[bytes]:
        return blocks_of(self.path, in_memory=False)

    def _stream(self) -> BinaryIO:
        """Open the file at the line of names, with the row ``END`` after its last row."""
        end = self.format.separator.join([END] * len(self.names))
        blocks = itertools.chain(self._blocks(), [f"\n{end}\n".encode()])
        stream = io.BufferedReader(ByteStream(blocks), limits.BATCH_BYTES)
        stream.read(self.format.skipped)
        return cast(BinaryIO, stream)

    @property
    def empty(self) -> Any:
        """The table without rows."""
        return _strings([[] for _ in self.names])

    def batches(self) -> Iterator[Any]:
        """Yield the rows as tables of Arrow."""
        skipped = 1  # the line of names
        for table in self._records() if self._has_spaces_at_quotes else self._parsed():
            if len(table) > skipped:
                yield table.slice(skipped)
            skipped = max(0, skipped - len(table))

    def _parsed(self) -> Iterator[Any]:
        """Parse the file with pyarrow; names are the first row."""
        import pyarrow
        from pyarrow import compute, csv

        names, separator = self.empty.schema.names, self.format.separator
        encoding = self.format.encoding.removesuffix("-sig")  # pyarrow skips the mark of UTF-8
        size = max(limits.BATCH_BYTES, FIELD_BYTES * len(names))
        reading = csv.ReadOptions(
            use_threads=False, block_size=size, column_names=names, encoding=encoding
        )
        parsing = csv.ParseOptions(delimiter=separator, newlines_in_values=True)
        strings = csv.ConvertOptions(
            column_types=dict.fromkeys(names, pyarrow.string()), strings_can_be_null=False
        )
        spaces, closed = " \t".replace(separator, ""), False
        try:
            for batch in csv.open_csv(self._stream(), reading, parsing, strings):
                closed = batch.column(0)[-1].as_py() == END
                trimmed = [compute.utf8_ltrim(column, spaces) for column in batch.columns]
                yield pyarrow.table(trimmed, names).slice(0, len(batch) - closed)
            if not closed:
                raise pyarrow.ArrowInvalid("is a quotation mark left open?")
        except pyarrow.ArrowInvalid as error:
            for _ in self._records():  # names the line
                pass
            raise ValueError(f"{error}; rows may have up to {size:,} bytes") from error

    def _records(self) -> Iterator[Any]:
        """Parse the file with Python's ``csv``; names are the first row."""
        result = records(
            self._stream(), self.format.encoding, self.format.separator, self.format.above
        )
        closed, line = False, 1
        while block := list(itertools.islice(result, ROWS)):
            for line, record in block:
                if len(record) != len(self.names):
                    raise self.format.wrong_width(line + self.format.above, len(record))
            closed = block[-1][1][0] == END
            rows = [record for _, record in block[: len(block) - closed]]
            yield _strings(zip(*rows, strict=True)) if rows else self.empty
        if not closed:
            raise ValueError(f"line {line + self.format.above}: is a quotation mark left open?")

    def frame(self, table: Any, sample: pd.DataFrame | None = None) -> pd.DataFrame:
        """Convert strings to a data frame; columns that are text in the sample stay text."""
        text = [
            k
            for k, name in enumerate(self.names)
            if sample is not None and name in sample and not is_number(sample[name].dtype)
        ]
        frame = self._converted(table, {*text, *self.format.padded})
        frame.columns = pd.Index(self.names)
        frame.attrs["decimal"] = self.format.decimal
        return frame

    def series(self, column: Any) -> pd.Series:
        """Convert one column of strings to a series."""
        return cast(pd.Series, self._converted(_strings([column]))[0])

    def as_written(self, column: Any) -> list[str]:
        """Return the texts of a column, without spaces around them."""
        return [text.strip() for text in column.to_pylist()]

    def _converted(self, table: Any, text: Iterable[int] = ()) -> pd.DataFrame:
        """Convert strings to numbers where pandas does so in a table that is read as a whole."""
        import pyarrow
        from pyarrow import csv

        if not len(table):
            return pd.DataFrame(columns=range(table.num_columns))
        sink = pyarrow.BufferOutputStream()
        batches = [batch for batch in table.to_batches() if len(batch)]
        table = pyarrow.Table.from_batches(batches)  # pyarrow 26 writes random bytes for empty ones
        csv.write_csv(
            table, sink, csv.WriteOptions(include_header=False, quoting_style="all_valid")
        )
        frame = self.format._replace(separator=",", names=table.schema.names).read(
            pyarrow.BufferReader(sink.getvalue()),
            header=None, encoding="utf-8", skip_blank_lines=False, dtype=dict.fromkeys(text, str),
        )  # fmt: skip
        return cast(pd.DataFrame, frame)


def _strings(columns: Iterable[Any]) -> Any:
    """Make a table of Arrow of columns of strings; their names are their positions."""
    import pyarrow

    arrays = [
        column if isinstance(column, pyarrow.ChunkedArray) else pyarrow.array(column, "string")
        for column in columns
    ]
    return pyarrow.table(arrays, [str(k) for k in range(len(arrays))])


def has_spaces_at_quotes(blocks: Iterable[bytes], separator: str) -> bool:
    r"""Return whether fields seem to have spaces before or after their opening quotation mark.

    Example:
        >>> (
        ...     has_spaces_at_quotes([b"a,b\n1, ", b'"x, y"\n'], ","),
        ...     has_spaces_at_quotes([b'1,"a b"'], ","),
        ... )
        (True, False)
    """
    space = "[ \t]".replace(separator, "")
    pattern = re.compile(rf'[{separator}\r\n](?:{space}+"|"{space})'.encode())
    last = b"\n"  # the end of the block before: a byte, and the spaces after it
    for block in blocks:
        content = last + block
        if (b' "' in content or b'" ' in content or b"\t" in content) and pattern.search(content):
            return True
        last = content[len(content.rstrip(b' \t"')) - 1 :]
    return False
