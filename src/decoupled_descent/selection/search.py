"""The search behind the estimators: features and ridges compete by leave-one-out at the minimum.

1. Feature maps are ranked by the exact leave-one-out error of kernel ridge regression on (one-hot)
   targets, for all ridges at once, on some of many rows (:mod:`ranking`).
2. The best few, and the linear model in any case, are fitted with the real loss by
   :class:`~decoupled_descent.DecoupledNewton`, along a grid of ridges that is walked downhill
   (:mod:`walk`).
3. All fits are mixed, with the weights that maximise the left-out likelihood, and the error of the
   mixture is estimated by rows that had no part in the choice (:mod:`mixing`). Maps that are among
   the best few only without some fold of rows are fitted for this purpose, and are not in the
   model.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from decoupled_descent.features.candidates import as_features
from decoupled_descent.features.interface import Features
from decoupled_descent.features.scaling import is_sparse
from decoupled_descent.objective import Objective, heads
from decoupled_descent.progress import in_stages, progress_bar, show_progress
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.threads import threads_for
from decoupled_descent.selection.cost import FITS, expected_seconds, in_words
from decoupled_descent.selection.found import Candidate, Search, lowest, main
from decoupled_descent.selection.mixing import combined
from decoupled_descent.selection.ranking import KEPT, NESTED, Sample, keep, rank
from decoupled_descent.selection.stacking import folds_of
from decoupled_descent.selection.walk import fits, scouted

#: Searches whose features have fewer entries than this take seconds; no time is announced.
QUICK = 10**6
#: With K classes and many rows, the Hessian has K times as many columns as there are features.
MOST_PARAMETERS = 4000


def search(
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
    seed: int = 0,
    progress: bool | None = None,
) -> Search:
    """Find the model with the lowest leave-one-out error.

    Args:
        X: Rows, shape (n, d), of any kind that :class:`Rows` takes, and :class:`Rows` themselves,
            which may be divided among processes. Sparse ones get linear features unless others are
            given.
        y: Labels of all rows: class indices, 0 and 1, or numbers of shape (n,) or (n, K).
        loss: ``"logistic"``, ``"cross_entropy"`` or ``"squared"``.
        outputs: K.
        features: What :func:`~decoupled_descent.features.candidates.as_features` takes.
        ridge: λ, or ``"auto"``.
        weights: Of the rows, positive, as in :class:`Rows`.
        groups: Rows that belong together, as in :class:`Rows`.
        stack: Whether to mix all candidates; otherwise the best one is the model.
        seed: Draws the rows of the ranking, landmarks and the folds of the cross-fit.
        progress: Whether to draw a progress bar; by default, only on a terminal.
    """
    objective = Objective(heads.Linear(outputs, intercept=True), loss)
    tried = _tried(features, X, y, outputs, loss)
    X = X if is_sparse(X) or isinstance(X, Rows) else Rows(X, y)
    sample = Sample(X, y, objective, weights, groups)
    folds = folds_of(len(y), groups, seed, objective.loss.classes(y))
    found: list[Candidate] = []
    ranking: list[tuple[str, float]] = []
    interrupted = False
    maps = min(len(tried), KEPT + 1)
    widths = _widths(X, tried[-maps:])
    _announce(len(y), widths, outputs, progress)
    with threads_for(len(y) * max(widths), outputs):
        with progress_bar(1 + FITS * maps, "search", progress) as advance:
            try:
                ranked = rank(sample, tried, seed, folds)
                ranking += [(one.features.name, one.error) for one in ranked]
                kept = keep(ranked)
                if ridge == "auto":
                    kept = scouted(kept, sample, seed)
                nested = folds if len(y) <= NESTED else None
                for share, fitted in fits(kept, sample, ridge, nested):
                    found.append(fitted)
                    note = f"{fitted.features.name}, lowest error {lowest(main(found)).error:.4g}"
                    advance(1 + round(FITS * maps * share), note)
            except KeyboardInterrupt:
                if not found:
                    raise
                interrupted = True
        return combined(
            objective, found, folds,
            stack=stack, seed=seed, ranking=tuple(ranking), interrupted=interrupted,
        )  # fmt: skip


def _tried(features: Any, X: Any, y: Tensor, outputs: int, loss: str) -> list[Features]:
    """The feature maps that compete."""
    unset = isinstance(features, str) and features == "auto"
    tried = as_features("linear" if unset and is_sparse(X) else features)
    for each in tried:
        _limit_landmarks(each, y, outputs, loss)
    return tried


def _widths(X: Any, tried: Sequence[Features]) -> list[int]:
    """How many features each map makes of a row, at most."""
    n, d = (X.n, X.d) if isinstance(X, Rows) else X.shape
    return [
        d if each.name.startswith("linear") else min(n, each.get_params().get("landmarks", d))
        for each in tried
    ]


def _announce(n: int, widths: list[int], outputs: int, progress: bool | None) -> None:
    """Print on a terminal how long the search will take, if that is more than a minute."""
    if show_progress(progress) and not in_stages() and n * max(widths) > QUICK:
        seconds = expected_seconds(n, widths, outputs)
        if seconds > 60:
            print(f"This will take about {in_words(seconds)}.", file=sys.stderr)


def _limit_landmarks(features: Features, y: Tensor, outputs: int, loss: str) -> None:
    """Fewer landmarks for many classes, whose Hessian has K times as many columns."""
    given = features.get_params()
    if "landmarks" in given and loss == "cross_entropy" and len(y) > given["landmarks"]:
        features.set_params(landmarks=min(given["landmarks"], MOST_PARAMETERS // outputs))
