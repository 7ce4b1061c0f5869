"""From curves to ``summary.json``: quantiles over replications, gaps, and sentences about them."""

from __future__ import annotations

import math
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decoupled_descent.checks import percent
from decoupled_descent.plotting import style

#: Numbers by ``"panel/algorithm/kind"``: of one replication (T,), of several (replications, T).
Curves = dict[str, NDArray[np.float64]]

#: One panel of ``summary.json``.
Panel = dict[str, Any]

NAMES = {
    "gd": "gradient descent",
    "dd": "decoupled descent",
    "orthogonal": "orthogonal decoupled descent",
}


#: How settings and panels are written in titles and findings.
WORDS = {"n": "n", "d": "d", "lr": "η", "snr": "λ", "width": "L", "damping": "η₀"}
WORDS |= {"vanilla": "Vanilla", "zca": "ZCA (train)", "joint": "Joint ZCA"}
WORDS |= {"orthogonal": "Vanilla again", "signalless": ""}


def written(panel: str) -> str:
    """A panel's name for readers.

    Example:
        >>> written("snr=4"), written("joint")
        ('λ = 4', 'Joint ZCA')
    """
    name, _, value = panel.partition("=")
    return f"{WORDS.get(name, name)} = {value}" if value else WORDS.get(name, name)


def quantiles(values: ArrayLike) -> dict[str, Any]:
    """Median, quartiles and extremes over replications (axis 0), None where they are infinite.

    Example:
        >>> quantiles([[1.0], [2.0], [4.0]])["median"]
        [2.0]
    """
    levels = {"median": 0.5, "q25": 0.25, "q75": 0.75, "min": 0.0, "max": 1.0}
    computed = style.quantiles(values, list(levels.values()))
    plain = np.where(np.isfinite(computed), computed.astype(object), np.array(None)).tolist()
    return dict(zip(levels, plain, strict=True))


def gap(train: ArrayLike, test: ArrayLike) -> float | None:
    """Mean over steps of the median over runs of |train error − test error|.

    The errors have shape (replications, T). The median is used because a single run that diverges
    would dominate a mean. Steps at which most runs have diverged are left out; None if no step is
    left.

    Example:
        >>> gap([[1.0, 2.0], [1.0, 4.0], [9.0, np.inf]], [[1.0, 1.0], [2.0, 2.0], [0.0, np.inf]])
        1.5
    """
    train_error, test_error = np.asarray(train, dtype=float), np.asarray(test, dtype=float)
    finite = np.isfinite(train_error) & np.isfinite(test_error)
    differences = np.full(finite.shape, np.inf)
    differences[finite] = np.abs(train_error[finite] - test_error[finite])
    medians = np.median(differences, axis=0)
    medians = medians[np.isfinite(medians)]
    return float(medians.mean()) if len(medians) else None


def summarise_errors(curves: Curves) -> list[Panel]:
    """Summarise error curves, shape (replications, T), panel by panel.

    ``state_evolution`` is the median of the predictions made from every run's own start, and empty
    where there are none; ``state_evolution_train`` that of a train error with its own limit.
    """
    panels: dict[str, Panel] = {}
    for name in curves:
        panel, algorithm, kind = name.split("/")
        if kind != "train":
            continue
        train, test = curves[name], curves[f"{panel}/{algorithm}/test"]
        theory = curves.get(f"{panel}/{algorithm}/state_evolution")
        curve = {
            "algorithm": algorithm,
            "train": quantiles(train),
            "test": quantiles(test),
            "mean_absolute_gap": gap(train, test),
            "diverged": int(np.isinf(train).any(axis=1).sum()),
            "state_evolution": [] if theory is None else quantiles(theory)["median"],
        }
        own = curves.get(f"{panel}/{algorithm}/state_evolution_train")
        if own is not None:
            curve["state_evolution_train"] = quantiles(own)["median"]
        if theory is not None:
            curve["distance_to_theory"] = gap(np.median(test, 0)[None], np.median(theory, 0)[None])
        panels.setdefault(panel, {"name": panel, "curves": []})["curves"].append(curve)
    return list(panels.values())


