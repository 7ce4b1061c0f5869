"""Options that several commands share, and checks of files and folders."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

#: An option or an argument whose default needs no word in the help.
option, argument = (partial(one, show_default=False) for one in (typer.Option, typer.Argument))

Json = Annotated[bool, option("--json", help="Print the result as JSON, for machines.")]
Data = Annotated[
    Path,
    argument(
        metavar="DATA",
        help="Table: .csv, .tsv, .txt (also .gz), .parquet, .npz or .npy. The first five are "
        "read in pieces if they have more than 250 MB.",
    ),
]
Target = Annotated[str, option(metavar="COLUMN", help="The column to predict.")]
Task = Annotated[
    Literal["classification", "regression"] | None,
    option(
        metavar="TASK",
        help="classification or regression; by default, recognised from the target.",
    ),
]
Identifier = Annotated[
    str | None,
    option(
        "--id",
        metavar="COLUMN",
        help="Column that identifies the rows. The model does not use it; predictions repeat it.",
    ),
]
Drop = Annotated[
    list[str] | None, option(metavar="COLUMN", help="Do not use this column; may be repeated.")
]
Missing = Annotated[
    list[str] | None,
    option(
        "--na",
        metavar="WORD",
        help="A word or number that stands for a missing value, such as -999; may be repeated.",
    ),
]

#: The choices of --method: the options of each, and a line about it. This is a copy of the table in
#: selection/methods.py, whose import takes seconds. A test compares the two. With the copy, help
#: and wrong options are answered at once.
METHODS = {
    "newton": (("ridge",), "linear and kernel models, with leave-one-out errors"),
    "orthogonal": (("lr", "damping", "ridge"), "decoupled descent, for columns of any covariance"),
    "decoupled": (("lr", "damping"), "decoupled descent of the paper, for white noise"),
    "gradient": (("lr",), "gradient descent; its train error does not estimate the test error"),
}


class StoppedError(Exception):
    """Work was interrupted by the user; the message says what was written."""


def must_exist(*paths: Path) -> None:
    """Raise ``FileNotFoundError`` if a file does not exist, before anything slow is done."""
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist; check the name and the folder")


def output_folder(path: Path) -> Path:
    """Make a folder to write to, or raise ``OSError`` before any work is done."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".decoupled-write-test"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise cannot_write(path, error) from error
    return path


def cannot_write(path: Path, error: OSError, remedy: str = "") -> OSError:
    """Return the error to raise when ``--out`` cannot be written to."""
    return OSError(f"--out {path}: cannot write there ({error.strerror or error}){remedy}")
