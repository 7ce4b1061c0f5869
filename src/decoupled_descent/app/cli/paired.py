"""Paired differences of the left-out losses of two results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from decoupled_descent.app.cli.left_out import GROUP, TRUE, is_foreign, left_out_file
from decoupled_descent.checks import interval
from decoupled_descent.evaluation import Evaluation
from decoupled_descent.evaluation.kinds import NUMBERS, OF_LOSS, Kind
from decoupled_descent.tensor_file import model_file, read_header

#: What the names of columns of probabilities begin with.
PROBABILITY = "probability_"
#: The only measure of which more is better; it is a share of rows.
ACCURACY = "accuracy"
#: For numbers and for classes: a measure beside the loss, its metric, and its name among stored
#: estimates.
MEASURES = (("absolute error", "mae", ""), (ACCURACY, "accuracy", "estimated_accuracy_"))


class PairedMeasure(NamedTuple):
    """A mean over the rows for both results, and the difference of the two."""

    name: str
    means: tuple[float, float]
    difference: float  # the first minus the second
    stderr: float
    is_share: bool = False  # whether it is written in per cent
    higher_is_better: bool = False

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the difference."""
        return interval(self.difference, self.stderr)

    @property
    def better(self) -> int | None:
        """The number of the better result, 0 or 1; None if the interval contains 0."""
        low, high = self.interval
        if low <= 0 <= high:
            return None
        return int((low > 0) != self.higher_is_better)


class ResultComparison(NamedTuple):
    """Two results on the same rows."""

    names: tuple[str, str]
    target: str
    rows: int
    groups: int  # 0 if rows were left out one by one
    measures: tuple[PairedMeasure, ...]  # the first is the loss
    alarms: tuple[tuple[str, ...], ...] = ((), ())  # why the estimates are not to be trusted

    @property
    def notes(self) -> list[str]:
        """A sentence for each result whose estimate is not to be trusted."""
        return [
            f"Do not rely on this: the verdict on {name} is “do not trust” ({', '.join(alarms)})."
            for name, alarms in zip("AB", self.alarms, strict=True)
            if alarms
        ]

    @property
    def words(self) -> str:
        """Which result is better, in one sentence."""
        loss = self.measures[0]
        if loss.difference == loss.stderr == 0:
            return f"No difference: each row has the same {loss.name} in both."
        if loss.better is None:
            return (
                f"No clear difference: the interval of the difference in {loss.name} contains 0. "
                "Take the simpler model."
            )
        better, worse = ("A", "B") if loss.better == 0 else ("B", "A")
        return (
            f"{better} is better than {worse}: its {loss.name} is lower, and the interval of the "
            "difference does not contain 0."
        )


class Result(NamedTuple):
    """What one training stored about its rows."""

    name: str
    fingerprint: str  # of the data
    target: str
    table: pd.DataFrame  # the rows, by their numbers
    alarms: tuple[str, ...]  # the checks behind “do not trust”
    estimates: Mapping[str, float]  # that were stated, if they are of single rows left out
    kind: Kind  # of its predictions


def compared(first: Path, second: Path) -> ResultComparison:
    """Compare two results, or raise ``ValueError`` if they are not of the same rows."""
    a, b = (read(one) for one in (first, second))
    if a.target != b.target:
        raise ValueError(
            f"{a.name} predicts {a.target!r} and {b.name} predicts {b.target!r}; compare results "
            "of the same target"
        )
    if a.fingerprint != b.fingerprint:
        raise ValueError(
            f"{a.name} and {b.name} were trained on different files (fingerprints {a.fingerprint} "
            f"and {b.fingerprint}); train both on one file: --drop COLUMN leaves out columns"
        )
    true = f"{TRUE}{a.target}"
    if not a.table[true].equals(b.table[true]):
        raise ValueError(
            f"{a.name} and {b.name} have other rows or other values of {a.target!r}; train both "
            "with the same options about rows and target"
        )
    if list(a.table.columns) != list(b.table.columns) or not _same_groups(a.table, b.table):
        raise ValueError(
            f"{a.name} and {b.name} differ in the task, the classes or the groups (--group), so "
            "their errors are not of the same kind; train both with the same options about these"
        )
    codes = pd.factorize(a.table[GROUP])[0] if GROUP in a.table else None
    groups = 0 if codes is None else int(codes.max()) + 1
    return ResultComparison(
        (a.name, b.name), a.target, len(a.table), groups, _measures(a, b, codes),
        (a.alarms, b.alarms),
    )  # fmt: skip


