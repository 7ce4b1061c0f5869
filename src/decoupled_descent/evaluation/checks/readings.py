"""What the checks read from rows and runs: a number, and what its words need.

One function per check; the numbers of several checks are in :mod:`measures`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from decoupled_descent.checks import percent
from decoupled_descent.evaluation.checks import companions, measures
from decoupled_descent.evaluation.checks import drift as drifts
from decoupled_descent.evaluation.checks import duplicates as duplicate_rows
from decoupled_descent.evaluation.checks.check import MOST_TOGETHER, Evidence, Reading

#: The standard deviation of (train − test)/stderr is about √(1 + (WIDENING δ)²), where δ is the
#: correction in standard deviations of a row's loss. This was measured: see docs/diagnostics.md.
WIDENING = 2.0
#: A rise for rows in their order counts as chance below this many of its standard errors.
CHANCE = 2
#: The most columns of times that are looked at.
MOST_TIMES = 3
#: How the effect of duplicates was computed: expected, or measured.
EXPECTED = "share of duplicates × ½√min(n, d): the expected bias, in standard errors"
MEASURED = "the rise of the error if rows are left out with their duplicates, in standard errors"
#: Duplicates at a minimum are a caution from here on, as rows that belong together are.
SERIOUS = 0.5
#: A remark on a table that is sorted by its target.
SORTED_BY_LABEL = (
    " The table is sorted by its target. If it was sorted by something else as well, this may be "
    "the reason."
)


def duplicates(e: Evidence) -> Reading:
    """The effect of duplicates in standard errors: measured at a minimum, expected elsewhere."""
    first = None if e.rows.groups is None else _first(e.rows.groups)
    pairs = duplicate_rows.find(e.rows, first)  # groups are left out as one
    if e.columns is not None and pairs.share > 0:  # rows must agree in both
        pairs = pairs.both(duplicate_rows.find(e.columns, first))
    share, d = pairs.share, (e.rows if e.columns is None else e.columns).d
    value, how = share * 0.5 * math.sqrt(min(e.rows.n, d)), EXPECTED
    if e.minimum and e.run is not None and share > 0 and e.rows.n <= MOST_TOGETHER:
        rise = duplicate_rows.rise_without(e.run, e.rows, pairs)
        if rise is not None:
            value, how = max(0.0, rise) / e.best_step.stderr, MEASURED
    most = "note" if e.minimum and value < SERIOUS else "alarm"
    return Reading(value, {"share": percent(share), "how": how}, most)


def _first(groups: Tensor) -> Tensor:
    """The first row of each group."""
    _, codes = torch.unique(groups, return_inverse=True)
    order = torch.arange(len(codes), device=codes.device)
    return torch.full_like(order, len(order)).scatter_reduce_(0, codes, order, "amin")[
        : int(codes.max()) + 1
    ]


def smallest(e: Evidence) -> Reading | None:
    """Rows of the smallest class, or groups with such rows."""
    if not e.classes:
        return None
    pairs = e.groups.unsqueeze(0)
    if e.rows.groups is not None:
        pairs = torch.unique(torch.stack([e.groups, e.rows.groups]), dim=1)
    count = int(torch.bincount(pairs[0]).min())
    return Reading(count, {}, ("note" if count >= 3 else "caution") if e.minimum else "alarm")


def leverage(e: Evidence) -> Reading | None:
    """The largest leverage; only a note if the correction is small."""
    leverages = e.algorithm.leverages(e.rows)
    if leverages is None:
        return None
    small = (
        e.run is not None and abs(e.best_step.correction) < 1
    )  # then nothing depends on leverage
    return Reading(float(leverages.max()), most="note" if small else "caution")


def correction(e: Evidence) -> Reading:
    """The correction in standard deviations of a row's loss."""
    share = abs(e.best_step.correction) / math.sqrt(e.rows.n)
    return Reading(share, {"factor": spread(share)})


def spread(share: float) -> float:
    """The standard deviation of (train − test)/stderr, given the correction."""
    return math.hypot(1, WIDENING * share)


def stein(e: Evidence) -> Reading:
    """The violation of Stein's identity times the correction."""
    residual = measures.stein_residual(e.best_step, e.groups)
    most = "caution" if "leverage" in e.traits else "alarm"
    return Reading(
        residual * abs(e.best_step.correction), {"share": percent(residual, decimals=0)}, most
    )


