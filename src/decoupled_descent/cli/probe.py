"""``decoupled probe``: how good are embeddings for a task, with nothing held out?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from decoupled_descent.cli.options import Json, Task, must_exist

if TYPE_CHECKING:
    from decoupled_descent.cli.tables import Prepared

#: Names under which embeddings and labels are stored, in order of preference.
EMBEDDINGS = ("X", "embeddings", "features", "image_embeds", "text_embeds", "emb", "x")
LABELS = ("y", "labels", "label", "targets", "target", "classes")


def probe(
    embeddings: Annotated[
        Path,
        typer.Argument(
            metavar="EMBEDDINGS",
            help=".npz with embeddings (and labels), .npy, or a table of numbers.",
            show_default=False,
        ),
    ],
    labels: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Labels in the same order: .npy, .npz, or a table with one column.",
            show_default=False,
        ),
    ] = None,
    task: Task = None,
    as_json: Json = False,
) -> None:
    """Train a head on embeddings, and say how it will do on new rows, with nothing held out.

    The head is a linear model whose penalty is tuned; each row is judged by the head that would
    have come of all others.
    """
    must_exist(embeddings, *([] if labels is None else [labels]))
    prepared = read(embeddings, labels, task)
    from decoupled_descent.cli.baselines import contenders
    from decoupled_descent.cli.output import compare, console, echo_json, intervals, verdict
    from decoupled_descent.cli.train import fit
    from decoupled_descent.estimators.parts import SCORES
    from decoupled_descent.report.comparison import answers
    from decoupled_descent.report.text import interval

    estimator, warned = fit(prepared, {"method": "newton", "features": "linear"})
    found = contenders(prepared, estimator)
    diagnosis = estimator.diagnostics_.to_dict()
    error = (estimator.estimated_test_error_, estimator.estimated_test_error_stderr_)
    score = getattr(estimator, SCORES[prepared.task])
    score_stderr = getattr(estimator, f"{SCORES[prepared.task]}stderr_")
    n, d = prepared.X.shape
    if as_json:
        echo_json({
            "embeddings": embeddings, "task": prepared.task, "rows": n, "dimensions": d,
            "estimated_test_error": error[0], "estimated_test_error_stderr": error[1],
            "estimated_score": score, "estimated_score_stderr": score_stderr,
            "baselines": [one._asdict() for one in found[1:]],
            "better_than_guessing": answers(found)[0]._asdict(),
            **diagnosis, "notes": [*prepared.notes, *warned],
        })  # fmt: skip
        return
    screen = console()
    screen.print(f"{embeddings.name}: {prepared.task}, {n:,} rows, {d:,} dimensions")
    for note in (*prepared.notes, *warned):
        screen.print(f"  {note}", soft_wrap=True)
    classes = prepared.task == "classification"
    name = "accuracy" if classes else "R²"
    low = 0.0 if classes else float("-inf")
    scored = interval(float(score), float(score_stderr), low, 1.0)
    intervals(screen, {name: scored, estimator._error_name: interval(*error)})
    compare(screen, found, linear=False)
    verdict(screen, diagnosis)


def read(embeddings: Path, labels: Path | None, task: str | None) -> Prepared:
    """Read embeddings and labels; raise ``ValueError`` or ``OSError`` where they do not fit."""
    import numpy as np
    import pandas as pd

    from decoupled_descent.cli.tables import FEWEST, Prepared, _classes
    from decoupled_descent.tables.columns import Columns
    from decoupled_descent.tables.reading import read_arrays
    from decoupled_descent.tables.targets import recognise_task, split_target

    arrays = read_arrays(embeddings)
    X = _chosen(embeddings, arrays, EMBEDDINGS, 2, "embeddings")
    beside = read_arrays(labels) if labels is not None else arrays
    y = _chosen(labels or embeddings, beside, LABELS, 1, "labels")
    if X.dtype.kind not in "fiu" or not np.isfinite(X).all():
        raise ValueError(f"{embeddings}: embeddings must be finite numbers, not {X.dtype}")
    if len(y) != len(X):
        where = labels or embeddings
        raise ValueError(f"{where}: {len(y):,} labels for {len(X):,} rows of embeddings")
    if len(X) < FEWEST:
        raise ValueError(f"{embeddings}: {len(X)} rows are too few; at least {FEWEST} are needed")
    frame = pd.DataFrame({"label": pd.Series(y), "x": np.arange(len(y))})
    frame.attrs = {"notes": []}
    features, target = split_target(frame, "label")
    found = recognise_task(target, task)
    X = np.asarray(X[features["x"].to_numpy()], dtype=np.float64)
    values = _classes(target) if found == "classification" else target.to_numpy(dtype=np.float64)
    return Prepared(X, values, Columns(()), found, list(features.attrs["notes"]))


def _chosen(
    path: Path, arrays: dict[str, Any], names: tuple[str, ...], ndim: int, what: str
) -> Any:
    """Pick the array with a usual name and the right number of dimensions, or the only one."""
    import numpy as np

    shaped = {
        name: array[:, 0] if ndim == 1 and array.ndim == 2 and array.shape[1] == 1 else array
        for name, array in arrays.items()
    }
    fitting = {name: array for name, array in shaped.items() if array.ndim == ndim}
    for name in names:
        if name in fitting:
            return np.asarray(fitting[name])
    if len(fitting) == 1:
        return np.asarray(next(iter(fitting.values())))
    held = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "nothing"
    remedy = "; name them with --labels FILE" if ndim == 1 else ""
    raise ValueError(
        f"{path}: no {what} found (it holds {held:.300}); save them as {names[0]!r}{remedy}"
    )
