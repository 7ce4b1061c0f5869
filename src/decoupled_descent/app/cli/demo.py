"""``decoupled demo``: gradient descent and decoupled descent on simulated data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import decoupled_descent as dd
from decoupled_descent.app.cli.options import Json, output_folder
from decoupled_descent.progress import progress_bar

if TYPE_CHECKING:
    from decoupled_descent.app.reproduce.experiment import Settings
    from decoupled_descent.app.reproduce.summary import Curves


def demo(
    n: Annotated[int, typer.Option(help="Training rows.", min=2)] = 1000,
    dimension: Annotated[int, typer.Option(help="Number of features; even.", min=2)] = 1000,
    snr: Annotated[float, typer.Option(help="Signal-to-noise ratio.")] = 4.0,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 0.05,
    steps: Annotated[int, typer.Option(help="Steps of a run, with the start.", min=1)] = 200,
    replications: Annotated[int, typer.Option(help="Number of simulated data sets.", min=1)] = 8,
    seed: Annotated[int, typer.Option(help="Seed of the first replication.", min=0)] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("decoupled-demo"),
    as_json: Json = False,
) -> None:
    """Train gradient descent and decoupled descent on XOR data and compare their errors."""
    from decoupled_descent.app.cli.output import console, echo_json, table
    from decoupled_descent.app.reproduce.summary import NAMES
    from decoupled_descent.app.reproduce.xor import XOR
    from decoupled_descent.plotting import style

    dd.mixtures.xor(dimension, snr), dd.DecoupledDescent(lr)  # check these before making a folder
    folder = output_folder(out)
    settings = {"n": n, "d": dimension, "snr": [snr], "lr": lr, "test_rows": 2 * n}
    settings |= {"steps": steps, "replications": replications}
    curves = train_replications(settings, seed)
    (path,) = style.save_figure(XOR.draw(settings, curves), folder / "xor.png")
    final = {name: _final(curves, f"snr={snr:g}/{name}") for name in ("gd", "dd")}
    if as_json:
        echo_json({"figure": path, "final": final})
        return
    screen = console()
    title = f"XOR after {steps} steps, medians over {replications} runs"
    rows = [[NAMES[name], *(f"{v:.3f}" for v in errors.values())] for name, errors in final.items()]
    table(screen, title, ["algorithm", "train error", "test error", "gap"], rows)
    screen.print(
        "gap = |train error − test error|. Decoupled descent did not use the test rows: its train "
        "error estimates the error on new data without a test set."
    )
    screen.print(f"figure: {path}", soft_wrap=True)


def train_replications(settings: Settings, seed: int) -> Curves:
    """Train GD and DD on XOR data for each replication, and predict the errors of DD by theory.

    Replication k has the seed ``seed + k``. Curves have shape (replications, steps).
    """
    import numpy as np

    from decoupled_descent.app.reproduce.experiment import PanelProblem, sample, train
    from decoupled_descent.descent.starts import draw_theta
    from decoupled_descent.rows.threads import one_thread

    (snr,), d, steps = settings["snr"], settings["d"], settings["steps"]
    mixture, replications = dd.mixtures.xor(d, snr), []
    gd, decoupled = dd.GradientDescent(settings["lr"]), dd.DecoupledDescent(settings["lr"])
    # one thread: more threads would mostly wait for each other
    with one_thread(), progress_bar(settings["replications"], "training") as advance:
        for each in range(seed, seed + settings["replications"]):
            rows, test = sample(mixture, settings, 3 * each, 3 * each + 1)
            objective = dd.Objective(dd.heads.Product(seed=3 * each + 2), "logistic")
            start = draw_theta(2, d, 3 * each + 2)
            problem = PanelProblem(f"snr={snr:g}", rows, test, objective, {"gd": gd}, start)
            predicted = problem._replace(algorithms={"dd": decoupled}, mixture=mixture)
            replications.append(train(problem, steps) | train(predicted, steps))
            advance(len(replications), f"seed {each}")
    return {name: np.stack([curves[name] for curves in replications]) for name in replications[0]}


def _final(curves: Curves, name: str) -> dict[str, float]:
    """Medians over runs of the last train error, test error and absolute gap."""
    import numpy as np

    train, test = (curves[f"{name}/{kind}"][:, -1] for kind in ("train", "test"))
    gap = np.abs(
        np.subtract(train, test, where=np.isfinite(train), out=np.full_like(train, np.inf))
    )
    return {k: float(np.median(v)) for k, v in (("train", train), ("test", test), ("gap", gap))}
