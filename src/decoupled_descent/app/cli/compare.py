"""``decoupled compare``: two results on the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from decoupled_descent.app.cli.options import Json, argument, must_exist

if TYPE_CHECKING:
    from decoupled_descent.app.cli.paired import ResultComparison

Result = Annotated[Path, argument(metavar="RESULT-A", help="Folder that train wrote.")]
Other = Annotated[Path, argument(metavar="RESULT-B", help="Folder that train wrote.")]


def compare(result_a: Result, result_b: Other, as_json: Json = False) -> None:
    """Compare two results that were trained on the same table, row by row.

    Both models predict each row as if it were new. The difference of their mean losses gets a 95 %
    interval, which is usually much narrower than those of the two errors.
    """
    must_exist(result_a, result_b)
    from decoupled_descent.app.cli.output import echo_json
    from decoupled_descent.app.cli.paired import compared, to_dict

    result = compared(result_a, result_b)
    if as_json:
        echo_json(to_dict(result))
    else:
        _show(result)


def _show(result: ResultComparison) -> None:
    """Print a table of both errors and their differences, and which result is better."""
    from decoupled_descent.app.cli.output import console, heading
    from decoupled_descent.app.report.text import INTERVAL, together

    screen = console()
    screen.print(f"A: {result.names[0]}\nB: {result.names[1]}", soft_wrap=True)
    rows = f"{result.rows:,} rows" + (f" in {result.groups:,} groups" if result.groups else "")
    heading(screen, f"{result.target}: {rows}, predicted by models that were fitted without them")
    for one in result.measures:
        values = [*one.means, one.difference, *one.interval]
        a, b, gap, low, high = together(values, one.stderr, percent=one.is_share)
        line = f"  {one.name:<15} A {a}   B {b}   A − B {gap}   {INTERVAL} {low} to {high}"
        screen.print(line, soft_wrap=True)
    screen.print()
    for sentence in (result.words, *result.notes):
        screen.print(sentence, soft_wrap=True)
