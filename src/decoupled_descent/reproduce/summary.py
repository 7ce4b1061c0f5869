"""From curves to ``summary.json``: quantiles over replications, gaps, and files that are whole."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from decoupled_descent.plotting import style as plotting
from decoupled_descent.reproduce.experiment import Curves

NAMES = {
    "gd": "gradient descent",
    "dd": "decoupled descent",
    "orthogonal": "orthogonal decoupled descent",
}


def quantiles(values: ArrayLike) -> dict[str, Any]:
    """Summarise replications entry by entry.

    Args:
        values: Shape (replications, …).

    Returns:
        Median, quartiles and extremes over the replications, as nested lists; None where they are
        infinite.

    Example:
        >>> quantiles([[1.0], [2.0], [4.0]])["median"]
        [2.0]
    """
    levels = {"median": 0.5, "q25": 0.25, "q75": 0.75, "min": 0.0, "max": 1.0}
    found = plotting.quantiles(values, list(levels.values()))
    return {name: _plain(values) for name, values in zip(levels, found, strict=True)}


def _plain(values: Any) -> Any:
    """Floats and nested lists of floats that JSON can hold: what is not finite becomes None."""
    if isinstance(values, np.ndarray) and values.ndim:
        return [_plain(value) for value in values]
    number = float(values)
    return number if math.isfinite(number) else None


def gap(train: ArrayLike, test: ArrayLike) -> float | None:
    """Mean over steps of the median over runs of |train error − test error|.

    The median, since one run that explodes would be all that a mean shows; steps at which most runs
    have diverged are left out.

    Args:
        train: Train errors, shape (replications, T), infinite where a run has diverged.
        test: Test errors of the same shape.

    Returns:
        The gap, or None when there is no step to average over.

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


def summarise_errors(curves: Curves) -> list[dict[str, Any]]:
    """Summarise error curves panel by panel.

    Args:
        curves: By ``"panel/algorithm/kind"``, kind being train, test or state_evolution, each of
            shape (replications, T).

    Returns:
        The panels of ``summary.json``. ``state_evolution`` is the median of the predictions made
        from every run's own start, and empty where there is none.
    """
    panels: dict[str, dict[str, Any]] = {}
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
        if theory is not None:
            curve["distance_to_theory"] = gap(np.median(test, 0)[None], np.median(theory, 0)[None])
        panels.setdefault(panel, {"name": panel, "curves": []})["curves"].append(curve)
    return list(panels.values())


def curve(panel: dict[str, Any], algorithm: str) -> dict[str, Any]:
    """The summary of one algorithm in one panel."""
    return next(c for c in panel["curves"] if c["algorithm"] == algorithm)


def last(panel: dict[str, Any], algorithm: str, kind: str) -> float:
    """The median error of the last iterate; infinite when most runs diverged."""
    value = curve(panel, algorithm)[kind]["median"][-1]
    return math.inf if value is None else float(value)


def measure(panel: dict[str, Any], algorithm: str, name: str) -> float:
    """One number about an algorithm in a panel; infinite when its runs diverged from the start.

    Args:
        panel: Of the summary.
        algorithm: Which.
        name: ``"mean_absolute_gap"`` or ``"distance_to_theory"``.

    Returns:
        The number.
    """
    value = curve(panel, algorithm)[name]
    return math.inf if value is None else float(value)


def lowest(panel: dict[str, Any], algorithm: str, kind: str) -> tuple[float, int]:
    """The smallest median error over the steps, and its step."""
    medians = curve(panel, algorithm)[kind]["median"]
    errors = [math.inf if value is None else value for value in medians]
    step = int(np.argmin(errors))
    return errors[step], step


def divergences(panels: list[dict[str, Any]]) -> str:
    """One sentence about runs that diverged, empty when none did."""
    found = [
        f"{c['diverged']} of {NAMES.get(c['algorithm'], c['algorithm'])} in panel {p['name']}"
        for p in panels
        for c in p["curves"]
        if c["diverged"]
    ]
    return f" Runs that diverged: {', '.join(found)}." if found else ""


def write_json(path: Path, content: Any) -> None:
    """Write JSON to a temporary file and rename it."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
