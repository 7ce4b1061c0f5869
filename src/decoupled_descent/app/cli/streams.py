"""Streams of the process that are closed, or cannot be written to."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path


class Results(io.TextIOWrapper):
    """Standard output, which remembers why it cannot be written."""

    failure = ""

    def write(self, text: str) -> int:
        """Write a text."""
        try:
            return super().write(text)
        except OSError as error:
            raise self._failed(error) from error

    def flush(self) -> None:
        """Write what is left."""
        try:
            super().flush()
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> OSError:
        if not isinstance(error, BrokenPipeError):  # the reader wants no more
            self.failure = error.strerror or str(error)
        return error


class Notes(io.TextIOWrapper):
    """Standard error: a note that cannot be written is lost, and the command goes on."""

    def write(self, text: str) -> int:
        """Write a text, if that is possible."""
        try:
            return super().write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        """Write what is left, if that is possible."""
        try:
            super().flush()
        except OSError:
            return


def open_streams() -> None:
    """Watch the streams, and open the null device for closed ones.

    The next file that is opened would otherwise have the number of a closed stream, and get what
    libraries write to it.
    """
    null = Path(os.devnull)
    sys.stdin = sys.stdin or io.TextIOWrapper(io.BufferedReader(io.FileIO(null)))
    for name, kind in (("stdout", Results), ("stderr", Notes)):
        given = getattr(sys, name)
        buffer = io.BufferedWriter(io.FileIO(null, "w")) if given is None else given.buffer
        encoding = "utf-8" if given is None else given.encoding
        lines = name == "stderr" or (given is not None and given.line_buffering)
        setattr(sys, name, kind(buffer, encoding, "replace", line_buffering=lines))


def output_error() -> str:
    """Why standard output cannot be written, or an empty text; then nothing more is written."""
    failure: str = getattr(sys.stdout, "failure", "")
    if failure:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return failure
