"""The predictions of a saved model, and its actual error if the labels are known."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console
from scipy.special import stdtr, stdtrit

from decoupled_descent.checks import Z95
from decoupled_descent.cli.output import intervals
from decoupled_descent.estimators.parts import SCORES
from decoupled_descent.estimators.saving import SavedModel
from decoupled_descent.report.text import interval, together
from decoupled_descent.tables.columns import MOST_DECIMALS
from decoupled_descent.tables.targets import labels_of
from decoupled_descent.tables.values import (
    is_number,
    levels,
    listed,
    mark_missing,
    numbers_of,
)

#: A difference is called significant if its p-value is below this.
UNLIKELY = 0.003
#: Losses are skewed. The standard error of fewer than ENOUGH losses is unreliable, and the mean of
#: fewer than MANY may be low only because the rare large losses are missing.
ENOUGH, MANY = 30, 200


#: Text that a spreadsheet would run as a formula, also with full-width signs. A single sign is not.
FORMULA = re.compile(r"[=+\-@\t\r\n＝＋－＠].+", re.DOTALL)
FORMULAS = "{} texts look like formulas of a spreadsheet; an apostrophe was put before them"


SEEN = (
    "{} of the {} rows are training rows: their predictions are from models that were fitted "
    "without them, as for new rows"
)
Before = Callable[[NDArray[np.float64]], NDArray[np.float64] | None]


class Actual(NamedTuple):
    """The error on rows whose labels are known."""

    rows: int  # the number of rows with a label; the score uses all of them
    judged: int  # the number of rows in the error: those of a class that the model knows
    error: float  # mean log loss or squared error
    stderr: float  # its standard error
    score: float  # accuracy or R²
    remark: str = ""  # on labels that are unknown classes, if any


class Predictions(NamedTuple):
    """Predictions as a table, the actual error if it is known, and notes."""

    table: pd.DataFrame
    actual: Actual | None
    notes: list[str]


def predict(saved: SavedModel, frame: pd.DataFrame, before: Before | None = None) -> Predictions:
    """Predict the rows of a table; for classes, with a column of probabilities for each.

    ``before`` returns the leave-one-out predictions of training rows.

    Raises ``ValueError`` if columns are missing, or their values are of another kind than those
    trained on.
    """
    notes = list(frame.attrs["notes"])
    if saved.columns is not None:
        frame = mark_missing(frame, saved.columns.words)
    rows = matrix(saved, frame)
    notes += ignored(saved, frame)
    notes += saved.columns.remarks(frame) if saved.columns is not None else []
    said = outputs(saved, rows)
    known = before(np.asarray(rows, dtype=np.float64)) if before is not None else None
    if known is not None and known.shape == said.shape:
        seen = np.asarray(np.isfinite(known).all(axis=1))
        said = np.where(seen[:, None], known, said)
        notes.append(SEEN.format(int(seen.sum()), len(said)))
    table = as_table(saved, frame, said)
    notes += not_carried(saved, frame)
    actual = judged(saved, frame.get(saved.target), said, notes)
    return Predictions(table, actual, notes)


def outputs(saved: SavedModel, rows: Any) -> NDArray[np.float64]:
    """What a model says of rows: probabilities of the classes, or one column of numbers."""
    estimator: Any = saved.estimator
    if saved.task == "classification":
        return np.asarray(estimator.predict_proba(rows))
    return np.asarray(estimator.predict(rows))[:, None]


def as_table(saved: SavedModel, frame: pd.DataFrame, said: NDArray[np.float64]) -> pd.DataFrame:
    """Predictions as a table, with the identifier of the rows before them."""
    table = pd.DataFrame({"prediction": as_target(saved, said)})
    if saved.task == "classification":
        for k, label in enumerate(class_names(saved).tolist()):
            table[f"probability_{label}"] = said[:, k]
    name = saved.columns.identifier if saved.columns is not None else ""
    if name and name in frame.columns:
        taken = name in table.columns
        table.insert(0, f"{name} (id)" if taken else name, frame[name].to_numpy())
    return table


def not_carried(saved: SavedModel, frame: pd.DataFrame) -> list[str]:
    """Say where the identifier of the rows is not there."""
    name = saved.columns.identifier if saved.columns is not None else ""
    if not name or name in frame.columns:
        return []
    return [f"the table has no column {name!r}, which identified the rows in training"]


def ignored(saved: SavedModel, frame: pd.DataFrame) -> list[str]:
    """Say which columns the model does not know."""
    if saved.columns is None:
        return []
    extra = [name for name in saved.columns.extra(frame) if name != saved.target]
    return [f"columns that the model does not know are ignored: {listed(extra)}"] if extra else []


def judged(
    saved: SavedModel, target: pd.Series | None, said: NDArray[np.float64], notes: list[str]
) -> Actual | None:
    """The actual error, where the target is there; ``notes`` gets what was noticed."""
    if target is None:
        return None
    try:
        actual = compare(saved, target, said)
    except ValueError as error:
        notes.append(f"no actual error: {error}")
        return None
    notes += [actual.remark] if actual.remark else []
    return actual


def class_names(saved: SavedModel) -> NDArray[Any]:
    """The classes as they were written in the training table."""
    estimator: Any = saved.estimator
    spelt = saved.columns.spellings if saved.columns is not None else ()
    classes: NDArray[Any] = estimator.classes_
    return np.array(spelt, dtype=object) if len(spelt) == len(classes) else classes


def as_target(saved: SavedModel, said: NDArray[np.float64]) -> NDArray[Any]:
    """Predictions written like the target: its classes, or numbers with as many decimals.

    Numbers get more decimals if their typical error is small: rounding never moves them by more
    than a two-hundredth of it.
    """
    if saved.task == "classification":
        names: NDArray[Any] = class_names(saved)[said.argmax(1)]
        return names
    if saved.columns is None:
        return said[:, 0]
    typical = math.sqrt(max(0.0, estimate(saved)[0]))
    needed = math.ceil(-math.log10(typical / 100)) if 0 < typical < math.inf else 0
    decimals = min(max(saved.columns.decimals, needed), max(0, needed) + 2, MOST_DECIMALS)
    rounded = np.round(said[:, 0], decimals) + 0.0
    whole = decimals <= 0 and bool((np.abs(rounded) < 2**53).all())
    return rounded.astype(np.int64) if whole else rounded


def without_formulas(table: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Put an apostrophe before text that looks like a formula; return the number of such cells.

    Names of columns count as cells.
    """
    formulas = [str(name) for name in table.columns if FORMULA.fullmatch(str(name))]
    safe, count = table.copy(), len(formulas)
    for name in table.columns:
        if not is_number(table[name].dtype):
            texts = table[name].astype(object)
            found = texts.map(lambda one: isinstance(one, str) and bool(FORMULA.fullmatch(one)))
            safe[name] = texts.where(~found, "'" + texts.astype(str))
            count += int(found.sum())
    return safe.rename(columns={name: f"'{name}" for name in formulas}), count


