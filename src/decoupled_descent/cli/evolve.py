"""``decoupled evolve``: what the theory predicts, next to runs from the same start."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import decoupled_descent as dd
from decoupled_descent.cli.options import Json, output_folder

if TYPE_CHECKING:
    from torch import Tensor


def evolve(
    mixture: Annotated[
        str, typer.Argument(metavar="MIXTURE", help="signalless, flipped, discrete or xor.")
    ],
    dimension: Annotated[int, typer.Option(help="Features.", min=2)] = 1000,
    ratio: Annotated[float, typer.Option(help="Training rows per feature, n/d.")] = 1.0,
    snr: Annotated[float, typer.Option(help="Signal-to-noise ratio.")] = 4.0,
    signal: Annotated[float, typer.Option(help="Share of the means in the start.")] = 0.0,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 0.05,
    damping: Annotated[float, typer.Option(help="Damping; 1 means none.")] = 1.0,
    steps: Annotated[int, typer.Option(help="Iterates.", min=1)] = 100,
    runs: Annotated[int, typer.Option(help="Runs to compare with.", min=0)] = 4,
    paths: Annotated[int, typer.Option(help="Sampled paths, a power of two.")] = 4096,
    seed: Annotated[int, typer.Option(help="Of the start and the data.", min=0)] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("decoupled-evolve"),
    as_json: Json = False,
) -> None:
    """Predict decoupled descent by state evolution, next to runs from the same start."""
    from decoupled_descent.cli.output import console, echo_json
    from decoupled_descent.plotting import style as plotting
    from decoupled_descent.state_evolution import examples

    law, objective = examples.example(mixture, dimension, snr)
    algorithm = dd.DecoupledDescent(lr, damping)
    theory = dd.StateEvolution(law, objective, algorithm, ratio, paths=paths)
    folder = output_folder(out)
    found = examples.compare(theory, dimension, steps, runs, seed, signal)
    evolution, train, test = found.evolution, found.train, found.test
    figure, axes = plotting.new_figure(columns=2)
    title = f"{mixture}, n/d = {ratio:g}, d = {dimension}"
    plotting.error_panel(
        axes[0, 0],
        train if runs else evolution.test_error,
        test if runs else None,
        title,
        objective.loss.name,
        theory=evolution.test_error,
    )
    plotting.taylor_panel(axes[0, 1], dd.theory.taylor_terms(evolution), "what drives it")
    (path,) = plotting.save_figure(figure, folder / f"{mixture}.png")
    if as_json:
        echo_json(
            {
                "figure": path,
                "mixture": mixture,
                "test_error": evolution.test_error,
                "stderr": evolution.test_error_stderr,
                "alignment": evolution.alignment,
                "overlap": evolution.overlap,
                "train_error_of_runs": train,
                "test_error_of_runs": test,
            }
        )
        return
    screen = console()
    screen.print(evolution_table(f"{title}, {runs} runs", evolution.test_error, train, test))
    screen.print(f"figure: {path}", soft_wrap=True)


def evolution_table(title: str, predicted: Tensor, train: Tensor, test: Tensor) -> Any:
    """Nine steps of a prediction, next to the medians over the runs if there are any."""
    import numpy as np
    from rich.table import Table

    table = Table(title=title)
    for column in ("step", "predicted", "train error", "test error"):
        table.add_column(column, justify="right")
    for t in sorted({round(k * (len(predicted) - 1) / 8) for k in range(9)}):
        medians = [f"{np.median(v[:, t]):.4f}" if len(v) else "–" for v in (train, test)]
        table.add_row(str(t), f"{float(predicted[t]):.4f}", *medians)
    return table
