"""The diagnosis of a training: findings on its table, and advice for the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from decoupled_descent.app.cli.baselines import targets
from decoupled_descent.app.cli.tables import TrainingTable
from decoupled_descent.checks import percent
from decoupled_descent.evaluation.checks.check import Finding
from decoupled_descent.evaluation.checks.diagnosis import Diagnosis, diagnose_table
from decoupled_descent.evaluation.checks.of_evaluations import rows_behind
from decoupled_descent.evaluation.checks.table import Table
from decoupled_descent.quiet import ignoring
from decoupled_descent.tables.estimators import DecoupledRegressor

FEW_ROWS, SMALLEST = "rows behind the error", "smallest class"
#: The logarithm of the target is advised below this p-value. It lowered the median absolute error
#: of other rows in 15 of 40 draws of four real and four simulated tables (150 rows). It was advised
#: in 9 of these, and in none of the other 25.
CLEAR = 0.025
#: If the effective number of rows behind the error is below this, the rows are named …
NAMED = 5
#: … provided that they have this share of the error. Such a row can be a total below the table, or
#: a typing error.
MOSTLY = 0.3


def is_interrupted(estimator: Any) -> bool:
    """Whether the user interrupted training."""
    return any(one["stop_reason"] == "interrupted" for one in estimator.candidates_) or (
        estimator.stop_reason_ == "interrupted"
    )


def few_rows(prepared: TrainingTable, estimator: Any) -> str:
    """What to do about few rows that make up most of the error."""
    if prepared.task.has_classes:
        quote = "quote the interval, and how many rows of each class are found"
    else:
        quote = "quote the median absolute error as well"
        if logarithm_helps(prepared, estimator):
            quote += ", or train with --log-target"
    return _large_rows(prepared, estimator) + quote


def _large_rows(prepared: TrainingTable, estimator: Any) -> str:
    """Name the rows that make up most of the error, if they are few enough to look at."""
    losses, kept = estimator._left_out.losses, estimator._kept
    rows = np.arange(len(losses)) if kept is None else np.flatnonzero(kept)
    count = rows_behind(losses)
    first = np.argsort(-losses, kind="stable")[: max(1, round(count))]
    share = float(losses[first].sum()) / max(float(losses.sum()), 1e-300)
    if count >= NAMED or share < MOSTLY or prepared.frame is None:
        return ""
    names = ", ".join(str(prepared.frame.index[rows[k]]) for k in first)
    which = f"row{'s' * (len(first) > 1)} {names}"
    return f"check {which}, with {percent(share, decimals=0)} of the error (a mistake? a total?); "


def smallest_class(prepared: TrainingTable) -> str:
    """What to do about the smallest class."""
    names, counts = np.unique(np.asarray(prepared.y, dtype=object).astype(str), return_counts=True)
    more = f"get more rows of {str(names[counts.argmin()])!r:.40}"
    if np.sum(counts == counts.min()) > 1 and len(names) > 2:
        return f"{more} and the other small classes, or join similar classes"
    return more + ", or join it with another class" * (len(names) > 2)


def with_settings(advice: str, estimator: Any) -> str:
    """Add the chosen ridge to an advice that names the option."""
    chosen: dict[str, Any] = next((one for one in estimator.candidates_ if one["chosen"]), {})
    ridge = chosen.get("ridge")
    return advice if ridge is None else re.sub(r"--ridge\b", f"--ridge (now {ridge:.3g})", advice)


def logarithm_helps(prepared: TrainingTable, estimator: Any) -> bool:
    """Whether absolute errors are lower if the logarithm of the target is fitted.

    The chosen feature map is fitted alone in both ways, and out-of-sample errors are compared row
    by row, or group by group, with Wilcoxon's signed-rank test: a few large errors do not decide.
    """
    X, y = prepared.in_memory
    if estimator.log_target or not (y > 0).all():
        return False
    from scipy.stats import wilcoxon  # slow to import, and seldom needed

    features = next(one["features"] for one in estimator.candidates_ if one["chosen"])
    groups = prepared.groups if prepared.sample is None else None
    both = []
    for log in (False, True):
        alone = DecoupledRegressor(features=features, stack=False, members=(), log_target=log)
        with ignoring(UserWarning):
            both.append(np.abs(alone.fit(X, y, groups=groups).corrected_prediction_ - y))
    one, two = both
    gain = pd.Series(one - two)
    gain = gain if groups is None else gain.groupby(groups).mean()
    return bool(wilcoxon(gain, alternative="greater").pvalue < CLEAR)


def add(estimator: Any, prepared: TrainingTable, interrupted: bool) -> None:
    """Add findings on the table and the training to the diagnosis of an estimator.

    The advice of all findings becomes that for the command line.
    """
    table = replace(table_of(prepared), interrupted=interrupted, doubts=prepared.doubts)
    diagnosis = estimator.diagnostics_.with_findings(diagnose_table(table)).for_command_line()
    advice = _advice_on_rows(diagnosis, prepared, estimator)
    set_findings(
        estimator,
        [
            replace(one, advice=with_settings(advice.get(one.name, one.advice), estimator))
            for one in diagnosis.findings
        ],
    )


def set_findings(estimator: Any, findings: Sequence[Finding]) -> None:
    """Replace findings of an estimator: those of its evaluation, and its verdict with them."""
    estimator.evaluation_ = estimator.evaluation_.with_findings(findings)
    estimator.diagnostics_ = estimator.evaluation_.diagnosis


def _advice_on_rows(
    diagnosis: Diagnosis, prepared: TrainingTable, estimator: Any
) -> dict[str, str]:
    """Advice that names rows or classes of the table, by check."""
    advice = {}
    if any(one.name == FEW_ROWS and one.status != "ok" for one in diagnosis.findings):
        advice[FEW_ROWS] = few_rows(prepared, estimator)
    if prepared.task.has_classes:
        advice[SMALLEST] = smallest_class(prepared)
    return advice


def table_of(prepared: TrainingTable) -> Table:
    """The columns of a table, each as one number per row, and its identifiers.

    Columns of free text are left out: too many numbers are made of them.
    """
    X, labels = prepared.in_memory
    names, values, start = [], [], 0
    for column in prepared.columns.columns:
        stop = start + len(column.outputs)
        block, start = X[:, start:stop], stop
        if not column.has_many_numbers:
            names.append(column.name)
            values.append(
                block[:, 0] if block.shape[1] == 1 else block @ np.arange(1.0, 1 + len(block.T))
            )
    keys = np.stack(values, 1) if values else np.empty((len(X), 0))
    return Table(names, keys, targets(prepared.task, labels), prepared.repeated)