def matrix(saved: SavedModel, frame: pd.DataFrame) -> Any:
    """Turn a table into the input of the estimator, even if the model was trained in Python."""
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


def compare(saved: SavedModel, target: pd.Series, said: NDArray[np.float64]) -> Actual:
    """Compute the error on the rows that have a label, of probabilities or numbers (n, K).

    Raises ``ValueError`` if no row has a label that can be used.
    """
    labels, known, _ = labels_of(target, quantity=saved.task == "regression")
    chosen = said[known]
    estimator: Any = saved.estimator
    if saved.task == "regression":
        if labels.dtype.kind not in "biuf":
            raise ValueError(f"{saved.target!r} holds text such as {labels.iloc[0]!r:.60}")
        truth = labels.to_numpy(dtype=np.float64)
        losses = (chosen[:, 0] - truth) ** 2
        spread = float(truth.var())
        score = 1 - float(losses.mean()) / spread if spread > 0 else math.nan
        return Actual(len(losses), len(losses), *_mean(losses), score)
    codes = class_codes(estimator.classes_.tolist(), labels.tolist())
    known = codes >= 0
    if not known.any():
        raise ValueError(f"{saved.target!r} has none of the classes that the model knows")
    shares = chosen
    right = float((shares.argmax(1) == codes).mean())
    losses = -np.log(np.maximum(shares[known, codes[known]], np.finfo(float).tiny))
    unknown = int((~known).sum())
    are = "are classes" if unknown > 1 else "is a class"
    remark = (
        f"{unknown} of the labels {are} that the model does not know: they count as wrong in the "
        "accuracy, and are left out of the log loss"
    )
    return Actual(len(codes), len(losses), *_mean(losses), right, remark if unknown else "")


