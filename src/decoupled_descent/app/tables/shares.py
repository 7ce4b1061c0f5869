"""Divide a table among processes, so that each of them reads its own rows only."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
QUOTE, LINE_FEED, RETURN, SPACE = b'"\n\r '
#: The bytes that are looked at together when a text file is divided.
LOOKED = 2**20


class Share:
    """One of several processes that read the same table, and how they tell each other things.

    This class itself is for a single process.

    Attributes:
        rank: Which process this is, from 0.
        size: The number of processes.

    Example:
        >>> Share().span(8)
        slice(0, 8, None)
    """

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size

    def all_gather(self, content: bytes) -> list[bytes]:
        """Return what every process passes, by rank."""
        return [content]

    def span(self, n: int) -> slice:
        """The rows of this process among n: consecutive, and as many as in any other, or one less.

        Example:
            >>> [Share(rank, 3).span(8) for rank in range(3)]
            [slice(0, 3, None), slice(3, 6, None), slice(6, 8, None)]
        """
        few, more = divmod(n, self.size)
        start = self.rank * few + min(self.rank, more)
        return slice(start, start + few + (self.rank < more))

    def same(self, size: int, content: bytes) -> None:
        """Raise ``ValueError`` if processes have files of another size or with another content."""
        told = [size, hashlib.sha256(content).hexdigest()]
        found = self.together(lambda: told)
        others = [str(k) for k, one in enumerate(found) if one != found[0]]
        if others:
            raise ValueError(
                f"rank {', '.join(others)} reads another file than rank 0; all processes must "
                "read the same one"
            )

    def together(self, work: Callable[[], Any]) -> list[Any]:
        """Return what ``work`` returns in every process, by rank: numbers, texts, lists.

        An error of one process is raised in all, so that none waits for it.
        """
        return [json.loads(one) for one in self.sent(lambda: json.dumps(work()).encode())]

    def sent(self, work: Callable[[], bytes]) -> list[bytes]:
        """The same for bytes."""
        if self.size == 1:
            return [work()]
        try:
            told = b"." + work()
        except (ValueError, OSError) as error:
            told = (b"v" if isinstance(error, ValueError) else b"o") + str(error).encode()
        found = self.all_gather(told)
        for one in found:
            if one[:1] != b".":
                raise (ValueError if one[:1] == b"v" else OSError)(one[1:].decode())
        return [one[1:] for one in found]


class Window(io.RawIOBase):
    """Some bytes of a stream, from ``start`` to before ``stop``; it closes the stream."""

    def __init__(self, stream: BinaryIO, start: int, stop: int) -> None:
        stream.seek(start)
        self._stream, self._left = stream, max(0, stop - start)

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes."""
        content = self._stream.read(min(len(buffer), self._left))
        buffer[: len(content)] = content
        self._left -= len(content)
        return len(content)

    def close(self) -> None:
        """Close the stream, too."""
        self._stream.close()
        super().close()


#: Opens a file from one byte to before another.
Opened = Callable[[int, int], BinaryIO]


def blocks_of(opened: Opened, start: int, stop: int) -> Iterator[bytes]:
    """Yield the bytes of a part of a file, in blocks."""
    with opened(start, stop) as stream:
        while block := stream.read(LOOKED):
            yield block


def lines_from(opened: Opened, size: int, share: Share) -> tuple[int, int]:
    """Divide a text file into parts of whole lines, of about the same size.

    Returns:
        The first byte of this process's part, and the first one after it.
    """
    place = share.rank * size // share.size
    start = 0
    if share.rank:
        start = place - 1
        for block in blocks_of(opened, start, size):
            found = block.find(b"\n")
            start += found + 1 if found >= 0 else len(block)
            if found >= 0:
                break
    starts = share.together(lambda: start)
    return start, [*starts, size][share.rank + 1]


class Survey(NamedTuple):
    """What was found in a part of a text file that has whole lines.

    Attributes:
        first: The byte, from the start of the part, at which the first row begins, or None.
        ends: How many rows end in this part.
        regular: Whether all quotation marks are where they mean something.
    """

    first: int | None
    ends: int
    regular: bool


