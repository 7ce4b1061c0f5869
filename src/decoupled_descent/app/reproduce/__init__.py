"""Every figure of the paper: ``reproduce("xor", "figures")``, or ``decoupled reproduce xor``."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decoupled_descent.app.reproduce import cifar, mnist, runtime, signalless, xor
from decoupled_descent.app.reproduce.experiment import Experiment
from decoupled_descent.app.reproduce.gallery import write_gallery
from decoupled_descent.app.reproduce.replications import run_all
from decoupled_descent.files import write_text
from decoupled_descent.plotting import save_figure

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
    """One figure: its experiment, the content of ``summary.json``, and the PNG, SVG and JSON."""

    experiment: Experiment
    summary: dict[str, Any]
    files: tuple[Path, ...]


def get_experiment(figure: str) -> Experiment:
    """Look an experiment up."""
    if figure not in EXPERIMENTS:
        raise ValueError(f"figure {figure!r} is unknown; use one of {', '.join(EXPERIMENTS)}, all")
    return EXPERIMENTS[figure]


def find_data(figure: str, data: str | Path | None = None) -> dict[str, Any]:
    """Find the data that a figure needs, or raise ``OSError``; return what to add to the settings.

    For ``"all"``, only the folder must exist: figures without data are left out later.
    """
    source = None if data is None else Path(data)
    if source is not None and not source.exists():
        raise FileNotFoundError(f"data folder {source} does not exist")
    if figure == "all":
        return {}
    prepare = get_experiment(figure).prepare
    return prepare(source) if prepare else {}


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
    """Compute a figure of the paper, or the replications that are missing, and write the files.

    Args:
        figure: ``"signalless"``, ``"xor"``, ``"mnist"``, …: a key of ``EXPERIMENTS``.
        out: The folder in which to make a folder of the figure's name with ``<figure>.png``,
            ``<figure>.svg``, ``summary.json`` and every replication; the next call with the same
            settings uses the replications that are there.
        quick: Fewer runs; for ``"xor"`` smaller and shorter ones.
        replications: The number of replications, instead of the paper's.
        seed: Of the first replication; the others follow it.
        data: The folder of data sets; by default the one named by ``DECOUPLED_DATA``.
        jobs: How many processes; as many as there are cores by default.
        progress: Whether to draw a progress bar; by default, only on a terminal.
    """
    experiment = get_experiment(figure)
    settings = experiment.resolve(quick, replications, find_data(figure, data))
    folder, source = Path(out) / figure, None if data is None else Path(data)
    folder.mkdir(parents=True, exist_ok=True)
    curves = run_all(experiment, settings, seed, folder, source, jobs, progress)
    panels = experiment.summarise(curves)
    summary = {
        "figure": figure,
        "title": experiment.title,
        "label": experiment.label,
        "settings": settings | {"seed": seed},
        "panels": panels,
        "findings": experiment.findings(settings, panels),
    }
    drawn = experiment.draw(settings, curves)
    pictures = save_figure(drawn, folder / f"{figure}.png", ("png", "svg"))
    text = json.dumps(summary, indent=1, allow_nan=False)
    write_text(folder / "summary.json", f"{text}\n")
    return Reproduced(experiment, summary, (*pictures, folder / "summary.json"))


def reproduce_all(
    out: str | Path,
    data: str | Path | None = None,
    report: Callable[[Reproduced], None] | None = None,
    **options: Any,
) -> tuple[list[Reproduced], dict[str, str]]:
    """Compute every figure whose data can be found, and write ``index.html`` with all of them.

    ``report`` is called with every figure as it is done. Returns the figures, and the reasons for
    those that were left out.
    """
    find_data("all", data)
    skipped: dict[str, str] = {}
    for name in EXPERIMENTS:
        try:
            find_data(name, data)
        except OSError as error:
            skipped[name] = str(error)
    done: list[Reproduced] = []
    for name in EXPERIMENTS:
        if name not in skipped:
            done.append(reproduce(name, out, data=data, **options))
            write_gallery(Path(out), done, skipped)
            if report:
                report(done[-1])
    return done, skipped