def class_codes(classes: list[Any], labels: list[Any]) -> NDArray[np.intp]:
    """Return the index of each label among the classes, −1 if it is not one of them.

    Whether True, 01 and 1 are read as text depends on the other labels of a file. They match the
    same class in any case, unless the model has a class with exactly this text.
    """
    texts, known = [str(label) for label in labels], [str(label) for label in classes]
    places = {name: k for names in (levels(known), known) for k, name in enumerate(names)}
    found = zip(texts, levels(texts), strict=True)
    return np.array([places.get(text, places.get(level, -1)) for text, level in found])


def _mean(losses: NDArray[np.float64]) -> tuple[float, float]:
    """Mean and standard error."""
    stderr = float(losses.std(ddof=1)) / math.sqrt(len(losses)) if len(losses) > 1 else math.nan
    return float(losses.mean()), stderr


def estimate(saved: SavedModel) -> tuple[float, float]:
    """Return the error that was estimated at training, and its standard error."""
    estimator = saved.estimator
    return float(estimator.estimated_test_error_), float(estimator.estimated_test_error_stderr_)


def chance(saved: SavedModel, actual: Actual) -> float:
    """Return the p-value of the difference between the actual and the estimated error."""
    error, stderr = estimate(saved)
    width = math.hypot(stderr, actual.stderr)
    if actual.judged < (MANY if actual.error < error else ENOUGH) or not 0 < width < math.inf:
        return 1.0
    return float(2 * stdtr(actual.judged - 1, -abs(actual.error - error) / width))


def show(screen: Console, saved: SavedModel, actual: Actual) -> None:
    """Print the actual error beside the estimate."""
    enough = actual.judged >= ENOUGH
    student = float(stdtrit(actual.judged - 1, 0.975)) / Z95 if enough else math.nan
    these = f"these {actual.judged:,} rows" if actual.judged > 1 else "this row"
    classes = saved.task == "classification"
    errors = interval(actual.error, student * actual.stderr), interval(*estimate(saved))
    if not classes:  # in the units of the target
        errors = tuple(map(math.sqrt, errors[0])), tuple(map(math.sqrt, errors[1]))
    name = saved.estimator._error_name if classes else "typical error (RMSE)"
    intervals(screen, {f"{name} on {these}": errors[0], "estimated at training": errors[1]})
    scores = [actual.score, float(getattr(saved.estimator, SCORES[saved.task]))]
    now, before = together(scores, 0.01, percent=classes)
    name = "accuracy" if classes else "R²"
    screen.print(f"  {name} {now}, estimated at training {before}", soft_wrap=True)
    if not enough:
        count = f"{actual.judged} rows are" if actual.judged > 1 else "1 row is"
        screen.print(f"{count} too few to test whether the difference is significant.")
    elif chance(saved, actual) < UNLIKELY:
        reason = (
            "the verdict at training was not to trust the estimate"
            if saved.metadata["verdict"] == "do not trust"
            else "these rows may come from another population than the training rows"
        )
        screen.print(f"The difference is significant: {reason}.", soft_wrap=True)


def to_dict(saved: SavedModel, found: Predictions) -> dict[str, Any]:
    """Return the result for machines."""
    table = found.table
    shares = {
        name.removeprefix("probability_"): table[name].tolist()
        for name in table.columns[list(table.columns).index("prediction") + 1 :]
    }
    carried = table.columns[0] if table.columns[0] != "prediction" else None
    error, stderr = estimate(saved)
    return {
        "task": saved.task,
        "target": saved.target,
        "rows": len(table),
        "id": None if carried is None else table[carried].tolist(),
        "predictions": table["prediction"].tolist(),
        "probabilities": shares or None,
        "estimated_test_error": error,
        "estimated_test_error_stderr": stderr,
        "verdict": saved.metadata["verdict"],
        "actual": None if found.actual is None else found.actual._asdict(),
        "notes": found.notes,
    }