def fitted_share(e: Evidence) -> float | None:
    """The loss at the uncorrected outputs, divided by the estimate."""
    mean = float(e.best_step.losses.mean())
    return (mean - e.best_step.correction * e.best_step.stderr) / mean if mean > 0 else None


def head(e: Evidence) -> float:
    """Trained parameters of the head per row, in standard errors."""
    assert e.run is not None
    trained = e.run.best_state.head.values() if e.algorithm.trains_head else ()
    parameters: int = sum(value.numel() for value in trained)
    return parameters / e.rows.n / e.best_step.stderr


def curse(e: Evidence) -> Reading | None:
    """The optimism of the lowest of several errors, in standard errors."""
    if e.optimism is None:
        return None
    value = e.optimism / (e.stderr or e.best_step.stderr)
    return Reading(value, {}, "note" if e.minimum and value < 2 else "alarm")


def together(e: Evidence) -> Reading | None:
    """The rise of the error in standard errors, 0 if it may be chance; None with groups.

    The order of a sorted table is not that in which rows were collected: no alarm follows from it.
    """
    if e.rows.groups is not None or e.rows.n > MOST_TOGETHER or e.run is None:
        return None
    columns = e.rows if e.columns is None else e.columns
    by_label = False
    if e.rows.y.ndim == 1:
        values = columns.X if columns.in_memory else columns.gather(torch.arange(e.rows.n))
        by_label, completely = measures.sorting(e.rows.y, values)
        if completely:
            return None
    if e.blocks is None:
        return None
    rise = e.blocks.rise()
    value = rise.mean / e.best_step.stderr if rise.mean > CHANCE * rise.stderr else 0.0
    words = {"order": SORTED_BY_LABEL if by_label else ""}
    return Reading(value, words, "caution" if by_label else "alarm")


def in_blocks(e: Evidence) -> float | None:
    """The rise of the error if random rows leave with each, in standard errors; 0 if by chance."""
    if e.blocks is None:
        return None
    rise = e.blocks.rise_above(e.best_step.losses)
    return rise.mean / e.best_step.stderr if rise.mean > CHANCE * rise.stderr else 0.0


def similar(e: Evidence) -> Reading | None:
    """The rise of the error in standard errors, 0 if it may be chance; None with groups."""
    if e.rows.groups is not None or not 10 <= e.rows.n <= companions.MOST_COMPARED or not e.run:
        return None
    run = e.run
    columns = e.rows if e.columns is None else e.columns
    X = columns.gather(torch.arange(e.rows.n, device=columns.like.device)).double().cpu().numpy()

    def losses_without(groups: companions.Indices) -> companions.Floats | None:
        losses = measures.losses_left_out(run, e.rows, torch.from_numpy(groups))
        return None if losses is None else losses.cpu().numpy()

    effect = companions.companion_effect(losses_without, X)
    if effect is None or effect.certain_rise == 0:
        return Reading(0.0, {"share": percent(0, decimals=0)})
    return Reading(effect.rise / e.best_step.stderr, {"share": percent(effect.share, decimals=0)})


def drift(e: Evidence) -> Reading | None:
    """The largest rise of the error without rows of the same period, in standard errors.

    0 if it may be chance; None with groups, few or many rows, or no column of times. A column that
    only grows with the row may be what the table was sorted by: no alarm follows from it.
    """
    if e.rows.groups is not None or not drifts.FEWEST <= e.rows.n <= MOST_TOGETHER or e.run is None:
        return None
    largest = None
    for column in drifts.time_columns(e)[:MOST_TIMES]:
        rise = drifts.rise_without_period(e.run, e.rows, column.values)
        if rise is None:
            return None
        value = rise.mean / e.best_step.stderr if rise.mean > rise.stderr else 0.0
        if largest is None or value > largest.value:
            most = "alarm" if column.is_certain else "caution"
            largest = Reading(value, {"name": column.name}, most)
    return largest


def refitted(e: Evidence) -> float:
    """The share of rows for which the leave-one-out formula is doubtful."""
    assert e.run is not None
    notes = e.run.best.info.notes
    return (notes.get("repaired", 0) + notes.get("doubtful", 0)) / e.rows.n
