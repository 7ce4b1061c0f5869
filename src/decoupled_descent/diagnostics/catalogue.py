r"""All checks. To add one, add an object to :data:`CHECKS` and a test.

The common unit is the standard error of the train error. A corrected run has moved its train error
by Δ standard errors away from the loss of the uncorrected outputs. If an assumption is wrong by a
fraction r, the expected bias is about r Δ standard errors. Duplicate rows also make Δ itself wrong,
so for them ½√min(n, d) replaces Δ, which is its order of magnitude. docs/diagnostics.md shows how
often the verdicts are right, and why some checks are only notes.
"""

from __future__ import annotations

import math

import torch
from scipy.special import stdtrit
from torch import Tensor

from decoupled_descent.checks import percent
from decoupled_descent.diagnostics import companions, copies, measures
from decoupled_descent.diagnostics.checks import Check, Evidence, Reading
from decoupled_descent.training.callbacks import StopReason

#: The standard deviation of (train − test)/stderr is about √(1 + (WIDENING δ)²), where δ is the
#: correction in standard deviations of a row's loss. This was measured: see docs/diagnostics.md.
WIDENING = 2.0
#: With more rows than this, leaving them out in blocks takes too long.
MOST_TOGETHER = 5000
#: With more rows than this, not all pairs are compared.
MOST_COMPARED = 2000
#: Rises below so many standard errors of their own count as chance, for rows in their order and
#: for similar rows: 1 of 49 draws of real tables without groups passes the second.
CHANCE, CHANCE_SIMILAR = 2, 3
#: How the effect of duplicates was computed: expected, or measured.
EXPECTED = "share of duplicates × ½√min(n, d): the expected bias, in standard errors"
MEASURED = "the rise of the error if rows are left out with their duplicates, in standard errors"
#: Duplicates at a minimum are a caution from here on, as rows that belong together are.
SERIOUS = 0.5
#: What to report if a few rows dominate the error, for classes and for numbers.
REMEDIES = (
    "report the accuracy, or a bounded loss, as well",
    "report the median absolute error as well, or predict the logarithm of a skewed target",
)
#: What is said of a table that is sorted by its target.
SORTED_BY_LABEL = (
    " The table is sorted by its target. If it was sorted by something else as well, this may be "
    "the reason."
)
ORTHOGONAL = "use the orthogonal method (OrthogonalDecoupledDescent)"
#: Traits of algorithms: the estimate holds along the path, at the minimum only, or never.
PATH, MINIMUM = frozenset({"path"}), frozenset({"minimum"})
UNCORRECTED = frozenset({"uncorrected"})


def _duplicates(e: Evidence) -> Reading:
    first = None if e.rows.groups is None else _first(e.rows.groups)
    found = copies.copies(e.rows, first)  # groups are left out as a whole
    if e.columns is not None and found.share > 0:  # rows must agree in both
        found = found.both(copies.copies(e.columns, first))
    share, d = found.share, (e.rows if e.columns is None else e.columns).d
    value, how = share * 0.5 * math.sqrt(min(e.rows.n, d)), EXPECTED
    if e.minimum and e.run is not None and share > 0 and e.rows.n <= MOST_TOGETHER:
        rise = copies.rise(e.run, e.rows, found)
        if rise is not None:
            value, how = max(0.0, rise) / e.seen.stderr, MEASURED
    most = "note" if e.minimum and value < SERIOUS else "alarm"
    return Reading(value, {"share": percent(share), "how": how}, most)


def _first(groups: Tensor) -> Tensor:
    """The first row of each group."""
    _, codes = torch.unique(groups, return_inverse=True)
    order = torch.arange(len(codes), device=codes.device)
    return torch.full_like(order, len(order)).scatter_reduce_(0, codes, order, "amin")[
        : int(codes.max()) + 1
    ]


