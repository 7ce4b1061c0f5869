"""Every figure of the paper: ``reproduce("xor", "figures")``, or ``decoupled reproduce xor``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decoupled_descent import plotting
from decoupled_descent.reproduce import cifar, mnist, runtime, signalless, xor
from decoupled_descent.reproduce.experiment import Experiment, resolve
from decoupled_descent.reproduce.replications import run_all
from decoupled_descent.reproduce.summary import write_json

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        signalless.SIGNALLESS,
        signalless.SWEEP,
        xor.XOR,
        xor.DAMPING,
        mnist.MNIST,
        runtime.RUNTIME,
        cifar.CIFAR,
    )
}


@dataclass(frozen=True)
class Reproduced:
    """One figure, done.

    Attributes:
        experiment: Which.
        summary: The content of its ``summary.json``, findings included.
        files: The PNG, the SVG and the ``summary.json``.
    """

    experiment: Experiment
    summary: dict[str, Any]
    files: tuple[Path, ...]


def get_experiment(figure: str) -> Experiment:
    """Look an experiment up.

    Args:
        figure: Its name.

    Returns:
        The experiment.

    Example:
        >>> get_experiment("xor").settings["replications"]
        20
    """
    if figure not in EXPERIMENTS:
        raise ValueError(f"figure {figure!r} is unknown; use one of {', '.join(EXPERIMENTS)}, all")
    return EXPERIMENTS[figure]


def reproduce(
    figure: str,
    out: str | Path,
    quick: bool = False,
    replications: int | None = None,
    seed: int = 0,
    data: str | Path | None = None,
    jobs: int | None = None,
    progress: bool | None = None,
) -> Reproduced:
    """Compute a figure of the paper, or what is missing of it, and write it down.

    Args:
        figure: ``"signalless"``, ``"xor"``, ``"mnist"``, …: a key of ``EXPERIMENTS``.
        out: The folder to write to: ``<figure>.png``, ``<figure>.svg``, ``<figure>/summary.json``,
            and every replication, which the next call with the same settings uses again.
        quick: Fewer replications (and steps), for a look.
        replications: How many, instead of the paper's number.
        seed: Of the first replication; the others count on from it.
        data: The folder of data sets; by default the one named by ``DECOUPLED_DATA``.
        jobs: How many processes; as many as there are cores by default.
        progress: Whether to draw a progress bar; by default, only on a terminal.

    Returns:
        What was found, and the files.
    """
    experiment = get_experiment(figure)
    folder, source = Path(out) / figure, None if data is None else Path(data)
    found = experiment.prepare(source) if experiment.prepare else {}
    settings = resolve(experiment, quick, replications, found)
    curves = run_all(experiment, settings, seed, folder, source, jobs, progress)
    panels = experiment.summarise(settings, curves)
    summary = {
        "figure": figure,
        "title": experiment.title,
        "label": experiment.label,
        "settings": settings | {"seed": seed},
        "panels": panels,
        "findings": experiment.findings(settings, panels),
    }
    drawn = plotting.save_figure(
        experiment.draw(settings, curves), folder / f"{figure}.png", ("png", "svg")
    )
    write_json(folder / "summary.json", summary)
    return Reproduced(experiment, summary, (*drawn, folder / "summary.json"))
