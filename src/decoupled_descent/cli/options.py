"""Options that several commands share, and checks of files and folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for machines.")]
Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="Table: .csv, .tsv, .txt (also .gz), .parquet, .npz or .npy. The first five are "
        "read in pieces if they have more than 250 MB.",
        show_default=False,
    ),
]
Target = Annotated[
    str, typer.Option(metavar="COLUMN", help="The column to predict.", show_default=False)
]
Task = Annotated[
    Literal["classification", "regression"] | None,
    typer.Option(
        metavar="TASK",
        help="classification or regression; by default, recognised from the target.",
        show_default=False,
    ),
]


Identifier = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="COLUMN",
        help="Column that identifies the rows. The model does not use it; predictions repeat it.",
        show_default=False,
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN", help="Do not use this column; may be repeated.", show_default=False
    ),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        "--na",
        metavar="WORD",
        help="A word or number that stands for a missing value, such as -999; may be repeated.",
        show_default=False,
    ),
]

#: The choices of --method: the options of each, and a line about it. This is a copy of the table in
#: descent/methods.py, whose import takes seconds. A test compares the two. With the copy, help and
#: wrong options are answered at once.
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
