"""The processes that read one table: which rows each of them reads, and how they exchange data."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


class ProcessGroup:
    """The processes that read one table. This class itself is a group of one process.

    Attributes:
        rank: The number of this process, from 0.
        size: The number of processes.

    Example:
        >>> ProcessGroup().row_range(8)
        slice(0, 8, None)
    """

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size

    def all_gather_bytes(self, content: bytes) -> list[bytes]:
        """Return the content that each process passes, by rank."""
        return [content]

    def row_range(self, n: int) -> slice:
        """Return the rows of this process: n rows are divided evenly, in order.

        Example:
            >>> [ProcessGroup(rank, 3).row_range(8) for rank in range(3)]
            [slice(0, 3, None), slice(3, 6, None), slice(6, 8, None)]
        """
        quotient, remainder = divmod(n, self.size)
        start = self.rank * quotient + min(self.rank, remainder)
        return slice(start, start + quotient + (self.rank < remainder))

    def all_gather(self, compute: Callable[[], Any]) -> list[Any]:
        """Call ``compute`` in each process, and return all results by rank.

        Results are numbers, texts and lists. A ``ValueError`` or ``OSError`` of one process is
        raised in all of them, so that no process waits for one that has stopped.
        """
        results = self.all_gather_results(lambda: json.dumps(compute()).encode())
        return [json.loads(result) for result in results]

    def all_gather_results(self, compute: Callable[[], bytes]) -> list[bytes]:
        """Do the same as :meth:`all_gather` for results that are bytes."""
        if self.size == 1:
            return [compute()]
        try:
            message = b"." + compute()
        except (ValueError, OSError) as error:
            message = (b"v" if isinstance(error, ValueError) else b"o") + str(error).encode()
        messages = self.all_gather_bytes(message)
        for message in messages:
            if message[:1] != b".":
                raise (ValueError if message[:1] == b"v" else OSError)(message[1:].decode())
        return [message[1:] for message in messages]

    def check_same_files(self, fingerprints: list[Any]) -> None:
        """Raise ``ValueError`` if processes have other files than rank 0."""
        others = [str(rank) for rank, one in enumerate(fingerprints) if one != fingerprints[0]]
        if others:
            raise ValueError(
                f"rank {', '.join(others)} reads another file than rank 0; all processes must "
                "read the same one"
            )