def curve(panel: Panel, algorithm: str) -> dict[str, Any]:
    """The summary of one algorithm in one panel."""
    return next(c for c in panel["curves"] if c["algorithm"] == algorithm)


def medians(panel: Panel, algorithm: str, kind: str) -> NDArray[np.float64]:
    """The median error at every step; infinite where most runs have diverged."""
    values = np.array(curve(panel, algorithm)[kind]["median"], dtype=float)
    return np.where(np.isnan(values), np.inf, values)


def apart(panel: Panel, algorithm: str) -> NDArray[np.float64]:
    """|Median train error − median test error| at every step; infinite where most runs diverged."""
    train, test = (medians(panel, algorithm, kind) for kind in ("train", "test"))
    finite = np.isfinite(train) & np.isfinite(test)
    return np.abs(np.subtract(train, test, out=np.full_like(train, np.inf), where=finite))


def last(panel: Panel, algorithm: str, kind: str) -> float:
    """The median error of the last iterate; infinite if most runs diverged."""
    return float(medians(panel, algorithm, kind)[-1])


def lowest(panel: Panel, algorithm: str, kind: str) -> tuple[float, int]:
    """The smallest median error over the steps, and its step."""
    errors = medians(panel, algorithm, kind)
    return float(errors.min()), int(errors.argmin())


def measure(panel: Panel, algorithm: str, name: str = "mean_absolute_gap") -> float:
    """``mean_absolute_gap`` or ``distance_to_theory``; infinite if all steps had to be left out."""
    value = curve(panel, algorithm)[name]
    return math.inf if value is None else float(value)


def reached(panel: Panel) -> str:
    """The last errors of every algorithm of a panel and the gap between train and test error."""
    parts = []
    for one in panel["curves"]:
        name = one["algorithm"]
        best, step = lowest(panel, name, "test")
        part = (
            f"{NAMES[name]} ends with train error {last(panel, name, 'train'):.3g} and test error "
            f"{last(panel, name, 'test'):.3g} (lowest {best:.3g}, at step {step}; mean absolute "
            f"gap {measure(panel, name):.3g}"
        )
        if one["state_evolution"]:
            distance = measure(panel, name, "distance_to_theory")
            part += f"; state evolution is within {distance:.3g} of the test error on average"
        parts.append(f"{part})")
    sentence = "; ".join(parts) + "."
    heading = written(panel["name"])
    return f"{heading}: {sentence}" if heading else sentence[0].upper() + sentence[1:]


def selected(curves: Curves, kind: str) -> list[str]:
    """For every run, the panel with the lowest last train (or test) error: ``"c=0.5"``."""
    ends = {k.split("/")[0]: v[:, -1] for k, v in curves.items() if k.endswith(f"/{kind}")}
    return [list(ends)[winner] for winner in np.stack(list(ends.values())).argmin(axis=0)]


def selection(panels: list[Panel]) -> str:
    """Say which panel the train error selects in most runs, and whether the test error agrees."""
    choices = []
    for kind in ("train", "test"):
        chosen = max(panels, key=itemgetter(f"selected_by_{kind}"))
        share = percent(chosen[f"selected_by_{kind}"], decimals=0)
        choices.append(f"the {kind} error selects {written(chosen['name'])} in {share} of the runs")
    return f"At the last step {choices[0]}, and {choices[1]}."


def diverged(panels: list[Panel]) -> list[str]:
    """Say which runs diverged, if any did."""
    counts = [
        f"{c['diverged']} of {NAMES[c['algorithm']]} in panel {p['name']}"
        for p in panels
        for c in p["curves"]
        if c["diverged"]
    ]
    return [f"Runs that diverged: {', '.join(counts)}."] if counts else []
