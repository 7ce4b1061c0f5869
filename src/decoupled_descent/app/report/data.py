"""What the report shows, as data."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from decoupled_descent.estimators.learning_curve import LearningCurve


class Missed(NamedTuple):
    """A class that is mostly missed."""

    name: str
    found: int
    rows: int


def names_of(rare: Sequence[Missed], most: int = 5) -> str:
    """Write classes that are mostly missed.

    Example:
        >>> names_of([Missed("fraud", 0, 15)])
        '“fraud” (0 of 15 rows found)'
    """
    told = [f"“{one.name}” ({one.found:,} of {one.rows:,} rows found)" for one in rare[:most]]
    return ", ".join(told) + (f" and {len(rare) - most} more classes" if len(rare) > most else "")


class Contender(NamedTuple):
    """A model or a guess, with its out-of-sample errors."""

    name: str
    error: float  # mean log loss or squared error
    stderr: float
    score: float  # accuracy or R²
    half: float | None  # median absolute error, for numbers
    gain: float  # mean over the rows of (this loss − the model's loss)
    gain_stderr: float
    loss: float  # the mean loss of the comparison
    measure: str = "error"  # the name of the loss, or of its root for numbers


class Width(NamedTuple):
    """Prediction intervals of one level, and the share of left-out rows that they cover."""

    level: float
    half: float  # half the median width
    held: float  # the share of rows that are covered
    halves: tuple[float, ...]  # half the width for low, middle and high predictions
    shares: tuple[float, ...]  # and the shares covered


class MoreRows(NamedTuple):
    """Errors at n/4, n/2, n and 2n rows: log loss, or RMSE in the units of the target."""

    name: str
    rows: Sequence[int]
    errors: Sequence[float]
    stderrs: Sequence[float]
    change: float  # of the error if the rows are doubled; at most 0
    change_stderr: float
    roots: bool = False  # whether errors are roots of mean losses

    @classmethod
    def of(cls, curve: LearningCurve, roots: bool) -> MoreRows:
        """Take the errors of a learning curve; ``roots`` takes the root of squared errors."""
        rows, errors, stderrs = curve.rows, curve.errors, curve.stderrs
        change, doubt = curve.change, curve.change_stderr
        if not roots:
            return cls("log loss", rows, errors, stderrs, change, doubt)
        sizes = [math.sqrt(max(error, 0.0)) for error in errors]
        scales = [2 * max(size, 1e-300) for size in sizes]
        halved = [stderr / scale for stderr, scale in zip(stderrs, scales, strict=True)]
        return cls(
            "typical error (RMSE)", rows, sizes, halved, sizes[3] - sizes[2], doubt / scales[2],
            roots=True,
        )  # fmt: skip


@dataclass(frozen=True)
class ReportData:
    """What the report shows."""

    title: str  # such as "diabetes.csv: progression"
    task: str  # "classification" or "regression"
    n_rows: int  # rows trained on
    n_features: int  # columns after preprocessing
    train_error: Sequence[float]  # at every step
    train_error_stderr: Sequence[float]
    best_step: int  # the step whose model was kept
    stop_reason: str
    loss_name: str  # such as "log loss"
    estimated_error: float  # the estimate of the test error
    estimated_error_stderr: float
    score_name: str  # "accuracy" or "R²"
    estimated_score: float  # on new rows
    estimated_score_stderr: float | None
    labels: Sequence[Any]  # of the training rows
    predictions: Sequence[Any]  # out-of-sample, for the same rows
    classes: Sequence[str] | None  # in the order to show
    candidates: Sequence[Mapping[str, Any]]  # all that were tried; "chosen" marks the winner
    diagnosis: Mapping[str, Any] | None  # what Diagnosis.to_dict returns
    settings: Mapping[str, Any]  # how the model was trained
    notes: Sequence[str]  # what preprocessing did
    next_steps: Sequence[str]  # what to do now
    corrected: bool  # whether the train error estimates the test error
    interrupted: bool = False  # whether the user interrupted training
    missing: Sequence[str] = ()  # the parts of the report that were not made, after Ctrl-C
    contenders: Sequence[Contender] = ()  # the model, a linear model and guessing
    chances: Any = None  # out-of-sample probabilities of the training rows, (n, K)
    calibration: Mapping[str, Any] | None = None  # what Calibration.to_dict returns
    row_names: Sequence[Any] = ()  # numbers or identifiers of the rows
    importance: Sequence[tuple[str, float]] = ()  # columns, and how much the error rises
    widths: Sequence[Width] = ()  # of prediction intervals
    more: MoreRows | str | None = None  # the learning curve, or why there is none
    left_out: Iterable[str] = ""  # out-of-sample predictions of the training rows, as CSV
    made_with: Mapping[str, Any] = field(default_factory=dict)  # versions, threads, blocks

    @property
    def mostly_missed(self) -> list[Missed]:
        """The classes of which less than half of the rows are found."""
        if self.classes is None:
            return []
        totals = Counter(map(str, self.labels))
        pairs = zip(self.labels, self.predictions, strict=True)
        hits = Counter(str(true) for true, predicted in pairs if str(true) == str(predicted))
        every = [Missed(str(name), hits[str(name)], totals[str(name)]) for name in self.classes]
        return [one for one in every if one.rows and 2 * one.found < one.rows]

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for data that cannot be shown."""
        if self.task not in ("classification", "regression"):
            raise ValueError(f"task={self.task!r} must be 'classification' or 'regression'")
        steps = len(self.train_error)
        if steps == 0 or len(self.train_error_stderr) != steps:
            raise ValueError(
                f"train_error has {steps} steps and train_error_stderr "
                f"{len(self.train_error_stderr)}; pass one of each per step, and at least one"
            )
        if not 0 <= self.best_step < steps:
            raise ValueError(f"best_step={self.best_step} must be from 0 to {steps - 1}")
        if len(self.labels) != len(self.predictions):
            raise ValueError(
                f"labels has {len(self.labels)} rows and predictions {len(self.predictions)}; "
                "pass one prediction per label"
            )
