"""What the commands share: folders to write to, JSON, and words on the terminal."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

from decoupled_descent.report.text import TONES, number, written_interval

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for machines.")]
#: Colours of verdicts and statuses on a terminal.
STYLES = {"good": "green", "warn": "yellow", "bad": "red", "plain": "default"}
#: The most notes shown on a terminal.
MOST_NOTES = 12


def output_folder(path: Path) -> Path:
    """Make a folder to write to, or raise ``OSError`` before any work is done."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".decoupled-write-test"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise OSError(f"--out {path}: cannot write there ({error.strerror or error})") from error
    return path


def finite(value: float) -> float | None:
    """JSON has no infinity: a run that diverged has no error."""
    return value if math.isfinite(value) else None


def echo_json(content: Any) -> None:
    """Print one JSON document; paths become text, numbers that are not finite null."""
    typer.echo(json.dumps(_plain(content), allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return finite(value)
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def console(stderr: bool = False) -> Console:
    """A console that takes words as they are."""
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def heading(screen: Console, text: str, style: str = "") -> None:
    """Print a heading, after an empty line."""
    screen.print()
    screen.print(Text(text, style=f"bold {style}".strip()), soft_wrap=True)


def points(screen: Console, items: Sequence[str], mark: str = "•") -> None:
    """Print sentences below each other; what stands in backticks is highlighted and not cut."""
    for item in items:
        line = Text(f"  {mark} ")
        for k, piece in enumerate(re.split("`([^`]+)`", item)):
            line.append(piece, style="cyan" if k % 2 else "")
        screen.print(line, soft_wrap=True)


def few(notes: Sequence[str], elsewhere: str) -> list[str]:
    """The first notes, and how many more there are."""
    rest = len(notes) - MOST_NOTES
    more = [f"and {rest} more: see {elsewhere}"] if rest > 0 else []
    return [*notes[:MOST_NOTES], *more]


def intervals(screen: Console, estimates: Mapping[str, Sequence[float]]) -> None:
    """Print estimates with their 95 % intervals, below each other.

    Args:
        screen: Where.
        estimates: By name, value and perhaps lower and upper end; an accuracy is a percentage.
    """
    cells = []
    for name, found in estimates.items():
        cells.append((name, *written_interval(found, percent="accuracy" in name)))
    widths = [max(len(row[k]) for row in cells) for k in range(2)]
    for name, value, between in cells:
        line = f"  {name:<{widths[0]}}   {value:<{widths[1]}}   {between}"
        screen.print(line, soft_wrap=True)


def verdict(screen: Console, diagnosis: Mapping[str, Any], everything: bool = False) -> None:
    """Print a verdict and the findings behind it.

    Args:
        screen: Where.
        diagnosis: What ``Diagnosis.to_dict`` returns.
        everything: Whether to list the checks that found nothing, too.
    """
    tone, sign = TONES[diagnosis["verdict"]]
    heading(screen, f"Verdict: {sign} {diagnosis['verdict']}", STYLES[tone])
    findings = diagnosis["findings"]
    flagged = [found for found in findings if found["status"] != "ok"]
    fine = len(findings) - len(flagged)
    for found in findings if everything else flagged:
        tone, sign = TONES[found["status"]]
        line = Text().append(f"  {sign} ", style=STYLES[tone])
        line.append(f"{found['name']}: {number(found['value'], 3)}", style="bold")
        line.append(f" ({found['threshold']})")
        screen.print(line, soft_wrap=True)
        if found["status"] != "ok":
            for text in (found["reason"], f"→ {found['advice']}"):
                indent = " " * 6
                lines = textwrap.wrap(
                    text, screen.width, initial_indent=indent, subsequent_indent=indent
                )
                screen.print("\n".join(lines), soft_wrap=True)
    if not everything and flagged:
        screen.print(f"  {fine} other checks found nothing.")
    elif not flagged:
        screen.print(f"  None of {fine} checks speaks against the estimate.")
