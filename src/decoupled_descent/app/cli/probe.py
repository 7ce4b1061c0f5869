"""``decoupled probe``: how good are embeddings for a task? No test set is needed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from decoupled_descent.app.cli.options import Json, Task, argument, must_exist, option

if TYPE_CHECKING:
    from decoupled_descent.app.cli.tables import TrainingTable
    from decoupled_descent.app.report.data import Contender

#: Names under which embeddings and labels are stored, in order of preference.
EMBEDDINGS = ("X", "embeddings", "features", "image_embeds", "text_embeds", "emb", "x")
LABELS = ("y", "labels", "label", "targets", "target", "classes")


Embeddings = Annotated[
    Path,
    argument(
        metavar="EMBEDDINGS",
        help=".npz with embeddings (and labels), .npy, or a table of numbers.",
    ),
]
Labels = Annotated[
    Path | None,
    option(
        metavar="FILE",
        help="Labels in the same order: .npy, .npz, or a table with one column.",
    ),
]


def probe(
    embeddings: Embeddings, labels: Labels = None, task: Task = None, as_json: Json = False
) -> None:
    """Train a head on embeddings, and estimate its error on new rows without a test set.

    The head is a linear model with a tuned ridge penalty. Each row is predicted by a head that was
    fitted without it (leave-one-out).
    """
    must_exist(embeddings, *([] if labels is None else [labels]))
    prepared = read(embeddings, labels, task)
    from decoupled_descent.app.cli.baselines import contenders
    from decoupled_descent.app.cli.train import fit

    estimator, warned = fit(prepared, {"features": "linear"})
    prepared = prepared._replace(notes=[*prepared.notes, *warned])
    show = _print_json if as_json else _show
    show(embeddings, prepared, estimator, contenders(prepared, estimator))


def _print_json(
    embeddings: Path, prepared: TrainingTable, estimator: Any, compared: list[Contender]
) -> None:
    from decoupled_descent.app.cli.output import echo_json
    from decoupled_descent.app.report.comparison import answers

    n, d = prepared.X.shape
    score = _score_name(prepared)
    echo_json({
        "embeddings": embeddings, "task": prepared.task, "rows": n, "dimensions": d,
        "estimated_test_error": estimator.estimated_test_error_,
        "estimated_test_error_stderr": estimator.estimated_test_error_stderr_,
        "estimated_test_error_interval": estimator.estimated_test_error_interval_,
        "estimated_score": getattr(estimator, score),
        "estimated_score_stderr": getattr(estimator, f"{score}stderr_"),
        "estimated_score_interval": getattr(estimator, f"{score}interval_"),
        "baselines": [one._asdict() for one in compared[1:]],
        "better_than_guessing": answers(compared)[0]._asdict(),
        **estimator.diagnostics_.to_dict(), "notes": prepared.notes,
    })  # fmt: skip


def _show(
    embeddings: Path, prepared: TrainingTable, estimator: Any, compared: list[Contender]
) -> None:
    """Print the notes, the estimates, the comparison with guessing, and the verdict."""
    from decoupled_descent.app.cli.output import compare, console, intervals, verdict
    from decoupled_descent.app.report.data import with_interval
    from decoupled_descent.app.report.text import roots

    n, d = prepared.X.shape
    screen = console()
    screen.print(f"{embeddings.name}: {prepared.task}, {n:,} rows, {d:,} dimensions")
    for note in prepared.notes:
        screen.print(f"  {note}", soft_wrap=True)
    classes = prepared.task.has_classes
    name = _score_name(prepared)
    scored = with_interval(getattr(estimator, name), getattr(estimator, f"{name}interval_"))
    error = with_interval(estimator.estimated_test_error_, estimator.estimated_test_error_interval_)
    if classes:
        intervals(screen, {"accuracy": scored, estimator._error_name: error})
    else:  # in the units of the labels
        intervals(screen, {"typical error (RMSE)": roots(error), "R²": scored})
    compare(screen, compared, linear=False)
    verdict(screen, estimator.diagnostics_.to_dict())


def _score_name(prepared: TrainingTable) -> str:
    """The attribute with the estimated accuracy or R²."""
    return prepared.task.score


def read(embeddings: Path, labels: Path | None, task: str | None) -> TrainingTable:
    """Read embeddings and labels; raise ``ValueError`` or ``OSError`` if they do not match."""
    import numpy as np
    import pandas as pd

    from decoupled_descent.app.cli.tables import FEWEST, TrainingTable
    from decoupled_descent.app.files.reading import read_arrays
    from decoupled_descent.app.files.targets import labels_of, recognise_task, values_of
    from decoupled_descent.tables.columns.rules import Columns

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
    target, labelled, notes = labels_of(pd.Series(y, index=range(1, len(y) + 1), name="label"))
    task = recognise_task(target, task)
    X = np.asarray(X[labelled], dtype=np.float64)
    return TrainingTable(X, values_of(target, task), Columns(()), task, notes)


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
    content = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "nothing"
    remedy = "; name them with --labels FILE" if ndim == 1 else ""
    raise ValueError(
        f"{path}: no {what} found (it holds {content:.300}); save them as {names[0]!r}{remedy}"
    )
