"""Options that several commands share, and checks of files and folders."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import partial, update_wrapper
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

import typer

#: An option or an argument whose default needs no word in the help.
option, argument = (partial(one, show_default=False) for one in (typer.Option, typer.Argument))

Json = Annotated[bool, option("--json", help="Print the result as JSON, for machines.")]
Data = Annotated[
    Path,
    argument(
        metavar="DATA",
        help="Table: .csv, .tsv, .txt, .jsonl (also .gz, .bz2 or .zip), .xlsx, .xls, .ods, "
        ".parquet, .npz or .npy, or a folder of csv or parquet files; - is standard input. Tables "
        "of more than 250 MB are read in pieces.",
    ),
]
Sheet = Annotated[
    str | None,
    option(metavar="NAME", help="Sheet of a spreadsheet; by default the first one with values."),
]
Target = Annotated[str, option(metavar="COLUMN", help="The column to predict.")]
Task = Annotated[
    Literal["classification", "regression", "counts", "proportions", "grades"] | None,
    option(
        metavar="TASK",
        help="classification, regression, counts (Poisson), proportions (0 to 1) or grades "
        "(numbered classes in order); by default, one of the first three is recognised.",
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
Plain = Annotated[
    list[str] | None,
    option(
        metavar="COLUMN",
        help="Take the values of this column as they are: -999 is no code for a missing value, "
        "01067 is a number, 120/80 is a text; may be repeated.",
    ),
]

Options = TypeVar("Options")
STANDARD_INPUT = Path("-")
#: What an address on the web begins with. A path has one slash where an address has two.
ADDRESS = re.compile("[a-zA-Z0-9]{2,}:/")


def takes(options: type[Options]) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Make a command of a function of one argument: the fields of a dataclass are its options.

    The types of the fields are those that Typer reads, and so are their defaults.
    """
    types = get_type_hints(options, include_extras=True)
    parameters = [
        Parameter(
            one.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if one.default is MISSING else one.default,
            annotation=types[one.name],
        )
        for one in fields(options)  # type: ignore[arg-type]
    ]

    def command(function: Callable[[Options], None]) -> Callable[..., None]:
        def call(**values: Any) -> None:
            function(options(**values))

        update_wrapper(call, function)
        del call.__wrapped__  # type: ignore[attr-defined] # the signature is another one
        call.__annotations__ = {}
        call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return call

    return command


class StoppedError(Exception):
    """Work was interrupted by the user; the message says what was written."""


def must_exist(*paths: Path) -> None:
    """Raise ``FileNotFoundError`` if a file does not exist, before anything slow is done."""
    for path in paths:
        if ADDRESS.match(str(path)):
            from decoupled_descent.app.files.reading import check_no_address

            check_no_address(path)
        if path != STANDARD_INPUT and not path.exists():
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
