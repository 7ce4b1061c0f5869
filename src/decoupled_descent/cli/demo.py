"""``decoupled demo``: gradient descent and decoupled descent on simulated data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import decoupled_descent as dd
from decoupled_descent.cli.options import Json, output_folder
from decoupled_descent.progress import progress_bar

if TYPE_CHECKING:
    from torch import Tensor

NAMES = {"gd": "gradient descent", "dd": "decoupled descent"}


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
    from decoupled_descent.cli.output import console, echo_json
    from decoupled_descent.plotting import style as plotting
    from decoupled_descent.reproduce.replications import one_thread

    dd.mixtures.xor(dimension, snr), dd.DecoupledDescent(lr)  # refuse these before making a folder
    folder = output_folder(out)
    with one_thread():  # more threads would spend their time waiting for each other
        curves = train_replications(n, dimension, snr, lr, steps, replications, seed)
        length = curves["dd"]["train"].shape[1]
        theory = predict_replications(dimension, n / dimension, snr, lr, length, replications, seed)
    figure, axes = plotting.new_figure(columns=2, sharey=True)
    for ax, (name, errors) in zip(axes[0], curves.items(), strict=True):
        predicted = theory if name == "dd" else None
        plotting.error_panel(
            ax, errors["train"], errors["test"], NAMES[name], "cross-entropy", predicted
        )
    figure.suptitle(f"XOR, signal-to-noise {snr:g}, n = {n}, d = {dimension}, {replications} runs")
    (path,) = plotting.save_figure(figure, folder / "xor.png")
    final = {name: _final(errors) for name, errors in curves.items()}
    if as_json:
        echo_json({"figure": path, "final": final})
        return
    screen = console()
    screen.print(_table(f"XOR after {steps} steps, medians over {replications} runs", final))
    screen.print(
        "gap = |train error − test error|. Decoupled descent never saw the test rows: its\n"
        "train error is an estimate of the error on new data, with nothing held out."
    )
    screen.print(f"figure: {path}", soft_wrap=True)


def train_replications(
    n: int, dimension: int, snr: float, lr: float, steps: int, replications: int, seed: int
) -> dict[str, dict[str, Tensor]]:
    """Train GD and DD on fresh XOR data, replication after replication.

    The test sets have 2n rows; the seeds of the replications count on from ``seed``. Returns the
    errors by algorithm (``"gd"``, ``"dd"``) and kind (``"train"``, ``"test"``), shape
    (replications, steps), cut to the shortest run where one diverged.
    """
    import torch

    algorithms: dict[str, Any] = {"gd": dd.GradientDescent(lr), "dd": dd.DecoupledDescent(lr)}
    runs: dict[str, list[dd.Run]] = {name: [] for name in algorithms}
    mixture = dd.mixtures.xor(dimension, snr)
    with progress_bar(2 * replications, "training") as advance:
        for r in range(seed, seed + replications):
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
    curves = {}
    for name, several in runs.items():
        length = min(len(run.train_error) for run in several)
        curves[name] = {
            "train": torch.tensor([run.history.train_error[:length] for run in several]),
            "test": torch.tensor([run.history.test_error[:length] for run in several]),
        }
    return curves


def predict_replications(
    dimension: int, ratio: float, snr: float, lr: float, steps: int, replications: int, seed: int
) -> Tensor:
    """Predict the decoupled runs of :func:`train_replications` from their starting points.

    Returns the median over runs of the test error in the limit, shape (steps,).
    """
    import torch

    from decoupled_descent.descent.starts import draw_theta

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


def _final(errors: dict[str, Tensor]) -> dict[str, float]:
    """Medians over runs of the last train error, test error and absolute gap."""
    train, test = errors["train"][:, -1], errors["test"][:, -1]
    values = {"train": train, "test": test, "gap": (train - test).abs()}
    return {name: float(value.quantile(0.5)) for name, value in values.items()}


def _table(title: str, final: dict[str, dict[str, float]]) -> Any:
    from rich.table import Table

    table = Table(title=title)
    table.add_column("algorithm")
    for column in ("train error", "test error", "gap"):
        table.add_column(column, justify="right")
    for name, numbers in final.items():
        table.add_row(NAMES[name], *(f"{numbers[k]:.3f}" for k in ("train", "test", "gap")))
    return table
