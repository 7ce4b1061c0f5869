"""The predictions of a saved model, and its actual error where the labels are known."""

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
from decoupled_descent.tables.targets import split_target
from decoupled_descent.tables.values import (
    is_number,
    levels,
    listed,
    mark_missing,
    numbers_of,
)

#: A difference is called more than chance if chance exceeds it with less than this probability.
UNLIKELY = 0.003
#: Losses are skewed: fewer than ENOUGH do not show their spread, and fewer than MANY may have a low
#: mean only because the rare large ones are missing.
ENOUGH, MANY = 30, 200


#: Text that a spreadsheet would run as a formula, with wide signs in some: a sign alone is a name.
FORMULA = re.compile(r"[=+\-@\t\r\n＝＋－＠].+", re.DOTALL)
FORMULAS = "{} texts begin like a formula of a spreadsheet; an apostrophe was put before them"


SEEN = (
    "{} of the {} rows were trained on: their predictions are those of models that had not seen "
    "them, as for new rows"
)
Before = Callable[[NDArray[np.float64]], NDArray[np.float64] | None]


class Actual(NamedTuple):
    """The error on rows whose labels are known."""

    rows: int  # how many have a label, and count in the score
    judged: int  # how many of them count in the error: those of a class that the model knows
    error: float  # mean log loss or squared error
    stderr: float  # its standard error
    score: float  # accuracy or R²
    remark: str = ""  # how many labels are unknown classes, or nothing


class Predictions(NamedTuple):
    """Predictions as a table, the actual error if it is known, and what was noticed."""

    table: pd.DataFrame
    actual: Actual | None
    notes: list[str]


def predict(saved: SavedModel, frame: pd.DataFrame, before: Before | None = None) -> Predictions:
    """Predict the rows of a table; for classes, with a column of probabilities for each.

    ``before`` finds what was predicted of rows that were trained on, by models without them.

    Raises ``ValueError`` if columns are missing, or values are not of the kind they were.
    """
    estimator: Any = saved.estimator
    notes = list(frame.attrs["notes"])
    if saved.columns is not None:
        frame = mark_missing(frame, saved.columns.words)
    rows = matrix(saved, frame)
    if saved.columns is not None:
        extra = [name for name in saved.columns.extra(frame) if name != saved.target]
        notes += [f"ignored, as the model does not know them: {listed(extra)}"] if extra else []
        notes += saved.columns.remarks(frame)
    classes = saved.task == "classification"
    said = estimator.predict_proba(rows) if classes else estimator.predict(rows)[:, None]
    known = before(np.asarray(rows, dtype=np.float64)) if before is not None else None
    if known is not None and known.shape == said.shape:
        seen = np.asarray(np.isfinite(known).all(axis=1))
        said = np.where(seen[:, None], known, said)
        notes.append(SEEN.format(int(seen.sum()), len(said)))
    table = pd.DataFrame({"prediction": as_target(saved, said)})
    if classes:
        for k, label in enumerate(class_names(saved).tolist()):
            table[f"probability_{label}"] = said[:, k]
    _carry(saved, frame, table, notes)
    actual = None
    if saved.target in frame.columns:
        try:
            actual = compare(saved, frame, said)
            notes += [actual.remark] if actual.remark else []
        except ValueError as error:
            notes.append(f"no actual error: {error}")
    return Predictions(table, actual, notes)


def class_names(saved: SavedModel) -> NDArray[Any]:
    """The classes as they were written in the table trained on."""
    estimator: Any = saved.estimator
    spelt = saved.columns.spellings if saved.columns is not None else ()
    classes: NDArray[Any] = estimator.classes_
    return np.array(spelt, dtype=object) if len(spelt) == len(classes) else classes


def as_target(saved: SavedModel, said: NDArray[np.float64]) -> NDArray[Any]:
    """Predictions written like the target: its classes, or numbers with its decimals.

    Numbers get more decimals where their typical error is that small, and never so few that
    rounding moves them by more than a two-hundredth of it.
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


def _carry(saved: SavedModel, frame: pd.DataFrame, table: pd.DataFrame, notes: list[str]) -> None:
    """Put the identifier of the rows before their predictions."""
    name = saved.columns.identifier if saved.columns is not None else ""
    if name and name in frame.columns:
        taken = name in table.columns
        table.insert(0, f"{name} (id)" if taken else name, frame[name].to_numpy())
    elif name:
        notes.append(f"the table has no {name!r}, which identified the rows in training")


def without_formulas(table: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Put an apostrophe before text that begins like a formula; say how many cells that were.

    Names of columns are cells, too.
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
    """Turn a table into the estimator's input, also if the model was trained in Python."""
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


def compare(saved: SavedModel, frame: pd.DataFrame, said: NDArray[np.float64]) -> Actual:
    """Compute the error on the rows that have a label, of probabilities or numbers (n, K).

    Raises ``ValueError`` if no row has a label that can be used.
    """
    labels = split_target(frame, str(saved.target), quantity=saved.task == "regression")[1]
    chosen = said[frame.index.isin(labels.index)]
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
        f"{unknown} of the labels {are} that the model does not know: wrong in the accuracy, left "
        "out of the log loss"
    )
    return Actual(len(codes), len(losses), *_mean(losses), right, remark if unknown else "")


def class_codes(classes: list[Any], labels: list[Any]) -> NDArray[np.intp]:
    """Return each label's place among the classes, −1 if it has none.

    Whether True, 01 and 1 are read as text depends on the other labels in a file. They are the same
    class in any case, unless the model has a class of exactly this text.
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
    """Return the probability that chance alone makes the two errors differ at least so much."""
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
        screen.print(f"{count} too few to tell whether they differ by more than chance explains.")
    elif chance(saved, actual) < UNLIKELY:
        reason = (
            "the estimate was not to be trusted, as train said"
            if saved.metadata["verdict"] == "do not trust"
            else "these rows may be of another kind than those trained on"
        )
        screen.print(f"They differ by more than chance explains: {reason}.", soft_wrap=True)


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
