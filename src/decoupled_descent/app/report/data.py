"""What the report shows, as data: frozen records without any text of the page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from decoupled_descent.checks import Z95, Target

if TYPE_CHECKING:
    from decoupled_descent.tables.analyses.coefficients import LinearPart
    from decoupled_descent.tables.analyses.importance import Importance
    from decoupled_descent.tables.analyses.sample import SampleRow
    from decoupled_descent.tables.analyses.subgroups import Subgroup
    from decoupled_descent.tables.estimators.forward import TimeEstimate
    from decoupled_descent.tables.estimators.learning_curve import LearningCurve


class MissedClass(NamedTuple):
    """A class of which less than half of the rows are predicted right."""

    name: str
    hits: int  # rows that are predicted right
    rows: int


#: A list of classes cuts their names after this many characters.
LONG_NAME = 40


def names_of(missed: Sequence[MissedClass], most: int = 5) -> str:
    """List classes that are mostly missed.

    Example:
        >>> names_of([MissedClass("fraud", 0, 15)])
        '“fraud” (0 of 15 rows found)'
    """
    names = [
        f"“{one.name:.{LONG_NAME}}{'…' * (len(one.name) > LONG_NAME)}” ({one.hits:,} of "
        f"{one.rows:,} rows found)"
        for one in missed[:most]
    ]
    rest = len(missed) - most
    return ", ".join(names) + (f" and {rest} more classes" if rest > 0 else "")


class Contender(NamedTuple):
    """A model or a guess, with its out-of-sample errors."""

    name: str
    error: float  # mean log loss or squared error
    stderr: float
    score: float  # accuracy or R²
    median_error: float | None  # median absolute error; None for classes
    gain: float  # mean over the rows of (this loss − the model's loss)
    gain_stderr: float
    loss: float  # the mean loss of the comparison
    measure: str = "error"  # the name of the loss, or of its root for numbers
    is_usual: bool = True  # whether predictions are of the more probable class, as in the score
    area: tuple[float, ...] = ()  # the model's AUC with its interval, if that shows it is better
    is_root: bool = True  # whether errors of numbers are shown as their roots

    @property
    def is_beaten(self) -> bool:
        """Whether the model is better."""
        return bool(self.area) or self.gain > Z95 * self.gain_stderr


class IntervalWidth(NamedTuple):
    """Prediction intervals of one level, and the share of left-out rows that they cover."""

    level: float
    half_width: float  # median over the rows
    coverage: float
    half_widths: tuple[float, ...]  # for low, middle and high predictions
    coverages: tuple[float, ...]  # for the same


class ErrorsByRows(NamedTuple):
    """Errors at n/4, n/2, 3n/4, n and 2n rows: log loss, or RMSE in the units of the target."""

    name: str
    rows: Sequence[int]
    errors: Sequence[float]
    stderrs: Sequence[float]
    change: float  # of the error if the rows are doubled; at most 0
    change_stderr: float
    roots: bool = False  # whether errors are roots of mean losses

    @classmethod
    def of(cls, curve: LearningCurve, roots: bool) -> ErrorsByRows:
        """Take the errors of a learning curve; ``roots`` takes the root of squared errors."""
        rows, errors, stderrs = curve.rows, curve.errors, curve.stderrs
        change, change_stderr = curve.change, curve.change_stderr
        if not roots:
            return cls(curve.error_name, rows, errors, stderrs, change, change_stderr)
        sizes = [math.sqrt(max(error, 0.0)) for error in errors]
        slopes = [2 * max(size, 1e-300) for size in sizes]  # of the square
        of_roots = [stderr / slope for stderr, slope in zip(stderrs, slopes, strict=True)]
        return cls(
            "typical error (RMSE)", rows, sizes, of_roots, sizes[-1] - sizes[-2],
            change_stderr / slopes[-2], roots=True,
        )  # fmt: skip


@dataclass(frozen=True)
class Training:
    """How the model was trained."""

    errors: Sequence[float]  # at every ridge of the best features
    stderrs: Sequence[float]
    best_step: int  # the ridge whose model was kept
    stop_reason: str
    candidates: Sequence[Mapping[str, Any]] = ()  # all that were tried; "chosen" marks the best
    settings: Mapping[str, Any] = field(default_factory=dict)
    interrupted: bool = False  # whether the user interrupted it
    skipped: Sequence[str] = ()  # candidates that the time limit left out
    made_with: Mapping[str, Any] = field(default_factory=dict)  # versions, threads, blocks

    def __post_init__(self) -> None:
        """Raise ``ValueError`` if the curve cannot be drawn."""
        steps = len(self.errors)
        if steps == 0 or len(self.stderrs) != steps:
            raise ValueError(
                f"errors has {steps} steps and stderrs {len(self.stderrs)}; pass one of each per "
                "step, and at least one"
            )
        if not 0 <= self.best_step < steps:
            raise ValueError(f"best_step={self.best_step} must be from 0 to {steps - 1}")


class Measure(NamedTuple):
    """A measure that has a name in the literature, with its 95 % interval."""

    name: str  # such as "sensitivity"
    words: str  # what it is
    value: float
    interval: Sequence[float]
    is_share: bool = False  # whether it is written in per cent

    @property
    def with_interval(self) -> tuple[float, ...]:
        """The value and the ends of its interval, or the value alone."""
        return with_interval(self.value, self.interval)


def with_interval(value: float, ends: Sequence[float]) -> tuple[float, ...]:
    """A value and the ends of its interval; the value alone if they are not finite.

    Example:
        >>> with_interval(0.5, (0.4, 0.6)), with_interval(0.5, (0.0, math.inf))
        ((0.5, 0.4, 0.6), (0.5,))
    """
    finite = len(ends) == 2 and all(map(math.isfinite, (value, *ends)))
    return (value, *ends) if finite else (value,)


@dataclass(frozen=True)
class Estimates:
    """The estimated error and score on new rows."""

    loss_name: str  # such as "log loss"
    error: float
    error_stderr: float
    score_name: str  # "accuracy" or "R²"
    score: float
    score_stderr: float | None
    error_interval: Sequence[float] = ()  # the 95 % interval; empty if there is none
    score_interval: Sequence[float] = ()
    measures: Sequence[Measure] = ()  # others by name
    is_grouped: bool = False  # whether rows of a group were left out together
    is_weighted: bool = False

    @property
    def error_with_interval(self) -> tuple[float, ...]:
        """The error and the ends of its interval, or the error alone."""
        return with_interval(self.error, self.error_interval)

    @property
    def score_with_interval(self) -> tuple[float, ...]:
        """The score and the ends of its interval, or the score alone."""
        return with_interval(self.score, self.score_interval)

    def measure(self, name: str) -> Measure | None:
        """The measure with a name, if there is one."""
        return next((one for one in self.measures if one.name == name), None)


@dataclass(frozen=True)
class RowPredictions:
    """The training rows, each predicted as if it were new."""

    labels: Sequence[Any]
    predictions: Sequence[Any]
    classes: Sequence[str] | None = None  # in the order to show; None for numbers
    probabilities: Any = None  # of the classes, (n, K)
    calibration: Mapping[str, Any] | None = None  # what Calibration.to_dict returns
    row_names: Sequence[Any] = ()  # numbers or identifiers of the rows
    as_csv: Iterable[str] = ""  # the same as a file, in parts
    positive: str = ""  # the class to find
    in_files: bool = True  # whether files may hold values of single rows

    def __post_init__(self) -> None:
        """Raise ``ValueError`` if the numbers of labels and predictions differ."""
        if len(self.labels) != len(self.predictions):
            raise ValueError(
                f"labels has {len(self.labels)} rows and predictions {len(self.predictions)}; "
                "pass one prediction per label"
            )

    @property
    def class_to_find(self) -> int:
        """The class to find, of two; the second if none is named."""
        assert self.classes is not None
        return list(self.classes).index(self.positive) if self.positive in self.classes else 1

    @property
    def mostly_missed(self) -> list[MissedClass]:
        """The classes of which less than half of the rows are predicted right."""
        if self.classes is None:
            return []
        totals = Counter(map(str, self.labels))
        pairs = zip(self.labels, self.predictions, strict=True)
        hits = Counter(str(true) for true, predicted in pairs if str(true) == str(predicted))
        every = [MissedClass(str(k), hits[str(k)], totals[str(k)]) for k in self.classes]
        return [one for one in every if one.rows and 2 * one.hits < one.rows]


class TimePiece(NamedTuple):
    """Rows of a time, predicted by a model of the rows before them."""

    start: str
    stop: str
    rows_before: int
    rows: int
    error: float  # log loss, or RMSE in the units of the target
    stderr: float


class ErrorsOverTime(NamedTuple):
    """The errors of models of the past, and that of the next piece."""

    column: str
    name: str  # of the error
    pieces: Sequence[TimePiece]
    error: float  # of the next piece
    interval: tuple[float, ...]
    rises: bool  # whether a line through the errors was extended

    @classmethod
    def of(cls, column: str, estimate: TimeEstimate, roots: bool) -> ErrorsOverTime:
        """Take the errors of an estimate; ``roots`` takes the root of squared errors."""
        values, ends = estimate.error.value, estimate.error.interval
        if not roots:
            pieces = [TimePiece(*one[:6]) for one in estimate.pieces]
            name = estimate.evaluation.error_name
            return cls(column, name, pieces, values, ends, estimate.rises)
        pieces = []
        for one in estimate.pieces:
            size = math.sqrt(max(one.error, 0.0))
            pieces.append(TimePiece(*one[:4], size, one.stderr / (2 * max(size, 1e-300))))
        low, high = (math.sqrt(max(0.0, end)) for end in ends)
        name = "typical error (RMSE)"
        return cls(column, name, pieces, math.sqrt(values), (low, high), estimate.rises)


@dataclass(frozen=True)
class Analyses:
    """The parts of a report that take time to compute; Ctrl-C leaves some of them out."""

    contenders: Sequence[Contender] = ()  # the model, a linear model and guessing
    intervals: Sequence[IntervalWidth] = ()
    importance: Sequence[Importance] | str = ()  # columns, and the rises; or why not
    reasons: Mapping[int, str] = field(default_factory=dict)  # values that misled the model, by row
    coefficients: LinearPart | None = None
    more_rows: ErrorsByRows | str | None = None  # or why there is no forecast
    subgroups: Sequence[Subgroup] = ()  # categories, the largest error first
    missing: Sequence[str] = ()  # those that were left out, in words
    failed: Sequence[str] = ()  # those that could not be computed, in sentences
    over_time: ErrorsOverTime | None = None  # if the estimate is for later rows
    sample: Sequence[SampleRow] = ()  # the columns by class


class Origin(NamedTuple):
    """What a result was made from."""

    date: str  # in UTC
    version: str  # of this library
    fingerprint: str  # of the data: the same for the same file
    command: str  # that made it


@dataclass(frozen=True)
class ReportData:
    """What the report shows."""

    title: str  # such as "diabetes.csv: progression"
    task: Target
    n_rows: int  # rows trained on
    n_features: int  # columns after preprocessing
    training: Training
    estimate: Estimates
    rows: RowPredictions
    analyses: Analyses = field(default_factory=Analyses)
    diagnosis: Mapping[str, Any] | None = None  # what Diagnosis.to_dict returns
    notes: Sequence[str] = ()  # what preprocessing did
    next_steps: Sequence[str] = ()  # what to do now
    threshold: float = 0.0  # of the class to find, if one was chosen
    origin: Origin | None = None  # what it was made from

    @property
    def has_classes(self) -> bool:
        """Whether classes are predicted; otherwise numbers are."""
        return self.task.has_classes

    def shown(self, error: float) -> float:
        """An error as it is shown: squared errors as their roots."""
        return math.sqrt(max(0.0, error)) if self.task.roots else error

    @property
    def error_name(self) -> str:
        """The name of errors as they are shown."""
        return "typical error" if self.task.roots else self.estimate.loss_name

    @property
    def written_threshold(self) -> str:
        """From which probability on a row is given to the class to find."""
        return f"{self.threshold or 0.5:.3g}"

    @property
    def is_trusted(self) -> bool:
        """Whether the verdict is not "do not trust"."""
        return is_trusted(self.diagnosis)


def is_trusted(diagnosis: Mapping[str, Any] | None) -> bool:
    """Whether a verdict is not "do not trust"."""
    return (diagnosis or {}).get("verdict") != "do not trust"
