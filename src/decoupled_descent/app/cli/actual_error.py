"""The actual error of a saved model on rows that have labels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console

from decoupled_descent.app.cli.output import intervals
from decoupled_descent.app.files.targets import labels_of
from decoupled_descent.app.report.data import with_interval
from decoupled_descent.app.report.text import INTERVAL, error_interval, roots, together
from decoupled_descent.checks import SCORES, Z95
from decoupled_descent.tables.columns.values import levels, spelling

if TYPE_CHECKING:
    from decoupled_descent.app.export.light_model import LightModel
    from decoupled_descent.tables.estimators.saving import SavedModel

#: A difference is called significant if its p-value is below this.
UNLIKELY = 0.003
#: Losses are skewed. The standard error of fewer than ENOUGH losses is unreliable, and the mean of
#: fewer than MANY may be low only because the rare large losses are missing.
ENOUGH, MANY = 30, 200


class ActualError(NamedTuple):
    """The error on rows that have labels."""

    rows: int  # the number of rows with a label; the score uses all of them
    rows_in_error: int  # those of a class that the model has
    error: float  # mean log loss or squared error
    stderr: float  # its standard error
    score: float  # accuracy or R²
    remark: str = ""  # on labels that are unknown classes, if any


def actual_error(
    saved: SavedModel | LightModel,
    target: pd.Series | None,
    outputs: NDArray[np.float64],
    notes: list[str],
) -> ActualError | None:
    """Return the actual error if the table has the target; add remarks on it to ``notes``."""
    if target is None:
        return None
    try:
        actual = compare(saved, target, outputs)
    except ValueError as error:
        notes.append(f"no actual error: {error}")
        return None
    notes += [actual.remark] if actual.remark else []
    return actual


def compare(
    saved: SavedModel | LightModel, target: pd.Series, outputs: NDArray[np.float64]
) -> ActualError:
    """Compute the error on the rows that have a label, of probabilities or numbers (n, K).

    Raises ``ValueError`` if no row has a label that can be used.
    """
    from decoupled_descent.evaluation.kinds import NUMBERS, PROBABILITIES  # imports PyTorch
    from decoupled_descent.evaluation.means import mean_with_stderr

    labels, labelled, _ = labels_of(target, quantity=saved.task == "regression", merge=False)
    chosen = outputs[labelled]
    estimator: Any = saved.estimator
    if saved.task == "regression":
        if labels.dtype.kind not in "biuf":
            raise ValueError(f"{saved.target!r} holds text such as {labels.iloc[0]!r:.60}")
        truth = labels.to_numpy(np.float64)
        error, stderr = mean_with_stderr(NUMBERS.losses(truth, chosen[:, 0]))
        score = 1 - error / float(truth.var()) if np.ptp(truth) > 0 else math.nan
        return ActualError(len(labels), len(labels), error, stderr, score)
    codes = class_codes(estimator.classes_.tolist(), labels.tolist())
    is_class = codes >= 0
    if not is_class.any():
        raise ValueError(f"{saved.target!r} has none of the classes that the model knows")
    right = float((saved.on_matrix.decision_rule_.decide(chosen) == codes).mean())
    error, stderr = mean_with_stderr(PROBABILITIES.losses(codes[is_class], chosen[is_class]))
    unknown = int((~is_class).sum())
    are = "are classes" if unknown > 1 else "is a class"
    remark = (
        f"{unknown} of the labels {are} that the model does not know: they count as wrong in the "
        "accuracy, and are left out of the log loss"
    )
    return ActualError(
        len(codes), int(is_class.sum()), error, stderr, right, remark if unknown else ""
    )


def class_codes(classes: list[Any], labels: list[Any]) -> NDArray[np.intp]:
    """Return the index of each label among the classes, −1 if it is not one of them.

    Whether True, 01 and 1 are read as text depends on the other labels of a file. They match the
    same class in any case, unless the model has a class with exactly this text. Capitals matter
    only where they tell two classes apart.
    """
    texts, names = [str(label) for label in labels], [str(label) for label in classes]
    exact = {name: k for several in (levels(names), names) for k, name in enumerate(several)}
    spelt = [spelling(name) for name in names]
    similar = {name: k for k, name in enumerate(spelt) if spelt.count(name) == 1}
    pairs = zip(texts, levels(texts), strict=True)
    return np.array(
        [
            exact.get(text, exact.get(level, similar.get(spelling(text), -1)))
            for text, level in pairs
        ]
    )


def estimate(saved: SavedModel | LightModel) -> tuple[float, ...]:
    """Return the error that was estimated at training, and the ends of its 95 % interval."""
    result = saved.estimator
    return with_interval(float(result.estimated_test_error_), result.estimated_test_error_interval_)


def p_value(saved: SavedModel | LightModel, actual: ActualError) -> float:
    """Return the p-value of the difference between the actual and the estimated error."""
    error, *ends = estimate(saved)
    towards = ends[int(actual.error > error)] if ends else math.nan  # the interval may be skewed
    width = math.hypot((towards - error) / Z95, actual.stderr)
    if (
        actual.rows_in_error < (MANY if actual.error < error else ENOUGH)
        or not 0 < width < math.inf
    ):
        return 1.0
    from scipy.special import stdtr

    return float(2 * stdtr(actual.rows_in_error - 1, -abs(actual.error - error) / width))


def show(screen: Console, saved: SavedModel | LightModel, actual: ActualError) -> None:
    """Print the actual error beside the estimate."""
    from scipy.special import stdtrit

    enough = actual.rows_in_error >= ENOUGH
    student = float(stdtrit(actual.rows_in_error - 1, 0.975)) / Z95 if enough else math.nan
    these = f"these {actual.rows_in_error:,} rows" if actual.rows_in_error > 1 else "this row"
    classes = saved.task == "classification"
    errors = (
        error_interval(actual.error, student * actual.stderr),
        estimate(saved),
    )
    if not classes:  # in the units of the target
        errors = roots(errors[0]), roots(errors[1])
    name = saved.estimator._error_name if classes else "typical error (RMSE)"
    intervals(screen, {f"{name} on {these}": errors[0], "estimated at training": errors[1]})
    score = SCORES[saved.task]
    before = with_interval(
        float(getattr(saved.estimator, score)), getattr(saved.estimator, f"{score}interval_")
    )
    name = "accuracy" if classes else "R²"
    now, then, *ends = together([actual.score, *before], 0.01, percent=classes)
    between = f" ({INTERVAL} {ends[0]} to {ends[1]})" if ends else ""
    screen.print(f"  {name} {now}, estimated at training {then}{between}", soft_wrap=True)
    if not enough:
        count = f"{actual.rows_in_error} rows are" if actual.rows_in_error > 1 else "1 row is"
        screen.print(f"{count} too few to test whether the difference is significant.")
    elif p_value(saved, actual) < UNLIKELY:
        reason = (
            "the verdict at training was not to trust the estimate"
            if saved.metadata["verdict"] == "do not trust"
            else "these rows may come from another population than the training rows"
        )
        screen.print(f"The difference is significant: {reason}.", soft_wrap=True)
