"""``decoupled reproduce``: the figures of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from decoupled_descent.app.cli.destination import check_writable
from decoupled_descent.app.cli.options import Json, must_exist, output_folder
from decoupled_descent.checks import harmless

if TYPE_CHECKING:
    from decoupled_descent.app.reproduce import Reproduced


#: A copy of the names in app/reproduce, whose import takes seconds. A test compares.
FIGURES = ("signalless", "signalless-sweep", "xor", "xor-damping", "mnist", "runtime", "cifar")

Figure = Annotated[
    str,
    typer.Argument(
        metavar="FIGURE",
        help="signalless, signalless-sweep, xor, xor-damping, mnist, runtime, cifar, or all.",
    ),
]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer replications, for a quick look.")]
Replications = Annotated[
    int | None, typer.Option(help="Number of replications, instead of the paper's.", min=1)
]
Seed = Annotated[int, typer.Option(help="Seed of the first replication.", min=0)]
DataFolder = Annotated[
    Path | None, typer.Option(help="Folder of data sets; by default that of DECOUPLED_DATA.")
]
Jobs = Annotated[int | None, typer.Option(help="Processes; one per core by default.", min=1)]
Out = Annotated[Path, typer.Option(help="Folder for the results.")]


def reproduce(
    figure: Figure,
    quick: Quick = False,
    replications: Replications = None,
    seed: Seed = 0,
    data: DataFolder = None,
    jobs: Jobs = None,
    out: Out = Path("decoupled-figures"),
    as_json: Json = False,
) -> None:
    """Compute a figure of the paper, or all of them, with the paper's settings.

    Writes a PNG, an SVG and summary.json per figure, and index.html for all. Replications that are
    done are kept: the same command continues where it was interrupted.
    """
    if figure not in (*FIGURES, "all"):
        raise ValueError(f"figure {figure!r} is unknown; use one of {', '.join(FIGURES)}, all")
    if data is not None:
        must_exist(data)
    check_writable(out)
    from decoupled_descent.app import reproduce as figures
    from decoupled_descent.app.cli.output import echo_json

    figures.find_data(figure, data)  # before making a folder
    folder = output_folder(out)

    def report(done: Reproduced) -> None:
        if not as_json:
            _show(done)

    options: dict[str, Any] = {"quick": quick, "replications": replications, "seed": seed}
    options |= {"data": data, "jobs": jobs}
    skipped: dict[str, str] = {}
    if figure == "all":
        done, skipped = figures.reproduce_all(folder, report=report, **options)
    else:
        done = [figures.reproduce(figure, folder, **options)]
        report(done[0])
    for name, reason in skipped.items():
        typer.echo(harmless(f"left out {name}: {reason}"), err=True)
    if as_json:
        results = [one.summary | {"files": one.files} for one in done]
        echo_json({"figures": results, "skipped": skipped})
    elif figure == "all":
        typer.echo(harmless(f"gallery: {folder / 'index.html'}"))


def _show(done: Reproduced) -> None:
    """Print what a figure shows, and its files."""
    from decoupled_descent.app.cli.output import console

    screen = console()
    screen.print(f"{done.experiment.name}: {done.summary['findings']}")
    screen.print(*done.files, sep="\n", end="\n\n", soft_wrap=True)
