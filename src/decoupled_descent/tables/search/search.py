"""The search behind the estimators: features and ridges are chosen by leave-one-out errors.

1. Feature maps are ranked by the exact leave-one-out outputs of kernel ridge regression on
   (one-hot) targets, for all ridges at once, on some of many rows (:mod:`ranking`).
2. The best few, and the linear model in any case, are fitted with the real loss by
   :class:`~decoupled_descent.DecoupledNewton`, along a grid of ridges that is walked downhill
   (:mod:`ridge_fits`).
3. All fits are mixed, with the weights that maximise the left-out likelihood, and the error of the
   mixture is estimated by rows that had no part in the choice (:mod:`mixing`). Maps that are among
   the best few only without some fold of rows are fitted for this purpose, and are not in the
   model. Members of other kinds, such as forests, are trained before (:mod:`other_members`).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from decoupled_descent.objective import Objective, heads
from decoupled_descent.progress import in_stages, progress_bar, show_progress
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.threads import threads_for
from decoupled_descent.tables.features.candidates import as_features
from decoupled_descent.tables.features.interface import Features
from decoupled_descent.tables.features.scaling import is_sparse
from decoupled_descent.tables.members.interface import MemberFit, Recipe, TableSize
from decoupled_descent.tables.search.cost import (
    FITS,
    LONG,
    expected_seconds,
    in_words,
    member_operations,
)
from decoupled_descent.tables.search.deadline import Deadline
from decoupled_descent.tables.search.fits import (
    CandidateFit,
    SearchResult,
    lowest_error,
    selected_fits,
)
from decoupled_descent.tables.search.mixing import mix
from decoupled_descent.tables.search.other_members import train_members, training_table
from decoupled_descent.tables.search.ranking import NESTED, Sample, kept_count, rank, select
from decoupled_descent.tables.search.ridge_fits import choose_on_sample, fit_maps
from decoupled_descent.tables.search.stacking import folds_of

#: With K classes and more rows than ``EXACT``, the Hessian has K times as many columns as features.
MOST_PARAMETERS = 4000
#: Up to this number of rows kernels are exact. Above it the number of landmarks falls as 1/√n to
#: ``LANDMARKS``, so that the time of a fit grows like n. Twice as many took twice the time, and
#: changed the error of four tables with 3,000 rows by factors of 1.00, 0.97, 1.00 and 1.01.
EXACT, LANDMARKS, MOST_LANDMARKS = 1000, 400, 2000


def search_models(
    X: Any,
    y: Tensor,
    loss: str,
    *,
    outputs: int = 1,
    features: Any = "auto",
    ridge: float | str = "auto",
    weights: Tensor | None = None,
    groups: Tensor | None = None,
    stack: bool = True,
    members: Sequence[Recipe] = (),
    deadline: Deadline | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> SearchResult:
    """Find the model with the lowest leave-one-out error.

    Args:
        X: Rows, shape (n, d), of any kind that :class:`Rows` takes, and :class:`Rows` themselves,
            which may be divided among processes. Sparse ones get linear features unless others are
            given.
        y: Labels of all rows: class indices, 0 and 1, or numbers of shape (n,) or (n, K).
        loss: ``"logistic"``, ``"cross_entropy"``, ``"squared"``, ``"poisson"`` or
            ``"proportion"``.
        outputs: K.
        features: What :func:`~decoupled_descent.tables.features.candidates.as_features` takes.
        ridge: λ, or ``"auto"``.
        weights: Of the rows, positive, as in :class:`Rows`.
        groups: Rows that belong together, as in :class:`Rows`.
        stack: Whether to mix all candidates; otherwise the best one is the model.
        members: How further members of the mixture are trained; not for rows that are sparse,
            divided, or on disk, and not without ``stack``.
        deadline: When to stop adding candidates; never by default. A linear map is fitted in any
            case (or, without one, the first map).
        seed: Draws the rows of the ranking, landmarks and the folds of the cross-fit.
        progress: Whether to draw a progress bar; by default, only on a terminal.
    """
    objective = Objective(heads.Linear(outputs, intercept=True), loss)
    maps = _maps(features, X, y, objective)
    X = X if is_sparse(X) or isinstance(X, Rows) else Rows(X, y)
    deadline = deadline or Deadline()
    sample = Sample(X, y, objective, weights, groups)
    folds = folds_of(len(y), groups, seed, objective.loss.classes(y))
    fits: list[CandidateFit] = []
    ranking: list[tuple[str, float]] = []
    interrupted = False
    table = training_table(sample, folds) if members and stack else None
    trained: list[tuple[int, MemberFit]] = []
    count = min(len(maps), kept_count(len(y), objective) + 1)
    size = TableSize(
        len(y), sample.columns, outputs, objective.loss.has_classes, objective.loss.link
    )
    widths = [one.width(size.rows, size.columns) for one in maps[-count:]]
    recipes = members if table is not None else ()
    _announce(size, widths, len(maps), recipes, progress)
    with threads_for(len(y) * max(widths), outputs):
        with progress_bar(1 + FITS * count, "search", progress) as advance:
            try:
                ranked = rank(sample, maps, seed, folds, deadline)
                ranking += [(one.features.name, one.error) for one in ranked]
                selected = select(ranked)
                if ridge == "auto":
                    selected = choose_on_sample(selected, sample, seed, deadline)
                nested = folds if len(y) <= NESTED else None
                for share, fit in fit_maps(selected, sample, ridge, nested, deadline):
                    fits.append(fit)
                    lowest = lowest_error(selected_fits(fits)).error
                    note = f"{fit.features.name}, lowest error {lowest:.4g}"
                    advance(1 + round(FITS * count * share), note)
                if table is not None:
                    fitted = [one.predictions for one in selected_fits(fits)]
                    trained += train_members(members, table, fitted, seed, deadline)
            except KeyboardInterrupt:
                if not fits:
                    raise
                interrupted = True
        result = mix(
            objective, fits, folds,
            stack=stack, seed=seed, ranking=tuple(ranking), interrupted=interrupted,
            others=[one for _, one in sorted(trained, key=lambda pair: pair[0])],
            table=table,
        )  # fmt: skip
    return replace(result, skipped=tuple(deadline.left_out))


def _maps(features: Any, X: Any, y: Tensor, objective: Objective) -> list[Features]:
    """The feature maps that are compared; fewer landmarks for many classes.

    With K classes the Hessian has K times as many columns.
    """
    unset = isinstance(features, str) and features == "auto"
    maps = as_features("linear" if unset and is_sparse(X) else features)
    maps = [one for one in maps if one.suits(X)] if unset else maps
    n = len(y)
    if n > EXACT:
        most = landmarks_of(n) if unset else MOST_LANDMARKS
        if objective.loss.categorical:
            most = min(most, MOST_PARAMETERS // (objective.width or 1))
        for one in maps:
            one.limit_width(n, most)
    return maps


def landmarks_of(n: int) -> int:
    """The number of landmarks of each kernel in the search.

    Example:
        >>> landmarks_of(1000), landmarks_of(4000), landmarks_of(10**6)
        (1000, 500, 400)
    """
    return max(LANDMARKS, round(EXACT * math.sqrt(EXACT / n))) if n > EXACT else n


def _announce(
    size: TableSize,
    widths: list[int],
    ranked: int,
    recipes: Sequence[Recipe],
    progress: bool | None,
) -> None:
    """Print on a terminal how long the search will take, if that is long."""
    if show_progress(progress) and not in_stages():
        others = member_operations(recipes, size)
        seconds = expected_seconds(size.rows, widths, size.outputs, ranked, others)
        if seconds > LONG:
            print(f"This will take about {in_words(seconds)}.", file=sys.stderr)
