"""``decoupled demo`` and ``decoupled evolve``: the method on made-up data, and its theory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table

import decoupled_descent as dd
from decoupled_descent.cli.output import Json, finite, output_folder
from decoupled_descent.descent.common import Algorithm, draw_theta
from decoupled_descent.plotting import style as plotting
from decoupled_descent.progress import progress_bar
from decoupled_descent.reproduce.replications import one_thread


def train_replications(
    n: int, dimension: int, snr: float, lr: float, steps: int, replications: int, seed: int
) -> dict[str, dict[str, torch.Tensor]]:
    """Train GD and DD on fresh XOR data, replication after replication.

    Args:
        n: Rows of the training set; the test set has twice as many.
        dimension: d.
        snr: λ.
        lr: η.
        steps: Iterates per run.
        replications: How often.
        seed: Of the first replication; the others count on from it.

    Returns:
        By algorithm (``"gd"``, ``"dd"``) and kind (``"train"``, ``"test"``): errors, shape
        (replications, steps), cut to the shortest run where one diverged.
    """
    algorithms: dict[str, Algorithm] = {"gd": dd.GradientDescent(lr), "dd": dd.DecoupledDescent(lr)}
    runs: dict[str, list[dd.Run]] = {name: [] for name in algorithms}
    with progress_bar(2 * replications, "training") as advance:
        for r in range(seed, seed + replications):
            mixture = dd.mixtures.xor(dimension, snr)
            X, y = mixture.sample(n, seed=3 * r)
            test = mixture.sample(2 * n, seed=3 * r + 1)
            objective = dd.Objective(dd.heads.Product(seed=3 * r + 2), "logistic")
            for name, algorithm in algorithms.items():
                run = dd.fit(
                    X, y, objective, algorithm, steps, test=test, seed=3 * r + 2, progress=False
                )
                if run.stop_reason is dd.StopReason.INTERRUPTED:
                    raise KeyboardInterrupt
                runs[name].append(run)
                advance(sum(map(len, runs.values())), f"{name}, seed {r}")
    curves: dict[str, dict[str, torch.Tensor]] = {}
    for name, several in runs.items():
        length = min(len(run.train_error) for run in several)
        curves[name] = {
            "train": torch.tensor([run.history.train_error[:length] for run in several]),
            "test": torch.tensor([run.history.test_error[:length] for run in several]),
        }
    return curves


def predict_replications(
    dimension: int, ratio: float, snr: float, lr: float, steps: int, replications: int, seed: int
) -> torch.Tensor:
    """Predict the decoupled runs of :func:`train_replications` from their starting points.

    Args:
        dimension: d.
        ratio: n/d.
        snr: λ.
        lr: η.
        steps: Iterates per run.
        replications: How many runs.
        seed: Of the first replication.

    Returns:
        The median over runs of the test error in the limit, shape (steps,).
    """
    mixture, algorithm = dd.mixtures.xor(dimension, snr), dd.DecoupledDescent(lr)
    curves = []
    with progress_bar(replications, "theory") as advance:
        for r in range(seed, seed + replications):
            objective = dd.Objective(dd.heads.Product(seed=3 * r + 2), "logistic")
            start = draw_theta(2, dimension, 3 * r + 2)
            theory = dd.StateEvolution(
                mixture, objective, algorithm, ratio, paths=2048, randomisations=2
            )
            curves.append(theory.run(steps, theta=start, progress=False).test_error)
            advance(len(curves), f"seed {r}")
    return torch.stack(curves).quantile(0.5, 0)


def demo(
    n: Annotated[int, typer.Option(help="Training rows.", min=2)] = 1000,
    dimension: Annotated[int, typer.Option(help="Features; even.", min=2)] = 1000,
    snr: Annotated[float, typer.Option(help="Signal-to-noise ratio.")] = 4.0,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 0.05,
    steps: Annotated[int, typer.Option(help="Iterates per run.", min=1)] = 200,
    replications: Annotated[int, typer.Option(help="Data sets to train on.", min=1)] = 8,
    seed: Annotated[int, typer.Option(help="Of the first replication.", min=0)] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("decoupled-demo"),
    as_json: Json = False,
) -> None:
    """Train gradient descent and decoupled descent on XOR data and compare their errors."""
    dd.mixtures.xor(dimension, snr), dd.DecoupledDescent(lr)  # refuse these before making a folder
    folder = output_folder(out)
    with one_thread():  # more would wait for each other longer than they help
        curves = train_replications(n, dimension, snr, lr, steps, replications, seed)
        length = curves["dd"]["train"].shape[1]
        theory = predict_replications(dimension, n / dimension, snr, lr, length, replications, seed)
    names = {"gd": "gradient descent", "dd": "decoupled descent"}
    figure, axes = plotting.new_figure(columns=2, sharey=True)
    for ax, (name, errors) in zip(axes[0], curves.items(), strict=True):
        plotting.error_panel(
            ax,
            errors["train"],
            errors["test"],
            names[name],
            "cross-entropy",
            theory if name == "dd" else None,
        )
    figure.suptitle(f"XOR, signal-to-noise {snr:g}, n = {n}, d = {dimension}, {replications} runs")
    (path,) = plotting.save_figure(figure, folder / "xor.png")
    summary = {name: _final(errors) for name, errors in curves.items()}
    if as_json:
        typer.echo(json.dumps({"figure": str(path), "final": summary}))
        return
    table = Table(title=f"XOR after {steps} steps, medians over {replications} runs")
    table.add_column("algorithm")
    for column in ("train error", "test error", "gap"):
        table.add_column(column, justify="right")
    for name, numbers in summary.items():
        table.add_row(names[name], *(f"{numbers[k]:.3f}" for k in ("train", "test", "gap")))
    console = Console(markup=False)
    console.print(table)
    console.print(
        "gap = |train error − test error|. Decoupled descent never saw the test rows: its\n"
        "train error is an estimate of the error on new data, with nothing held out."
    )
    console.print(f"figure: {path}", soft_wrap=True)


def _final(errors: dict[str, torch.Tensor]) -> dict[str, float]:
    """Medians over runs of the last train error, test error and absolute gap."""
    train, test = errors["train"][:, -1], errors["test"][:, -1]
    values: dict[str, Any] = {"train": train, "test": test, "gap": (train - test).abs()}
    return {name: float(value.quantile(0.5)) for name, value in values.items()}


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
    plotting.taylor_panel(axes[0, 1], dd.taylor_terms(evolution), "what drives it")
    (path,) = plotting.save_figure(figure, folder / f"{mixture}.png")
    if as_json:
        curves = {"test_error": evolution.test_error, "stderr": evolution.test_error_stderr}
        curves |= {"alignment": evolution.alignment, "overlap": evolution.overlap}
        lists = {name: values.tolist() for name, values in curves.items()}
        lists["train_error_of_runs"] = [[finite(v) for v in row] for row in train.tolist()]
        typer.echo(json.dumps({"figure": str(path), "mixture": mixture} | lists))
        return
    console = Console(markup=False)
    console.print(_evolution_table(f"{title}, {runs} runs", evolution.test_error, train, test))
    console.print(f"figure: {path}", soft_wrap=True)


def _evolution_table(
    title: str, predicted: torch.Tensor, train: torch.Tensor, test: torch.Tensor
) -> Table:
    """Nine steps of a prediction, and medians over runs where there are some."""
    table = Table(title=title)
    for column in ("step", "predicted", "train error", "test error"):
        table.add_column(column, justify="right")
    for t in sorted({round(k * (len(predicted) - 1) / 8) for k in range(9)}):
        cells = [f"{float(v[:, t].median()):.4f}" if len(v) else "–" for v in (train, test)]
        table.add_row(str(t), f"{float(predicted[t]):.4f}", *cells)
    return table