def _smallest(e: Evidence) -> Reading | None:
    """Rows of the smallest class, or groups with such rows."""
    if not e.classes:
        return None
    pairs = e.groups.unsqueeze(0)
    if e.rows.groups is not None:
        pairs = torch.unique(torch.stack([e.groups, e.rows.groups]), dim=1)
    count = int(torch.bincount(pairs[0]).min())
    return Reading(count, {}, ("note" if count >= 3 else "caution") if e.minimum else "alarm")


def _leverage(e: Evidence) -> Reading | None:
    leverages = e.algorithm.leverages(e.rows)
    if leverages is None:
        return None
    small = e.run is not None and abs(e.seen.correction) < 1  # then nothing depends on leverage
    return Reading(float(leverages.max()), most="note" if small else "caution")


def _correction(e: Evidence) -> Reading:
    share = abs(e.seen.correction) / math.sqrt(e.rows.n)
    return Reading(share, {"factor": _spread(share)})


def _spread(share: float) -> float:
    return math.hypot(1, WIDENING * share)


def _stein(e: Evidence) -> Reading:
    residual = measures.stein_residual(e.seen, e.groups)
    most = "caution" if "leverage" in e.traits else "alarm"
    return Reading(
        residual * abs(e.seen.correction), {"share": percent(residual, decimals=0)}, most
    )


def _rows_behind(e: Evidence) -> Reading:
    assert e.run is not None
    remedy = REMEDIES[e.run.objective.loss.name in ("squared", "absolute")]
    return Reading(measures.rows_behind(e.seen.losses), {"remedy": remedy})


def _student(rows: float) -> float:
    """t_{2m}/t_∞: m rows estimate a variance as well as 2m degrees of freedom (Satterthwaite)."""
    quantiles = stdtrit([max(1.0, 2 * rows), math.inf], 0.975)
    return float(quantiles[0] / quantiles[1])


def _fitted_share(e: Evidence) -> float | None:
    mean = float(e.seen.losses.mean())
    return (mean - e.seen.correction * e.seen.stderr) / mean if mean > 0 else None


def _head(e: Evidence) -> float:
    assert e.run is not None
    trained = e.run.best_state.head.values() if e.algorithm.trains_head else ()
    parameters: int = sum(value.numel() for value in trained)
    return parameters / e.rows.n / e.seen.stderr


def _curse(e: Evidence) -> Reading | None:
    if e.optimism is None:
        return None
    value = e.optimism / (e.stderr or e.seen.stderr)
    return Reading(value, {}, "note" if e.minimum and value < 2 else "alarm")


def _together(e: Evidence) -> Reading | None:
    """The rise of the error in standard errors, 0 if it may be chance; None with groups.

    The order of a sorted table is not that in which rows were collected: no alarm follows from it.
    """
    if e.rows.groups is not None or e.rows.n > MOST_TOGETHER or e.run is None:
        return None
    columns = e.rows if e.columns is None else e.columns
    by_label = False
    if e.rows.y.ndim == 1:
        every = columns.X if columns.in_memory else columns.gather(torch.arange(e.rows.n))
        by_label, wholly = measures.sorting(e.rows.y, every)
        if wholly:
            return None
    found = measures.blocks_left_out(e.run, e.rows, e.groups)
    if found is None:
        return None
    rise = found.rise / e.seen.stderr if found.rise > CHANCE * found.stderr else 0.0
    words = {"order": SORTED_BY_LABEL if by_label else ""}
    return Reading(rise, words, "caution" if by_label else "alarm")


def _similar(e: Evidence) -> Reading | None:
    """The rise of the error in standard errors, 0 if it may be chance; None with groups."""
    if e.rows.groups is not None or not 10 <= e.rows.n <= MOST_COMPARED or e.run is None:
        return None
    columns = e.rows if e.columns is None else e.columns
    X = columns.gather(torch.arange(e.rows.n, device=columns.like.device)).double().cpu().numpy()
    found = companions.company(e.run, e.rows, X)
    if found is None or found.rise <= CHANCE_SIMILAR * found.stderr:
        return Reading(0.0, {"share": percent(0, decimals=0)})
    return Reading(found.rise / e.seen.stderr, {"share": percent(found.share, decimals=0)})


