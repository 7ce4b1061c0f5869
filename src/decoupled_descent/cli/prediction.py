"""``decoupled predict``: apply a saved model to a table."""

from __future__ import annotations

import io
import math
import os
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import typer
from numpy.typing import NDArray
from rich.console import Console

from decoupled_descent.cli.diagnosis import Data
from decoupled_descent.cli.output import Json, console, echo_json, intervals
from decoupled_descent.data.tables import read_table
from decoupled_descent.data.targets import split_target
from decoupled_descent.data.values import listed, numbers_of
from decoupled_descent.model_io import MODEL_FILE, SavedModel, load_model
from decoupled_descent.report.text import interval

#: From how many standard errors on a difference is called more than chance.
UNLIKELY = 3.0


class Actual(NamedTuple):
    """The error on rows whose labels are known.

    Attributes:
        rows: How many there are.
        error: Mean log loss or squared error.
        stderr: Its standard error.
        score: Accuracy or R².
        remark: What is odd about the labels, or nothing.
    """

    rows: int
    error: float
    stderr: float
    score: float
    remark: str = ""


def predict(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="Folder that train wrote, or the model file in it.",
            show_default=False,
        ),
    ],
    data: Data,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="CSV file to write, or write anew; by default, print."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Predict the rows of a table with a saved model.

    Columns may come in any order; those that the model does not know are ignored. If the target is
    among them, the actual error is compared with the estimate made at training.
    """
    if out is not None:
        check_file(out, (data, model, model / MODEL_FILE))
    saved, frame = load_model(model), read_table(data)
    notes = [*frame.attrs["notes"], *_ignored(saved, frame)]
    try:
        rows = matrix(saved, frame)
    except ValueError as error:
        raise ValueError(f"{data}: {error}") from error
    found = predictions(saved, rows)
    actual = None
    if saved.target is not None and saved.target in frame.columns:
        try:
            actual = compare(saved, frame, rows)
            notes += [actual.remark] if actual.remark else []
        except ValueError as error:
            notes.append(f"no actual error: {error}")
    if out is not None:
        write(out, found)
    if as_json:
        echo_json(_to_dict(saved, found, actual, notes, out))
        return
    screen = console(stderr=True)
    for note in notes:
        screen.print(f"note: {note}", soft_wrap=True)
    if out is None:
        typer.echo(found.to_csv(index=False, lineterminator="\n"), nl=False)
    else:
        screen = console()
        screen.print(f"{len(found):,} predictions: {out}", soft_wrap=True)
    if actual is not None:
        show(screen, saved, actual)


def check_file(out: Path, inputs: tuple[Path, ...]) -> None:
    """Raise ``OSError`` if a file cannot be written, or is one of those that are read."""
    if out.is_dir():
        raise OSError(f"--out {out}: is a folder; name a file")
    if out.exists() and any(one.exists() and out.samefile(one) for one in inputs):
        raise OSError(f"--out {out}: is read by this command; name another file")
    if not out.parent.is_dir() or not os.access(out.parent, os.W_OK):
        raise OSError(f"--out {out}: cannot write there; name a file in a folder that exists")


def write(out: Path, found: pd.DataFrame) -> None:
    """Write predictions to a temporary file, and rename it."""
    partial = out.with_name(f".{out.name}.{os.getpid()}.partial")
    text = io.StringIO()
    found.to_csv(text, index=False, lineterminator="\n")
    try:
        try:
            partial.write_text(text.getvalue(), encoding="utf-8", newline="")
            partial.replace(out)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(f"--out {out}: cannot write there ({error.strerror or error})") from error


def _ignored(saved: SavedModel, frame: pd.DataFrame) -> list[str]:
    extra = [] if saved.columns is None else saved.columns.extra(frame)
    extra = [name for name in extra if name != saved.target]
    return [f"ignored, as the model does not know them: {listed(extra)}"] if extra else []


def matrix(saved: SavedModel, frame: pd.DataFrame) -> Any:
    """Make the estimator's input of a table.

    Args:
        saved: The model.
        frame: The table.

    Returns:
        A matrix; a table of numbers if the model was trained in Python on one.

    Raises:
        ValueError: If columns are missing or values are not what they were in training.
    """
    if saved.columns is not None:
        return saved.columns.apply(frame)
    names = getattr(saved.estimator, "feature_names_in_", None)
    known = [name for name in frame.columns if name != saved.target] if names is None else names
    absent = [name for name in known if name not in frame.columns]
    if absent:
        raise ValueError(f"the table lacks {listed(absent)}, which the model was trained with")
    if len(known) != saved.estimator.n_features_in_:
        raise ValueError(
            f"the table has {len(known)} columns, and the model was trained with "
            f"{saved.estimator.n_features_in_}"
        )
    rows = np.stack([numbers_of(frame[name]) for name in known], 1)
    if np.isnan(rows).any():
        column = known[int(np.isnan(rows).any(0).argmax())]
        raise ValueError(f"column {column!r} has missing values; the model was trained without any")
    return rows if names is None else pd.DataFrame(rows, columns=list(known))


def predictions(saved: SavedModel, rows: Any) -> pd.DataFrame:
    """Predict: labels or numbers, and for classes a column of probabilities for each."""
    estimator: Any = saved.estimator
    found = pd.DataFrame({"prediction": estimator.predict(rows)})
    if saved.task == "classification":
        shares = estimator.predict_proba(rows)
        for k, label in enumerate(estimator.classes_.tolist()):
            found[f"probability_{label}"] = shares[:, k]
    return found


def compare(saved: SavedModel, frame: pd.DataFrame, rows: Any) -> Actual:
    """Compute the error on the rows that have a label.

    Args:
        saved: The model.
        frame: The table, with the target.
        rows: Its matrix.

    Returns:
        The error.

    Raises:
        ValueError: If no row has a label that can be used.
    """
    labels = split_target(frame, str(saved.target))[1]
    kept = frame.index.isin(labels.index)
    chosen = rows[kept]
    estimator: Any = saved.estimator
    if saved.task == "regression":
        if labels.dtype.kind not in "biuf":
            raise ValueError(f"{saved.target!r} holds text such as {labels.iloc[0]!r:.60}")
        truth = labels.to_numpy(dtype=np.float64)
        losses = (estimator.predict(chosen) - truth) ** 2
        spread = float(truth.var())
        score = 1 - float(losses.mean()) / spread if spread > 0 else math.nan
        return Actual(len(losses), *_mean(losses), score)
    places = {_key(label): k for k, label in enumerate(estimator.classes_.tolist())}
    codes = np.array([places.get(_key(label), -1) for label in labels.tolist()])
    known = codes >= 0
    if not known.any():
        raise ValueError(f"{saved.target!r} has none of the classes that the model knows")
    shares = estimator.predict_proba(chosen)
    right = float((shares.argmax(1) == codes).mean())
    picked = shares[np.flatnonzero(known), codes[known]]
    losses = -np.log(np.maximum(picked, np.finfo(float).tiny))
    unknown = int((~known).sum())
    remark = (
        f"{unknown} of the labels are classes that the model does not know: wrong in the accuracy, "
        "left out of the log loss"
    )
    return Actual(len(codes), *_mean(losses), right, remark if unknown else "")


def _key(label: Any) -> str:
    """A label as text, the same for 1 and 1.0, and for True and true."""
    return str(label).removesuffix(".0").casefold() if not isinstance(label, str) else label


def _mean(losses: NDArray[np.float64]) -> tuple[float, float]:
    stderr = float(losses.std(ddof=1)) / math.sqrt(len(losses)) if len(losses) > 1 else math.nan
    return float(losses.mean()), stderr


def _estimate(saved: SavedModel) -> tuple[float, float]:
    estimator = saved.estimator
    return float(estimator.estimated_test_error_), float(estimator.estimated_test_error_stderr_)


def _difference(saved: SavedModel, actual: Actual) -> float:
    """Actual minus estimated error, in standard errors."""
    error, stderr = _estimate(saved)
    width = math.hypot(stderr, actual.stderr)
    return (actual.error - error) / width if width > 0 else math.nan


def show(screen: Console, saved: SavedModel, actual: Actual) -> None:
    """Print the actual error beside the estimate."""
    name = saved.estimator._error_name
    error, stderr = _estimate(saved)
    found = {
        f"{name} on these {actual.rows:,} rows": interval(actual.error, actual.stderr),
        "estimated at training": interval(error, stderr),
    }
    intervals(screen, found)
    if abs(_difference(saved, actual)) > UNLIKELY:
        verdict = saved.metadata["verdict"]
        reason = (
            "the estimate was not to be trusted, as train said"
            if verdict == "do not trust"
            else "these rows may be of another kind than those trained on"
        )
        screen.print(f"They differ by more than chance explains: {reason}.", soft_wrap=True)


def _to_dict(
    saved: SavedModel,
    found: pd.DataFrame,
    actual: Actual | None,
    notes: list[str],
    out: Path | None,
) -> dict[str, Any]:
    shares = {name.removeprefix("probability_"): found[name].tolist() for name in found.columns[1:]}
    error, stderr = _estimate(saved)
    return {
        "task": saved.task,
        "target": saved.target,
        "rows": len(found),
        "predictions": found["prediction"].tolist(),
        "probabilities": shares or None,
        "estimated_test_error": error,
        "estimated_test_error_stderr": stderr,
        "verdict": saved.metadata["verdict"],
        "actual": None if actual is None else actual._asdict(),
        "notes": notes,
        "file": out,
    }
