"""What a result was made from: the date, the version, the data and the command."""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_type_hints

import decoupled_descent as dd
from decoupled_descent.app.cli.training_options import TrainOptions
from decoupled_descent.app.report.data import Origin

#: Options that change what is printed, not the result.
ONLY_PRINTED = ("as_json",)
#: Digits of a SHA-256 that are stored: by chance two of 2³² tables agree in as many.
DIGITS = 16


def origin(data: Path, command: str) -> Origin:
    """The origin of a result that is made now from a table."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return Origin(now, dd.__version__, fingerprint(data), command)


def fingerprint(data: Path) -> str:
    """The first digits of a SHA-256 of a file, or of all files in a folder and their names."""
    if not data.is_dir():
        with data.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:DIGITS]
    together = hashlib.sha256()
    for path in sorted(data.iterdir()):
        if path.is_file():
            together.update(f"{path.name}\0{fingerprint(path)}\0".encode())
    return together.hexdigest()[:DIGITS]


def command_of(options: TrainOptions) -> str:
    """The command with these options; those that have their defaults are left out.

    Example:
        >>> command_of(TrainOptions(data=Path("a.csv"), target="y", drop=["town hall"], seed=3))
        "decoupled train a.csv --target y --drop 'town hall' --seed 3"
    """
    types = get_type_hints(TrainOptions, include_extras=True)
    words = ["decoupled", "train", str(options.data)]
    for one in fields(TrainOptions):
        value = getattr(options, one.name)
        if one.name in ("data", *ONLY_PRINTED) or value == one.default:
            continue
        name = _option_name(one.name, types[one.name])
        for each in value if isinstance(value, list) else [value]:
            words += [name] if each is True else [name, str(each)]
    return shlex.join(words)


def _option_name(field: str, annotated: Any) -> str:
    """The name of an option: the first one that Typer was given, or that of the field."""
    (about,) = annotated.__metadata__
    given = [about.default, *(about.param_decls or ())]  # Typer takes the first name as a default
    names = [one for one in given if isinstance(one, str) and one.startswith("--")]
    return names[0] if names else f"--{field.replace('_', '-')}"
