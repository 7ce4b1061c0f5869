"""Findings that need the table, which the checks of the estimators do not see."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import fdtrc

from decoupled_descent.app.cli.baselines import alone, is_log, losses_of, said_of, targets
from decoupled_descent.app.cli.tables import Prepared
from decoupled_descent.app.tables.column import LEVELS
from decoupled_descent.checks import percent
from decoupled_descent.diagnostics.checks import STATUSES, Finding
from decoupled_descent.diagnostics.diagnosis import Diagnosis
from decoupled_descent.diagnostics.measures import rows_behind

#: What to do about a check, in terms of the options of the command line.
ADVICE = {
    "uncorrected error": "train with --method newton",
    "memorised rows": "train with --method newton",
    "rows": "get more rows, or train with --method newton",
    "rows per column": "drop columns that cannot matter with --drop, and look at the verdict after "
    "training",
    "duplicate rows": "delete the duplicates; or, if a column says which rows are of the same "
    "person or thing, train with --group and its name",
    "leverage": "train with a larger --ridge, or drop columns that are zero in almost all rows "
    "with --drop",
    "spectrum": "train with --method newton",
    "scale": "train with --method newton",
    "fitted error": "train without --method, with a larger --ridge, or with a smaller --max-iter",
    "correction": "the interval is already wider; --method newton needs no such correction",
    "Stein's identity": "train with --method newton",
    "row norms": "train with --method newton, which does not assume rows of equal size",
    "long tails": "train with --method newton, which does not assume Gaussian rows",
    "head": "train with a smaller --hidden",
    "rows that belong together": "train with --group and the column that says which rows belong "
    "together",
    "unusually similar rows": "if they belong together (one patient, one thing), train with "
    "--group and the column that says so",
    "neighbouring rows": "if rows belong together, train with --group and the column that says so",
    "winner's curse": "nothing: the estimate and its interval allow for it",
    "distance from the minimum": "train with a larger --ridge",
    "refitted rows": "train with a larger --ridge, or get more rows",
    "divergence": "train with a smaller --lr or --damping",
}

LEAK = "column that leaks the target"
#: The correlation within groups is significant below this p-value …
CHANCE = 0.01
#: … and is reported from these intraclass correlations on. The targets of a patient's rows are also
#: similar because the columns are, which does no harm. On 30 simulated tables (40 patients of 6
#: rows) the log odds had a random part for each patient, of standard deviation 0, 0.3, 0.6, 1, 2
#: and 4. The correlation was 0.13, 0.11, 0.15, 0.24, 0.41 and 0.63 on average, and the error was
#: too low by −0.6, −0.5, −0.1, 1.0, 3.3 and 7.3 standard errors.
SOME, MUCH = 0.2, 0.3
#: A single column that explains this share of the target's variance is suspicious. On twenty real
#: tables the best column explained between 0 and 0.83 of it.
PERFECT = 0.95
FEW = "rows behind the error"
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


def few_rows(prepared: Prepared, estimator: Any) -> str:
    """What to do about few rows that make up most of the error."""
    losses = losses_of(estimator, said_of(estimator), prepared.y)
    if prepared.task == "classification":
        quote = "quote the interval, and how many rows of each class are found"
    else:
        quote = "quote the median absolute error as well"
        if logarithm_helps(prepared, estimator):
            quote += ", or train with --log-target"
    return _large_rows(prepared, losses) + quote


def _large_rows(prepared: Prepared, losses: NDArray[np.float64]) -> str:
    """Name the rows that make up most of the error, if they are few enough to look at."""
    count = rows_behind(torch.from_numpy(losses))
    first = np.argsort(-losses, kind="stable")[: max(1, round(count))]
    share = float(losses[first].sum()) / max(float(losses.sum()), 1e-300)
    if count >= NAMED or share < MOSTLY or prepared.frame is None:
        return ""
    names = ", ".join(str(prepared.frame.index[k]) for k in first)
    rows = f"row{'s' * (len(first) > 1)} {names}"
    return f"check {rows}, with {percent(share, decimals=0)} of the error (a mistake? a total?); "


def fewest(prepared: Prepared) -> str:
    """What to do about the smallest class."""
    names, counts = np.unique(np.asarray(prepared.y, dtype=object).astype(str), return_counts=True)
    more = f"get more rows of {str(names[counts.argmin()])!r:.40}"
    if np.sum(counts == counts.min()) > 1 and len(names) > 2:
        return f"{more} and the other small classes, or join similar classes"
    return more + ", or join it with another class" * (len(names) > 2)


def with_settings(advice: str, estimator: Any) -> str:
    """Add the chosen values to the options that an advice names."""
    chosen: dict[str, Any] = next((one for one in estimator.candidates_ if one["chosen"]), {})
    known = {name: chosen.get(name) for name in ("ridge", "lr", "damping")}
    known["max-iter"] = getattr(estimator, "max_iter", None)
    for name, value in known.items():
        if isinstance(value, int | float):
            advice = re.sub(rf"--{name}\b", f"--{name} (now {value:.3g})", advice)
    return advice


def logarithm_helps(prepared: Prepared, estimator: Any) -> bool:
    """Whether absolute errors are lower if the logarithm of the target is fitted.

    The chosen feature map is fitted alone in both ways, and out-of-sample errors are compared row
    by row, or group by group, with Wilcoxon's signed-rank test: a few large errors do not decide.
    """
    X, y = prepared.in_memory
    if is_log(estimator) or estimator.method_ != "newton" or not (y > 0).all():
        return False
    from scipy.stats import wilcoxon  # slow to import, and seldom needed

    features = next(one["features"] for one in estimator.candidates_ if one["chosen"])
    groups = prepared.groups if prepared.sample is None else None
    given = {"X": X, "y": y, "groups": groups}
    one, two = (
        np.abs(said_of(alone("regression", given, features, log)) - y) for log in (False, True)
    )
    gain = pd.Series(one - two)
    gain = gain if groups is None else gain.groupby(groups).mean()
    return bool(wilcoxon(gain, alternative="greater").pvalue < CLEAR)


def joined(
    diagnosis: Diagnosis, found: list[Finding], advice: Mapping[str, str] = ADVICE
) -> Diagnosis:
    """Add findings to those of a diagnosis, the most serious first; ``advice`` is by check."""
    known = [replace(one, advice=advice.get(one.name, one.advice)) for one in diagnosis.findings]
    return Diagnosis(tuple(sorted([*found, *known], key=severity, reverse=True)))


def severity(finding: Finding) -> int:
    """The place of a finding among others: the larger, the more serious."""
    return STATUSES.index(finding.status)


def add(estimator: Any, prepared: Prepared, interrupted: bool) -> None:
    """Add findings on the table and on the training to the diagnosis of an estimator."""
    found = of_table(prepared) + ([stopped()] if interrupted else [])
    words = dict(ADVICE)
    if any(one.name == FEW and one.status != "ok" for one in estimator.diagnostics_.findings):
        words[FEW] = few_rows(prepared, estimator)
    words |= {"smallest class": fewest(prepared)} if prepared.task == "classification" else {}
    words = {name: with_settings(text, estimator) for name, text in words.items()}
    estimator.diagnostics_ = joined(estimator.diagnostics_, found, words)


def of_table(prepared: Prepared) -> list[Finding]:
    """Findings on identifiers that were not used, and on columns that may leak the target."""
    found = [_belonging(prepared, name, values) for name, values in prepared.repeated]
    return [*found, *_leaks(prepared)]


def _belonging(prepared: Prepared, name: str, groups: NDArray[Any]) -> Finding:
    """Do rows with the same identifier have similar targets?"""
    share, chance = likeness(targets(prepared.task, prepared.y), groups)
    likely = STATUSES[1 + (share >= SOME) + (share >= MUCH)]
    status = "ok" if chance > CHANCE else likely
    return Finding(
        "rows with the same identifier", share,
        f"note if significant (p < {CHANCE:g}), caution from {SOME:g}, alarm from {MUCH:g}", status,
        f"Rows with the same {name!r} have similar targets. Every row was predicted from others "
        "with the same value. For new values the error may be higher.",
        f"train with --group {shlex.quote(name)}, which leaves all rows of one value out together",
        "intraclass correlation of the target within the values of the column; F test",
    )  # fmt: skip


def likeness(y: NDArray[np.float64], groups: NDArray[Any]) -> tuple[float, float]:
    r"""Intraclass correlation of the rows in groups, and its p-value.

    .. math:: \rho = (F - 1)/(F - 1 + m)

    F is the ratio of the variances between and within groups, m the mean size of a group.
    """
    grouped = pd.DataFrame(y).groupby(groups)
    means = grouped.transform("mean").to_numpy()
    between, within = np.square(means - y.mean(0)).sum(), np.square(y - means).sum()
    a, b = grouped.ngroups - 1, len(y) - grouped.ngroups
    ratio = float(between / a / max(within / b, 1e-300))
    degrees = max(1, y.shape[1] - 1)
    share = max(0.0, (ratio - 1) / (ratio - 1 + len(y) / grouped.ngroups))
    return share, float(fdtrc(a * degrees, b * degrees, ratio))


def _leaks(prepared: Prepared) -> list[Finding]:
    """Columns each of which alone predicts the target almost perfectly."""
    X, labels = prepared.in_memory
    once = np.unique(X, axis=0, return_index=True)[1]  # any column identifies duplicate rows
    X, y, start, found = X[once], targets(prepared.task, labels)[once], 0, []
    for column in prepared.columns.columns:
        stop = start + len(column.outputs)
        share = explained(X[:, start:stop], y) if column.kind != "text" else 0.0
        if share >= PERFECT:
            found.append(
                Finding(
                    LEAK,
                    share,
                    f"caution from {PERFECT:g}",
                    "caution",
                    f"{column.name!r} alone predicts the target almost perfectly. If its values "
                    "are not known before the target is, the model is useless for new rows.",
                    _remedy(column.name, X[:, start:stop]),
                    "share of the target's variance that rows with the same or the next value "
                    "explain",
                )
            )
        start = stop
    return found


def _remedy(name: str, block: NDArray[np.float64]) -> str:
    """What to do about a column that explains the target; its values may number patients."""
    values, option = block[:, 0], shlex.quote(name)
    numbers = len(np.unique(values))
    if (values == np.round(values)).all() and LEVELS < numbers <= len(values) / 2:
        return (
            f"if it says which rows belong together (one patient, one thing), train with --group "
            f"{option}; if its values are not known before the target is, with --drop {option}"
        )
    return f"if so, train with --drop {option}"


def explained(block: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Share of the target's variance that neighbours in the order of one column explain.

    A row is predicted by the mean of the other rows with the same value, or by the mean of its two
    neighbours if it is the only one.
    """
    variance = float(np.square(y - y.mean(0)).sum())
    keys = block[:, 0] if block.shape[1] == 1 else block @ np.arange(1.0, block.shape[1] + 1)
    grouped = pd.DataFrame(y).groupby(keys)
    if grouped.ngroups < 2 or variance <= 0:
        return 0.0
    counts = grouped.transform("size").to_numpy()[:, None]
    others = (grouped.transform("sum") - y) / np.maximum(counts - 1, 1)
    below, above = grouped.mean().shift(1), grouped.mean().shift(-1)
    near = (below.fillna(above) + above.fillna(below)) / 2  # at the ends there is one neighbour
    guess = np.where(counts == 1, near.loc[keys], others)
    return 1 - float(np.square(y - guess).sum()) / variance


def stopped(missing: Sequence[str] = ()) -> Finding:
    """The finding on an interrupted training, or on a report of which parts are missing."""
    reason = "Training was stopped before its end. Better models may not have been tried."
    if missing:
        reason = f"The model is complete, but not what is said of it: {', '.join(missing)}."
    return Finding(
        "interrupted", 1.0, "caution from 1", "caution", reason,
        "train again and let it finish",
        "1 after Ctrl-C",
    )  # fmt: skip
