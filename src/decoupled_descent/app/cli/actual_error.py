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
from decoupled_descent.checks import Z95
from decoupled_descent.tables.columns.values import levels, spelling

if TYPE_CHECKING:
    from decoupled_descent.tables.prediction.saved import PredictionModel

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
    saved: PredictionModel,
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


def compare(saved: PredictionModel, target: pd.Series, outputs: NDArray[np.float64]) -> ActualError:
    """Compute the error on the rows that have a label, of probabilities or numbers (n, K).

    Raises ``ValueError`` if no row has a label that can be used.
    """
    from decoupled_descent.evaluation.kinds import OF_LOSS  # imports PyTorch
    from decoupled_descent.evaluation.means import mean_with_stderr

    kind = OF_LOSS[saved.mixture.loss]
    labels, labelled, _ = labels_of(target, quantity=saved.classes is None, merge=False)
    chosen = outputs[labelled]
    if saved.classes is None:
        if labels.dtype.kind not in "biuf":
            raise ValueError(f"{saved.target!r} holds text such as {labels.iloc[0]!r:.60}")
        truth = labels.to_numpy(np.float64)
        error, stderr = mean_with_stderr(kind.losses(truth, chosen[:, 0]))
        score = 1 - error / float(truth.var()) if np.ptp(truth) > 0 else math.nan
        return ActualError(len(labels), len(labels), error, stderr, score)
    codes = class_codes(saved.classes.tolist(), labels.tolist())
    is_class = codes >= 0
    if not is_class.any():
        raise ValueError(f"{saved.target!r} has none of the classes that the model knows")
    right = float((saved.decide(chosen) == codes).mean())
    error, stderr = mean_with_stderr(kind.losses(codes[is_class], chosen[is_class]))
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


def estimate(saved: PredictionModel) -> tuple[float, ...]:
    """Return the error that was estimated at training, and the ends of its 95 % interval."""
    error, _, ends = saved.error
    return with_interval(error, ends)


def p_value(saved: PredictionModel, actual: ActualError) -> float:
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


def show(screen: Console, saved: PredictionModel, actual: ActualError) -> None:
    """Print the actual error beside the estimate."""
    from scipy.special import stdtrit

    from decoupled_descent.evaluation.kinds import OF_LOSS

    enough = actual.rows_in_error >= ENOUGH
    student = float(stdtrit(actual.rows_in_error - 1, 0.975)) / Z95 if enough else math.nan
    these = f"these {actual.rows_in_error:,} rows" if actual.rows_in_error > 1 else "this row"
    classes = saved.classes is not None
    errors = (
        error_interval(actual.error, student * actual.stderr),
        estimate(saved),
    )
    name = OF_LOSS[saved.mixture.loss].error_name
    if saved.has_squared_errors:  # in the units of the target
        errors, name = (roots(errors[0]), roots(errors[1])), "typical error (RMSE)"
    intervals(screen, {f"{name} on {these}": errors[0], "estimated at training": errors[1]})
    score, _, ends_of_score = saved.score
    before = with_interval(score, ends_of_score)
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
            if saved.verdict == "do not trust"
            else "these rows may come from another population than the training rows"
        )
        screen.print(f"The difference is significant: {reason}.", soft_wrap=True)