def _few(e: Evidence) -> Reading | None:
    """How uncertain the standard error of a squared error is, if the errors are normal.

    The variance of N losses of kurtosis κ is known to a share √((κ − 1)/N), its root to half of
    it. Squared normal errors have κ = 15, sums of K of them 3 + 12/K. For classes the stated
    probabilities give the variance of the loss, and intervals hold with few rows, too.
    """
    if e.run is None or e.run.objective.loss.name != "squared":
        return None
    count = e.rows.n if e.rows.groups is None else int(torch.unique(e.rows.groups).numel())
    outputs = 1 if e.rows.y.ndim == 1 else e.rows.y.shape[1]
    kind = "rows" if e.rows.groups is None else "groups"
    share = 0.5 * math.sqrt((2 + 12 / outputs) / count)
    return Reading(share, {"count": count, "rows": kind})


def _refitted(evidence: Evidence) -> float:
    assert evidence.run is not None
    notes = evidence.run.best.info.notes
    return (notes.get("repaired", 0) + notes.get("doubtful", 0)) / evidence.rows.n


CHECKS = (
    Check(
        name="uncorrected error", measure=lambda _: 1.0, alarm=0.5, concerns=UNCORRECTED,
        meaning="With this method each row is predicted by a model that was fitted to it. The "
        "error on new rows is higher.",
        advice=f"{ORTHOGONAL}, or use a validation set",
    ),
    Check(
        name="rows", measure=lambda e: e.rows.n, note=100, alarm=50, below=True,
        concerns=PATH | UNCORRECTED,
        meaning="The corrections are exact for many rows. With few, an error of order 1/n remains.",
        advice="get more rows, or compare with leave-one-out cross-validation",
    ),
    Check(
        name="few rows", measure=_few, needs_run=True, caution=0.3, alarm=0.5, concerns=MINIMUM,
        meaning="{count} {rows} say little about the error on new rows, and little about how "
        "uncertain this error is: the interval is often too narrow.",
        definition="relative error of the standard error for {count} normal errors. On drawn "
        "tables the intervals covered the truth in 43 to 68 % of the cases above 0.5, in 75 % "
        "between 0.3 and 0.5, in 87 % just below 0.3 and in 95 % at 0.24",
        advice="get more rows; until then, treat the error as a guess",
    ),
    Check(
        name="rows per column", caution=2, below=True,
        measure=lambda e: e.rows.n / e.rows.d if e.run is None else None,
        meaning="With few rows per column most of the fit is noise, and its correction is large.",
        advice="use a strong ridge (10) and look again after training",
    ),
    Check(
        name="smallest class", note=20, caution=20, alarm=5, below=True,
        measure=_smallest,
        meaning="So few rows say little about their class and its error.",
        definition="m, the rows of the smallest class, or the groups with such rows; its error has "
        "a relative standard error of about 1/√m",
        advice="get more rows of that class, or merge it with another",
    ),
    Check(
        name="duplicate rows", measure=_duplicates, note=0.25, caution=0.25, alarm=1,
        meaning="{share} of the rows have an exact or near duplicate. Such a row is predicted "
        "by a model that was fitted to its duplicate, so the estimate is too low.",
        definition="{how}",
        advice="drop the duplicates, or keep one row of each group",
    ),
    Check(
        name="row norms", note=0.5, concerns=frozenset({"equal norms", "leverage"}),
        measure=lambda e: measures.norm_spread(e.rows),
        meaning="Some rows have much larger values than others and more influence on the model.",
        definition="coefficient of variation of ‖x_i‖² beyond that of Gaussian rows",
        advice="clip or transform columns with long tails, or scale the rows to equal length",
    ),
    Check(
        name="leverage", measure=_leverage, note=0.5, caution=0.9, concerns=frozenset({"leverage"}),
        meaning="At least one row decides most of its own prediction: leaving it out is uncertain.",
        definition="the largest leverage p_i. Above ½ a row outweighs all others in its own fit "
        "(Huber); at 0.9 the factor 1/(1 − p_i) is 10",
        advice="use a larger ridge, or drop columns that are zero in almost all rows",
    ),
    Check(
        name="spectrum", caution=0.1, alarm=0.4, concerns=frozenset({"white noise"}),
        measure=lambda e: measures.spectrum_share(e.rows.gram, e.rows.n, e.rows.d),
        meaning="The columns are correlated or unequally spread, which this method does not allow.",
        definition="share of the variance above the Marchenko–Pastur edge; white noise has none",
        advice=f"{ORTHOGONAL}, or noise=Covariance(C) if the covariance C is known",
    ),
    Check(
        name="scale", caution=0.1, alarm=0.3, concerns=frozenset({"white noise"}),
        measure=lambda e: abs(float(e.rows.squares.sum()) / e.rows.n - 1),
        meaning="The rows do not have the norm that this method assumes.",
        definition="difference of the mean ‖x_i‖² from 1: the relative error of the memory",
        advice="drop constant columns, standardise the others and divide by √d",
    ),
    Check(
        name="correction", measure=_correction, needs_run=True, caution=0.3, concerns=PATH,
        meaning="Much of the fit was noise and had to be corrected for. The test error of the "
        "model then varies more than the standard error says.",
        definition="the correction in standard deviations of a row's loss",
        advice="widen the interval by {factor:.1f} (estimators have done so); a larger ridge, more "
        "damping or fewer steps make the correction smaller",
        widening=_spread,
    ),
    Check(
        name="fitted error", measure=_fitted_share, needs_run=True, caution=0.4, alarm=0.15,
        below=True, concerns=frozenset({"leverage"}),
        meaning="The model fits the training rows much better than it should fit new ones. If it "
        "nearly memorises them, the correction is not reliable.",
        definition="the loss at the uncorrected outputs, divided by the estimate. On real tables "
        "of 100 rows the intervals covered the truth in 41 % of the cases below 0.4, in 90 % above",
        advice="leave out method= (the default is leave-one-out at the minimum), use a larger "
        "ridge, or stop earlier",
    ),
    Check(
        name="Stein's identity", measure=_stein, needs_run=True, caution=0.5, alarm=2,
        concerns=frozenset({"gaussian rows"}),
        meaning="The correction assumes a relation between inputs and gradients. For these rows it "
        "is violated by {share}.",
        definition="the violation of Cov(h, ∇Ψ) = Cov(h) J̄ᵀ within classes × the correction: the "
        "expected bias, in standard errors",
        advice="look for outliers and long tails; use a larger ridge",
    ),
    Check(
        name="memorised rows", needs_run=True, caution=0.1, alarm=0.2, concerns=UNCORRECTED,
        measure=lambda e: measures.stein_residual(e.seen, e.groups),
        meaning="The outputs have moved towards the labels of the rows that measure the error.",
        definition="the relative violation of Cov(h, ∇Ψ) = Cov(h) J̄ᵀ within classes",
        advice=f"{ORTHOGONAL}: this train error is no estimate of the test error",
    ),
    Check(
        name="long tails", needs_run=True, note=1, concerns=frozenset({"gaussian rows"}),
        measure=lambda e: measures.excess_kurtosis(e.seen.h, e.groups),
        meaning="Some rows lie far from the others in the directions that the model uses.",
        definition="excess kurtosis of the pre-activations within classes; Gaussian ones have 0",
        advice="clip or transform columns with long tails",
    ),
    Check(
        name="rows behind the error", measure=_rows_behind, needs_run=True, note=20, below=True,
        meaning="The estimate depends on few rows with large losses, so its standard error is "
        "itself uncertain. The interval is wider for this reason.",
        definition="m = (Σδ²)²/Σδ⁴ with δ = loss − mean; the standard error is known to 1/(2√m)",
        advice="{remedy}", widening=_student,
    ),
    Check(
        name="head", measure=_head, needs_run=True, caution=0.5, alarm=10,
        concerns=PATH | UNCORRECTED,
        meaning="The last layers have many parameters and fit these rows better than new ones. "
        "The estimate does not correct for this.",
        definition="P/n for P trained parameters of the head, in standard errors",
        advice="use a smaller head (fewer hidden units)",
    ),
    Check(
        name="neighbouring rows", needs_run=True, caution=0.2, alarm=0.3,
        measure=lambda e: measures.neighbours_alike(e.seen, e.rows, e.groups),
        concerns=PATH | UNCORRECTED,
        meaning="Rows resemble the rows next to them, in their values and in their errors. They "
        "may belong together, and the estimate then holds for the same people or days only.",
        definition="the smaller of the correlations with the next row: of features, of gradients",
        advice="if rows belong together, keep one of each group, or hold whole groups out",
    ),
    Check(
        name="rows that belong together", needs_run=True, caution=0.5, alarm=1, concerns=MINIMUM,
        measure=_together,
        meaning="A row is predicted worse if its neighbours in the table are also left out than if "
        "other rows are. Rows may belong together (one patient, one day). The estimate then holds "
        "for the same patients or days only.{order}",
        definition="rise of the error if ten consecutive rows are left out together instead of ten "
        "random rows of the same classes, in standard errors of the estimate; 0 if the rise is "
        "below two standard errors of its own",
        advice="give the groups: fit(X, y, groups=…), or decoupled train --group COLUMN",
    ),
    Check(
        name="unusually similar rows", needs_run=True, caution=1, concerns=MINIMUM,
        measure=_similar,
        meaning="{share} of the rows have unusually similar rows somewhere in the table, and "
        "are predicted much worse without them. If these are rows of one patient or thing, the "
        "estimate holds for the same patients only.",
        definition="rise of the error if unusually similar rows are left out together instead of "
        "as many of the next neighbours, in standard errors of the estimate; 0 if the rise is "
        "below three standard errors of its own",
        advice="if they belong together, give the groups: fit(X, y, groups=…), or decoupled train "
        "--group COLUMN",
    ),
    Check(
        name="winner's curse", measure=_curse, needs_run=True, note=0.5, caution=0.5, alarm=2,
        meaning="The best of many candidates was chosen by its error, which is therefore too low.",
        definition="the optimism of the lowest error, in standard errors",
        advice="quote corrected_error of the sweep (estimators do so), or compare fewer candidates",
    ),
    Check(
        name="distance from the minimum", needs_run=True, alarm=0.5, concerns=MINIMUM,
        measure=lambda e: 0.0 if e.run is not None and e.run.best.info.estimates else 1.0,
        meaning="Training ended before it reached the minimum. The leave-one-out formula holds "
        "only at the minimum.",
        definition="1 if the Newton decrement was above the tolerance at the last step, else 0",
        advice="allow more steps, or use a larger ridge",
    ),
    Check(
        name="other minima", needs_run=True, caution=0.5, concerns=MINIMUM,
        measure=lambda e: None if e.run is None else measures.another_minimum(e.run, e.rows),
        meaning="Training from another start ends in another minimum. The minimum used here was "
        "reached with all rows, and each row is left out of it only afterwards, so the error may "
        "be too low.",
        definition="difference of the outputs at the two minima, divided by the change of outputs "
        "when rows are left out (root mean squares). On real tables 68 % of the intervals covered "
        "the truth above 0.5, 88 % below",
        advice="use a larger ridge or fewer hidden units",
    ),
    Check(
        name="refitted rows", needs_run=True, caution=0.1, alarm=0.3, concerns=MINIMUM,
        measure=_refitted,
        meaning="For this share of the rows, leaving the row out changes the model so much that "
        "the formula is doubtful.",
        definition="share of rows whose further Newton steps do not converge; up to ``repairs`` of "
        "them are refitted exactly",
        advice="use a larger ridge, or get more rows",
    ),
    Check(
        name="divergence", needs_run=True, caution=0.5,
        measure=lambda e: e.run is not None and e.run.stop_reason is StopReason.DIVERGED,
        meaning="Training ended because its error was no longer finite; the best step was kept.",
        advice="use a smaller damping or a smaller learning rate",
    ),
)  # fmt: skip
