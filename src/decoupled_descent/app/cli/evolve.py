"""``decoupled evolve``: the errors that theory predicts, next to those of actual runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import decoupled_descent as dd
from decoupled_descent.app.cli.destination import check_writable
from decoupled_descent.app.cli.options import Json, output_folder, takes
from decoupled_descent.checks import counted

if TYPE_CHECKING:
    from torch import Tensor

    from decoupled_descent.theory.examples import LimitAndRuns


#: A copy of ``examples.NAMES``, whose import takes seconds. A test compares the two.
MIXTURES = ("signalless", "flipped", "discrete", "xor")


@dataclass(frozen=True, kw_only=True)
class EvolveOptions:
    """What ``decoupled evolve`` was asked for."""

    mixture: Annotated[
        str, typer.Argument(metavar="MIXTURE", help="signalless, flipped, discrete or xor.")
    ]
    dimension: Annotated[int, typer.Option(help="Number of features.", min=2)] = 1000
    ratio: Annotated[float, typer.Option(help="Training rows per feature, n/d.")] = 1.0
    snr: Annotated[float, typer.Option(help="Signal-to-noise ratio.")] = 4.0
    signal: Annotated[float, typer.Option(help="Share of the class means in the start.")] = 0.0
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 0.05
    damping: Annotated[float, typer.Option(help="Weight decay factor; 1 is none.")] = 1.0
    steps: Annotated[int, typer.Option(help="Steps, with the start.", min=1)] = 100
    runs: Annotated[int, typer.Option(help="Number of runs to compare with.", min=0)] = 4
    paths: Annotated[int, typer.Option(help="Number of sampled paths, a power of two.")] = 4096
    seed: Annotated[int, typer.Option(help="Seed of the start and the data.", min=0)] = 0
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("decoupled-evolve")
    as_json: Json = False


@takes(EvolveOptions)
def evolve(options: EvolveOptions) -> None:
    """Predict the errors of decoupled descent by state evolution, and compare them with runs.

    The runs begin at the same starting point as the theory.
    """
    if options.mixture not in MIXTURES:
        raise ValueError(
            f"mixture {options.mixture!r} is unknown; use one of {', '.join(MIXTURES)}"
        )
    check_writable(options.out)
    from decoupled_descent.app.cli.output import console, echo_json, table
    from decoupled_descent.theory import examples

    law, objective = examples.example(options.mixture, options.dimension, options.snr)
    algorithm = dd.DecoupledDescent(options.lr, options.damping)
    theory = dd.StateEvolution(law, objective, algorithm, options.ratio, paths=options.paths)
    folder = output_folder(options.out)
    compared = examples.compare(
        theory, options.dimension, options.steps, options.runs, options.seed, options.signal
    )
    title = f"{options.mixture}, n/d = {options.ratio:g}, d = {options.dimension}"
    path = draw(folder / f"{options.mixture}.png", compared, title, objective.loss.name)
    if options.as_json:
        echo_json(to_dict(options.mixture, compared, path))
        return
    screen = console()
    names = ("step", "predicted", "train error", "test error")
    steps_shown = shown_steps(compared.evolution.test_error, compared.train, compared.test)
    table(screen, f"{title}, {counted(options.runs, 'run')}", names, steps_shown)
    screen.print(f"figure: {path}", soft_wrap=True)


def draw(path: Path, compared: LimitAndRuns, title: str, loss: str) -> Path:
    """Draw the errors and the terms that change them; return the file that was written."""
    from decoupled_descent.plotting import style as plotting

    evolution, runs = compared.evolution, len(compared.train)
    figure, axes = plotting.new_figure(columns=2)
    plotting.error_panel(
        axes[0, 0],
        compared.train if runs else evolution.test_error,
        compared.test if runs else None,
        title,
        loss,
        theory=evolution.test_error,
    )
    terms = dd.theory.taylor_terms(evolution)
    plotting.taylor_panel(axes[0, 1], terms, "terms of the change per step")
    (written,) = plotting.save_figure(figure, path)
    return written


def to_dict(mixture: str, compared: LimitAndRuns, figure: Path) -> dict[str, Any]:
    """Return the result for machines."""
    evolution = compared.evolution
    return {
        "figure": figure,
        "mixture": mixture,
        "test_error": evolution.test_error,
        "stderr": evolution.test_error_stderr,
        "alignment": evolution.alignment,
        "overlap": evolution.overlap,
        "train_error_of_runs": compared.train,
        "test_error_of_runs": compared.test,
    }


def shown_steps(predicted: Tensor, train: Tensor, test: Tensor) -> list[list[str]]:
    """Nine steps: the predicted error, and the medians over the runs, if any."""
    import numpy as np

    rows = []
    for t in sorted({round(k * (len(predicted) - 1) / 8) for k in range(9)}):
        medians = [f"{np.median(v[:, t]):.4f}" if len(v) else "–" for v in (train, test)]
        rows.append([str(t), f"{float(predicted[t]):.4f}", *medians])
    return rows