def read(folder: Path) -> Result:
    """Read the left-out predictions of a result, or raise ``ValueError`` if it has none."""
    about = json.loads(read_header(model_file(folder))[0])
    fingerprint = dict(about.get("made_with") or {}).get("data")
    path = left_out_file(folder)
    if not path.exists():
        raise ValueError(
            f"{folder}: has no {path.name}, which has the predictions to compare; train again "
            "without --no-rows"
        )
    if not fingerprint or not about.get("target") or is_foreign(folder):
        raise ValueError(
            f"{path}: was edited, or is not of this training or version; train again to compare"
        )
    table = pd.read_csv(path, dtype=str, keep_default_na=False).set_index("row")
    table = table.drop(columns="fingerprint")
    alarms = tuple(one["name"] for one in about["findings"] if one["status"] == "alarm")
    later = about.get("how") == "later rows"
    kind = OF_LOSS[about["mixture"]["loss"]]
    estimates = {} if later else {k: v for k, v in about["estimates"].items() if v is not None}
    return Result(str(folder), str(fingerprint), about["target"], table, alarms, estimates, kind)


def _same_groups(a: pd.DataFrame, b: pd.DataFrame) -> bool:
    """Whether the rows are in the same groups, or in none."""
    return GROUP not in a or bool((pd.factorize(a[GROUP])[0] == pd.factorize(b[GROUP])[0]).all())


def _measures(a: Result, b: Result, groups: NDArray[Any] | None) -> tuple[PairedMeasure, ...]:
    """The differences of all measures of a task.

    Errors and scores are those that were stated at training, if they are of the same rows; the
    standard error of their difference is that of the rows.
    """
    classes = any(name.startswith(PROBABILITY) for name in a.table.columns)
    make = _of_classes if classes else _of_numbers
    one, other = make(a, groups), make(b, groups)
    measures = []
    same = a.kind == b.kind  # a model of counts may be compared with one of squared errors
    kind = a.kind if same else NUMBERS
    error = (kind.error_name, kind.metric, "estimated_test_error_" if same else "")
    for name, metric, stated in (error, MEASURES[classes]):
        found = one.compare(other, metric)
        known = all(stated in each.estimates for each in (a, b))
        pairs = ((a, one), (b, other))
        first, second = (
            each.estimates[stated] if known else rows.estimate(metric).value for each, rows in pairs
        )
        means = first, second
        gap = means[0] - means[1]
        measures.append(
            PairedMeasure(name, means, gap, found.stderr, name == ACCURACY, name == ACCURACY)
        )
    return tuple(measures)


def _of_classes(result: Result, groups: NDArray[Any] | None) -> Evaluation:
    """Left-out probabilities, and the decisions that were stored."""
    table, true = result.table, result.table[f"{TRUE}{result.target}"]
    names = [one for one in table.columns if one.startswith(PROBABILITY)]
    places = {name.removeprefix(PROBABILITY): k for k, name in enumerate(names)}

    def codes(texts: pd.Series) -> NDArray[np.int64]:
        # an apostrophe was put before labels that look like formulas
        found = [places.get(one, places.get(one.removeprefix("'"), 0)) for one in texts]
        return np.array(found, np.int64)

    shares = table[names].astype(np.float64).to_numpy()
    return Evaluation.of(codes(true), shares, decided=codes(table["prediction"]), groups=groups)


def _of_numbers(result: Result, groups: NDArray[Any] | None) -> Evaluation:
    """Left-out numbers, in the units of the target."""
    true = result.table[f"{TRUE}{result.target}"].astype(np.float64).to_numpy()
    numbers = result.table["prediction"].astype(np.float64).to_numpy()
    return Evaluation.of(true, numbers, result.kind, groups=groups)


def to_dict(result: ResultComparison) -> dict[str, Any]:
    """Return the comparison for machines."""
    return {
        "results": result.names,
        "target": result.target,
        "rows": result.rows,
        "groups": result.groups or None,
        "measures": {
            one.name: {
                "means": one.means,
                "difference": one.difference,
                "stderr": one.stderr,
                "interval": one.interval,
                "better": None if one.better is None else result.names[one.better],
            }
            for one in result.measures
        },
        "summary": result.words,
        "notes": result.notes,
    }
