"""``decoupled predict``: apply a saved model to a table."""

from __future__ import annotations

import io
import math
import os
import sys
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import typer
from numpy.typing import NDArray
from rich.console import Console
from scipy.special import stdtr, stdtrit

from decoupled_descent.cli.diagnosis import Data
from decoupled_descent.cli.output import Json, console, echo_json, few, intervals
from decoupled_descent.estimators.parts import SCORES
from decoupled_descent.estimators.saving import MODEL_FILE, SavedModel, load_model
from decoupled_descent.report.text import interval, together
from decoupled_descent.tables.reading import read_table
from decoupled_descent.tables.targets import split_target
from decoupled_descent.tables.values import levels, listed, numbers_of

#: A difference that chance exceeds this rarely is called more than chance.
UNLIKELY = 0.003
#: Fewer losses than this say too little of their spread, for they are skewed; and a low mean of
#: fewer than MANY may just lack the rare large ones.
ENOUGH, MANY = 30, 200
#: What a file of predictions may be called: it is CSV in any case.
SUFFIXES = (".csv", ".txt", "")


class Actual(NamedTuple):
    """The error on rows whose labels are known.

    Attributes:
        rows: How many have a label, and count in the score.
        judged: How many of them count in the error: those of a class that the model knows.
        error: Mean log loss or squared error.
        stderr: Its standard error.
        score: Accuracy or R².
        remark: What is odd about the labels, or nothing.
    """

    rows: int
    judged: int
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
        notes += [] if saved.columns is None else saved.columns.remarks(frame)
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
    text = "" if out is not None else _printable(found.to_csv(index=False, lineterminator="\n"))
    screen = console(stderr=True)
    for note in few(notes, "--json"):
        screen.print(f"note: {note}", soft_wrap=True)
    if out is None:
        typer.echo(text, nl=False)
    else:
        screen = console()
        screen.print(f"{len(found):,} predictions: {out}", soft_wrap=True)
    if actual is not None:
        show(screen, saved, actual)


def _printable(text: str) -> str:
    """The text, if the encoding of standard output has all its characters."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"standard output has the encoding {error.encoding}, which lacks "
            f"{text[error.start]!r}; use --out FILE"
        ) from error
    return text


def check_file(out: Path, inputs: tuple[Path, ...]) -> None:
    """Raise ``OSError`` if a file cannot be written, or is one of those that are read."""
    if out.is_dir():
        raise OSError(f"--out {out}: is a folder; name a file")
    if out.exists() and any(one.exists() and out.samefile(one) for one in inputs):
        raise OSError(f"--out {out}: is read by this command; name another file")
    if out.suffix.lower() not in SUFFIXES:
        raise OSError(f"--out {out}: predictions are written as CSV; name a file ending in .csv")
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
        return Actual(len(losses), len(losses), *_mean(losses), score)
    codes = _codes(estimator.classes_.tolist(), labels.tolist())
    known = codes >= 0
    if not known.any():
        raise ValueError(f"{saved.target!r} has none of the classes that the model knows")
    shares = estimator.predict_proba(chosen)
    right = float((shares.argmax(1) == codes).mean())
    picked = shares[np.flatnonzero(known), codes[known]]
    losses = -np.log(np.maximum(picked, np.finfo(float).tiny))
    unknown = int((~known).sum())
    are = "are classes" if unknown > 1 else "is a class"
    remark = (
        f"{unknown} of the labels {are} that the model does not know: wrong in the accuracy, left "
        "out of the log loss"
    )
    return Actual(len(codes), len(losses), *_mean(losses), right, remark if unknown else "")


def _codes(classes: list[Any], labels: list[Any]) -> NDArray[np.intp]:
    """Each label's place among the classes, −1 if it has none.

    What other labels are in a file decides whether True, 01 and 1 are read as text: they are the
    same class in any case, unless the model has a class of exactly this text.
    """
    texts, known = [str(label) for label in labels], [str(label) for label in classes]
    places = {name: k for names in (levels(known), known) for k, name in enumerate(names)}
    found = zip(texts, levels(texts), strict=True)
    return np.array([places.get(text, places.get(level, -1)) for text, level in found])


def _mean(losses: NDArray[np.float64]) -> tuple[float, float]:
    stderr = float(losses.std(ddof=1)) / math.sqrt(len(losses)) if len(losses) > 1 else math.nan
    return float(losses.mean()), stderr


def _estimate(saved: SavedModel) -> tuple[float, float]:
    estimator = saved.estimator
    return float(estimator.estimated_test_error_), float(estimator.estimated_test_error_stderr_)


def _chance(saved: SavedModel, actual: Actual) -> float:
    """How often chance alone makes actual and estimated error differ so much."""
    error, stderr = _estimate(saved)
    width = math.hypot(stderr, actual.stderr)
    if actual.judged < (MANY if actual.error < error else ENOUGH) or not 0 < width < math.inf:
        return 1.0
    return float(2 * stdtr(actual.judged - 1, -abs(actual.error - error) / width))


def show(screen: Console, saved: SavedModel, actual: Actual) -> None:
    """Print the actual error beside the estimate."""
    name = saved.estimator._error_name
    error, stderr = _estimate(saved)
    enough = actual.judged >= ENOUGH
    student = float(stdtrit(actual.judged - 1, 0.975)) / 1.96 if enough else math.nan
    these = f"these {actual.judged:,} rows" if actual.judged > 1 else "this row"
    found = {
        f"{name} on {these}": interval(actual.error, student * actual.stderr),
        "estimated at training": interval(error, stderr),
    }
    intervals(screen, found)
    screen.print(f"  {_scores(saved, actual)}", soft_wrap=True)
    if not enough:
        count = f"{actual.judged} rows are" if actual.judged > 1 else "1 row is"
        screen.print(f"{count} too few to tell whether they differ by more than chance explains.")
    elif _chance(saved, actual) < UNLIKELY:
        verdict = saved.metadata["verdict"]
        reason = (
            "the estimate was not to be trusted, as train said"
            if verdict == "do not trust"
            else "these rows may be of another kind than those trained on"
        )
        screen.print(f"They differ by more than chance explains: {reason}.", soft_wrap=True)


def _scores(saved: SavedModel, actual: Actual) -> str:
    """Accuracy or R² beside what was estimated."""
    classes = saved.task == "classification"
    name = "accuracy" if classes else "R²"
    estimated = float(getattr(saved.estimator, SCORES[saved.task]))
    now, before = together([actual.score, estimated], 0.01, percent=classes)
    return f"{name} {now}, estimated at training {before}"


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