def survey(blocks: Iterable[bytes], inside: bool, separator: str) -> Survey:
    r"""Find the rows of a part of a text file, which begins inside quotation marks or not.

    A line break ends a row unless it is inside quotation marks, which an even number of marks
    before it shows. That holds if each mark that opens a field is at its beginning, and each other
    one closes it or is doubled. Otherwise the part is not regular.

    Example:
        >>> survey([b'the end of a text"\n1,"two\nlines"\n'], True, ",")
        Survey(first=19, ends=2, regular=True)
        >>> survey([b'1,a 3" nail\n'], False, ",").regular
        False
    """
    begins = np.frombuffer(f"{separator}\n\r".encode(), np.uint8)
    first, ends, regular, place = None if inside else 0, 0, True, 0
    last = last_visible = LINE_FEED  # of the block before
    ended = not inside
    for block in blocks:
        content = np.frombuffer(block, np.uint8)
        breaks = (content == LINE_FEED) | (content == RETURN)
        marks = content == QUOTE
        if inside or marks.any():
            opening = np.flatnonzero(marks)[int(inside) :: 2]
            starting = np.isin(_visible_before(content, last_visible)[opening], begins)
            doubled = _after(last, content)[opening] == QUOTE
            regular &= bool((starting | doubled).all())
            breaks &= (np.cumsum(marks) + inside) % 2 == 0
            inside ^= bool(marks.sum() % 2)
        if first is None and len(found := np.flatnonzero(breaks)):
            first = place + int(found[0]) + 1
            first += block[int(found[0]) :].startswith(b"\r\n")
        shifted = np.append(ended, breaks[:-1])
        ends += int((breaks & ~shifted).sum())
        ended, place = bool(breaks[-1]), place + len(content)
        last = int(content[-1])
        shown = content[content != SPACE]
        last_visible = int(shown[-1]) if len(shown) else last_visible
    return Survey(first, ends + (not ended), regular)


def _after(first: int, content: Bytes) -> Bytes:
    """Put a byte before others."""
    return np.concatenate([np.array([first], np.uint8), content])


def _visible_before(content: Bytes, last: int) -> Bytes:
    """Return the last byte before each one that is not a space; ``last`` is that of before."""
    places = np.where(content != SPACE, np.arange(1, len(content) + 1), 0)
    found: Bytes = _after(last, content)[np.maximum.accumulate(np.append(0, places[:-1]))]
    return found


class Cut(NamedTuple):
    """The rows of one process in a text file.

    Attributes:
        start: The byte at which they begin.
        stop: The first byte after them.
        before: How many rows are before them, the row of names included.
    """

    start: int
    stop: int
    before: int


def cut(opened: Opened, part: tuple[int, int], separator: str, share: Share) -> Cut | None:
    """Find which rows of a text file are those of this process.

    Args:
        opened: Opens the file.
        part: The bytes of this process, as of :func:`lines_from`. Those of the first process begin
            with the names.
        separator: The character between fields.
        share: Which process this is.

    Returns:
        The rows, or None if they cannot be divided so: there are processes without rows, or
        quotation marks inside fields that do not begin with one.
    """
    marks = share.together(lambda: sum(one.count(b'"') for one in blocks_of(opened, *part)))
    inside = sum(marks[: share.rank]) % 2 == 1

    def surveyed() -> list[Any]:
        found = survey(blocks_of(opened, *part), inside, separator)
        return [*part, inside, *found]

    return _whose(share.together(surveyed), share.rank)


def _whose(parts: list[list[Any]], rank: int) -> Cut | None:
    """Join what was found in all parts: a row belongs to the part in which it begins."""
    starts, before, count = [], [], 0
    for k, (start, stop, inside, first, ends, regular) in enumerate(parts):
        if not regular or first is None or start == stop:
            return None
        starts.append(start + first)
        before.append(count + inside)
        open_end = k + 1 < len(parts) and parts[k + 1][2]
        count += ends - open_end  # the row that goes on in the next part ends there
    rows = np.diff([*before, count])
    if rows[0] < 2 or rows.min() < 1:  # names and a row
        return None
    return Cut(starts[rank], [*starts, parts[-1][1]][rank + 1], before[rank])
