"""``decoupled reproduce``: the figures of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from decoupled_descent.cli.options import Json, harmless, output_folder


def reproduce(
    figure: Annotated[
        str,
        typer.Argument(
            metavar="FIGURE",
            help="signalless, signalless-sweep, xor, xor-damping, mnist, runtime, cifar, or all.",
        ),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer replications, for a look.")] = False,
    replications: Annotated[
        int | None, typer.Option(help="How many, instead of the paper's number.", min=1)
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the first replication.", min=0)] = 0,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of data sets; by default the one named by DECOUPLED_DATA."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Processes; one per core by default.", min=1)
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("decoupled-figures"),
    as_json: Json = False,
) -> None:
    """Compute a figure of the paper, or all of them, with the paper's settings.

    Writes a PNG, an SVG and summary.json per figure, and index.html for all. Replications are kept:
    the same command continues where it was interrupted.
    """
    from decoupled_descent import reproduce as figures
    from decoupled_descent.cli.output import console, echo_json

    figures.find_data(figure, data)  # before making a folder
    folder = output_folder(out)

    def report(done: figures.Reproduced) -> None:
        if not as_json:
            screen = console()
            screen.print(f"{done.experiment.name}: {done.summary['findings']}")
            screen.print(*done.files, sep="\n", end="\n\n", soft_wrap=True)

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
    if figure == "all" and not as_json:
        typer.echo(harmless(f"gallery: {folder / 'index.html'}"))
    if as_json:
        results = [one.summary | {"files": one.files} for one in done]
        echo_json({"figures": results, "skipped": skipped})
