"""What the commands print: JSON for machines, words for people."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from decoupled_descent.app.report.comparison import answers, usefulness
from decoupled_descent.app.report.data import Contender, is_trusted
from decoupled_descent.app.report.text import TONES, number, written_interval
from decoupled_descent.checks import harmless

#: Colours of verdicts and statuses on a terminal.
STYLES = {"good": "green", "warn": "yellow", "bad": "red", "plain": "default"}
#: Verdicts on the estimate, in the words of the terminal.
WORDS = {
    "trust": "trust the estimate",
    "caution": "caution with the estimate",
    "do not trust": "do not trust the estimate",
}
#: Measures whose names begin like this are shares of rows.
SHARES = ("accuracy", "sensitivity", "specificity", "positive", "negative")
#: The most notes shown on a terminal.
MOST_NOTES = 12


def echo_json(content: Any) -> None:
    """Print one JSON document; paths become text, numbers that are not finite become null."""
    typer.echo(json.dumps(_plain(content), allow_nan=False))


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):  # arrays and tensors
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


class Screen(Console):
    """A console that prints text as it is, without control characters."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print texts and tables."""
        super().print(
            *(harmless(str(one)) if isinstance(one, str | PurePath) else one for one in objects),
            **options,
        )


def console(stderr: bool = False) -> Console:
    """Return a console for words and file names."""
    return Screen(stderr=stderr, highlight=False, markup=False, emoji=False)


def heading(screen: Console, text: str) -> None:
    """Print a heading after an empty line."""
    screen.print()
    screen.print(Text(harmless(text), style="bold"), soft_wrap=True)


def points(screen: Console, items: Sequence[str]) -> None:
    """Print a list of sentences; text in backticks is coloured."""
    for item in items:
        line = Text("  • ")
        for k, piece in enumerate(re.split("`([^`]+)`", harmless(item))):
            line.append(piece, style="cyan" if k % 2 else "")
        screen.print(line, soft_wrap=True)


def few(notes: Sequence[str], elsewhere: str) -> list[str]:
    """Return the first notes, and how many more there are."""
    rest = len(notes) - MOST_NOTES
    more = [f"and {rest} more: see {elsewhere}"] if rest > 0 else []
    return [*notes[:MOST_NOTES], *more]


def intervals(screen: Console, estimates: Mapping[str, Sequence[float]]) -> None:
    """Print a table of estimates with their 95 % intervals.

    Each estimate is a value, or a value and the ends of its interval. Shares of rows are printed as
    percentages.
    """
    cells = []
    for name, estimate in estimates.items():
        value, between = written_interval(estimate, percent=name.startswith(SHARES))
        cells.append((name, value, between))
    widths = [max(len(row[k]) for row in cells) for k in range(2)]
    for name, value, between in cells:
        line = f"  {name:<{widths[0]}}   {value:<{widths[1]}}   {between}"
        screen.print(line.rstrip(), soft_wrap=True)


def compare(
    screen: Console, contenders: Sequence[Contender], linear: bool = True, rare: str = ""
) -> None:
    """Print whether the model is better than guessing and, if ``linear``, than a linear model.

    ``rare`` names the classes that are mostly missed.
    """
    if not contenders:
        return
    heading(screen, "Is it any good?")
    for one in answers(contenders)[: 2 if linear else 1]:
        _signed(screen, one.tone, f"{one.question} {one.word}", f": {one.reason}")
    if rare:
        _signed(screen, "caution", "Mostly missed", f": {rare}.")


def _signed(screen: Console, tone: str, bold: str, rest: str) -> None:
    """Print a line that begins with the sign of a verdict or status."""
    style, sign = TONES[tone]
    line = Text().append(f"  {sign} ", style=STYLES[style]).append(bold, style="bold")
    screen.print(line.append(harmless(rest)), soft_wrap=True)


def table(
    screen: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    """Print a table; all columns but the first are aligned to the right."""
    drawn = Table(title=title)
    for k, name in enumerate(columns):
        drawn.add_column(name, justify="right" if k else "left")
    for row in rows:
        drawn.add_row(*row)
    screen.print(drawn)


def verdict(
    screen: Console, diagnosis: Mapping[str, Any], everything: bool = False,
    contenders: Sequence[Contender] = (),
) -> None:  # fmt: skip
    """Print a verdict and its findings: all of them, or only those that are not ok.

    The second half of the verdict is whether the model is better than the other contenders.
    """
    tone, sign = TONES[diagnosis["verdict"]]
    line = Text(f"Verdict: {sign} {WORDS[diagnosis['verdict']]}", style=f"bold {STYLES[tone]}")
    if contenders:
        second, words = usefulness(contenders, is_trusted(diagnosis))
        style, sign = TONES[second]
        line.append("; ", "bold default").append(f"{sign} {words}", f"bold {STYLES[style]}")
    screen.print()
    screen.print(line, soft_wrap=True)
    findings = diagnosis["findings"]
    flagged = [one for one in findings if one["status"] != "ok"]
    for finding in findings if everything else flagged:
        _finding(screen, finding)
    fine = len(findings) - len(flagged)
    if fine and not (flagged and everything):
        count = f"{fine}{' other' * bool(flagged)} check{'s' * (fine > 1)}"
        screen.print(f"  {count} found no problem.")


def _finding(screen: Console, finding: Mapping[str, Any]) -> None:
    value = f"{finding['name']}: {number(finding['value'], 3)}"
    _signed(screen, finding["status"], value, f" ({finding['threshold']})")
    if finding["status"] != "ok":
        indent = " " * 6
        for text in (finding["reason"], f"→ {finding['advice']}"):
            lines = textwrap.wrap(
                text, screen.width, initial_indent=indent, subsequent_indent=indent
            )
            screen.print("\n".join(lines), soft_wrap=True)
