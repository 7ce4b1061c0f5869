r"""The search behind the estimators: features and ridges compete by leave-one-out at the minimum.

1. Feature maps are ranked by the exact leave-one-out error of kernel ridge regression on (one-hot)
   targets, for all ridges at once, on at most ``RANKED`` rows.
2. The best few, and the linear model in any case, are fitted with the real loss by
   :class:`~decoupled_descent.DecoupledNewton`, along a grid of ridges that is walked downhill.
3. All fits are mixed, with the weights that maximise the left-out likelihood.
4. The estimate of the test error is *cross-fitted*: the rows of a fold are judged by a mixture
   whose feature maps were ranked, and whose weights were chosen, without them. Maps that are among
   the best few only without some fold are fitted for this purpose, and are not in the model.

The standard error has two parts: the variance of the losses, widened because rare large
losses may not have occurred; and the covariance of losses, because each row is in the training set
of the models for the others.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from decoupled_descent.descent.newton import DecoupledNewton, paired_losses, shifts_without
from decoupled_descent.descent.newton_step import Problem
from decoupled_descent.objective import Objective, heads
from decoupled_descent.progress import in_stages, progress_bar, show_progress
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.candidates import as_features
from decoupled_descent.rows.gathered import divided, whole
from decoupled_descent.rows.interface import Features
from decoupled_descent.rows.scaling import is_sparse
from decoupled_descent.rows.store import Mapped, Store
from decoupled_descent.rows.threads import threads_for
from decoupled_descent.training.callbacks import StopReason
from decoupled_descent.training.run import fit
from decoupled_descent.validation.cost import FITS, expected_seconds, in_words
from decoupled_descent.validation.found import (
    Candidate,
    Search,
    fitted_outputs,
    lowest,
    of_all,
    predictions,
    row_count,
)
from decoupled_descent.validation.ranking import (
    HIGHEST,
    KEPT,
    LOWEST,
    NESTED,
    STEP,
    Ranked,
    keep,
    part_of,
    rank,
    some_rows,
)
from decoupled_descent.validation.selection import CorrectedError
from decoupled_descent.validation.stacking import (
    cross_fitted,
    folds_of,
    mixed_losses,
    row_losses,
    stack_weights,
)

#: With more rows than this, ridges are first found on this many rows.
SCOUTED = 2000
#: The tolerance of candidates. Newton's method converges quadratically, so that a small one costs
#: only one more step. With it a row of weight 2 gives the same results as two equal rows.
CLOSE = 1e-14
#: The number of rows that are refitted exactly per fit is this over n K: with more rows a refit
#: costs more, and a single row matters less.
REFITTED = 2000
#: Searches whose features have fewer entries than this take seconds; no time is announced.
QUICK = 10**6
#: The largest number of rows whose pairs enter the standard error.
PAIRED = 1000
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
    removed: Tensor | None = None,
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
        features: What :func:`~decoupled_descent.rows.candidates.as_features` takes.
        ridge: λ, or ``"auto"``.
        weights: The weight of each row, positive.
        removed: The weight that is removed when a row is left out; see :class:`Rows`.
        groups: Rows that belong together; see :class:`Rows`.
        stack: Whether to mix all candidates; otherwise the best one is the model.
        seed: Draws the rows of the ranking, landmarks and the folds of the cross-fit.
        progress: Whether to draw a progress bar; by default, only on a terminal.

    Returns:
        The search.
    """
    objective = Objective(heads.Linear(outputs, intercept=True), loss)
    tried = _tried(features, X, y, outputs, loss)
    common: dict[str, Any] = {"weights": weights, "removed": removed, "groups": groups}
    X = X if is_sparse(X) or isinstance(X, Rows) else Rows(X, y)
    found: list[Candidate] = []
    ranking: list[tuple[str, float]] = []
    interrupted = False
    maps = min(len(tried), KEPT + 1)
    widths = _widths(X, tried[-maps:])
    _announce(len(y), widths, outputs, progress)
    with threads_for(len(y) * max(widths), outputs):
        with progress_bar(1 + FITS * maps, "search", progress) as advance:
            try:
                folds = folds_of(len(y), groups, seed)
                ranked = rank(X, y, loss, outputs, tried, common, seed, folds)
                ranking += [(one.features.name, one.error) for one in ranked]
                kept = keep(ranked)
                if len(y) > SCOUTED and ridge == "auto":
                    kept = _scouted(kept, X, y, objective, common, seed)
                for share, fitted in _fits(kept, X, y, objective, ridge, common):
                    found.append(fitted)
                    note = f"{fitted.features.name}, lowest error {lowest(_main(found)).error:.4g}"
                    advance(1 + round(FITS * maps * share), note)
            except KeyboardInterrupt:
                if not found:
                    raise
                interrupted = True
        return _combined(objective, found, stack, seed, tuple(ranking), interrupted)


def _tried(features: Any, X: Any, y: Tensor, outputs: int, loss: str) -> list[Features]:
    """The feature maps that compete."""
    unset = isinstance(features, str) and features == "auto"
    tried = as_features("linear" if unset and is_sparse(X) else features)
    for each in tried:
        _limit_landmarks(each, y, outputs, loss)
    return tried


def _fits(
    kept: Sequence[Ranked],
    X: Any,
    y: Tensor,
    objective: Objective,
    ridge: float | str,
    common: dict[str, Any],
) -> Iterator[tuple[float, Candidate]]:
    """Fit every map with every ridge that is tried; beside a fit is the share of work done.

    Large features are in memory for one map at a time, and in the end for the best one.
    """
    found: list[Candidate] = []
    made: list[Rows] = []
    for index, one in enumerate(kept):
        phi = one.features.fit_rows(X, common["weights"]) if one.phi is None else one.phi
        rows = divided(phi, y, X, **common)
        del phi
        made.append(rows)
        everything = whole(rows, y, **common)
        for count, fitted in enumerate(_walk(one, rows, objective, ridge, everything), 1):
            found.append(fitted)
            yield (index + min(count / FITS, 1.0)) / len(kept), fitted
        if len(kept) > 1 and isinstance(X, Rows):
            _give_back(one.features, rows, X)
    if len(kept) > 1 and isinstance(X, Rows):
        best = [one.features for one in kept].index(lowest(_main(found)).features)
        _keep_again(made[best], X)


def _give_back(features: Features, rows: Rows, X: Rows) -> None:
    """Free the memory of large features: from now on they are made again whenever they are read."""
    rows.move(Mapped(X, features.transform, rows.d))


def _keep_again(rows: Rows, X: Rows) -> None:
    """Make the features of the best candidate once more, for all that is asked of it now."""
    if rows.held:
        return
    store = Store(rows.here, rows.d, X)
    for block in rows.blocks():
        store.write(block.span, block.X)
    rows.move(store)


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


def _scouted(
    kept: Sequence[Ranked],
    X: Any,
    y: Tensor,
    objective: Objective,
    common: dict[str, Any],
    seed: int,
) -> list[Ranked]:
    """Find the ridge of each map on some of the rows, and leave out maps that are clearly worse.

    The best ridge hardly depends on the number of rows, and a fit to all of them is expensive.
    """
    rows = some_rows(len(y), SCOUTED, common["groups"], seed)
    if objective.loss.name != "squared" and bool((y[rows] == y[rows[0]]).all()):
        return list(kept)  # a rare class, of which none was drawn
    part: dict[str, Any] = {k: None if each is None else each[rows] for k, each in common.items()}
    found = [_scout(one, part_of(X, rows), y[rows], objective, part) for one in kept]
    least, scouted = min(found, key=lambda pair: pair[0].error), []
    for one, losses in found:
        more = losses - least[1]
        doubt = 2 * float(more.std()) / math.sqrt(len(more))
        if one is least[0] or one.features.name == "linear" or float(more.mean()) <= doubt:
            scouted.append(one)
    return scouted


def _scout(
    one: Ranked, X: Any, y: Tensor, objective: Objective, common: dict[str, Any]
) -> tuple[Ranked, Tensor]:
    """The best ridge of a map and its losses on some rows. The map that was fitted is not kept."""
    again = one._replace(features=as_features(one.features)[0])
    phi = again.features.fit_transform(X, sample_weight=common["weights"])
    rows = Rows(phi, y, **common)
    best = lowest(list(_walk(again, rows, objective, "auto", rows)))
    losses = best.rows.averaged(row_losses(objective.loss.name, best.said, y))
    return one._replace(start=best.ridge, error=best.error, phi=None), losses


def _walk(
    one: Ranked, rows: Rows, objective: Objective, ridge: float | str, everything: Rows
) -> Iterator[Candidate]:
    """Fit along a grid of ridges, from a first guess downhill until both neighbours are worse.

    ``everything`` are the rows of all processes.
    """

    def fitted(ridge: float, start: Candidate | None) -> Candidate:
        return _fitted(one, rows, objective, ridge, start, everything)

    if not isinstance(ridge, str):
        yield fitted(float(ridge), None)
        return
    found: dict[int, Candidate] = {}
    low, high = round(LOWEST / STEP), round(HIGHEST / STEP)
    best = min(max(round(math.log10(one.start) / STEP), low), high)
    while True:
        tried = [place for place in (best, best - 1, best + 1) if low <= place <= high]
        for place in tried:
            if place not in found:
                near = min(found, key=lambda other: abs(other - place), default=None)
                start = None if near is None else found[near]
                found[place] = fitted(10 ** (STEP * place), start)
                yield found[place]
        following = min(tried, key=lambda place: found[place].error)
        if following == best:
            return
        best = following


def _fitted(
    one: Ranked,
    rows: Rows,
    objective: Objective,
    ridge: float,
    start: Candidate | None,
    everything: Rows,
) -> Candidate:
    """One fit, from the minimum of another ridge if there is one."""
    repairs = REFITTED // (rows.n * (objective.width or 1))
    algorithm = DecoupledNewton(ridge, tolerance=CLOSE, repairs=repairs)
    state = None if start is None else start.run.state
    run = fit(rows, None, objective, algorithm, 100, state=state, progress=False)
    if run.stop_reason is StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    if rows.processes is not None:
        run, rows = of_all(run, rows, everything), everything
    outputs = run.best_outputs.reshape(rows.n, -1)
    name = objective.loss.name
    said = predictions(name, outputs, row_count(rows))
    error = float(rows.averaged(row_losses(name, said, rows.y)).mean())
    return Candidate(one.features, ridge, run, outputs, rows, said, error, one.known)


def _combined(
    objective: Objective,
    found: Sequence[Candidate],
    stack: bool,
    seed: int,
    ranking: tuple[tuple[str, float], ...],
    interrupted: bool,
) -> Search:
    main = _main(found)
    loss, rows = objective.loss.name, main[0].rows
    y = rows.y
    every = torch.stack([one.said for one in found])
    said = every[: len(main)]
    shares = torch.ones(rows.n, dtype=torch.float64) if rows.weights is None else rows.weights
    extra = float(shares.sum()) / row_count(rows)
    weights = stack_weights(loss, said, y, shares, extra)
    known = torch.stack([one.known for one in found], 1)
    folds = folds_of(rows.n, rows.groups, seed)
    without = torch.stack([_without(one, folds) for one in found]) if rows.n <= NESTED else None
    judged = cross_fitted(loss, every, y, shares, folds, extra, known, without)
    if not stack:  # the optimism of choosing one is approximated by that of choosing the weights
        chosen = min(range(len(main)), key=lambda k: main[k].error)
        curse = (judged - mixed_losses(loss, weights, said, y)) @ shares / shares.sum()
        weights = torch.zeros_like(weights)
        weights[chosen] = 1.0
        judged = mixed_losses(loss, weights, said, y) + curse.clamp_min(0)
    values = rows.averaged(judged)
    mixed = torch.einsum("f,fnk->nk", weights, said)
    variance = max(float(values.var()), _variance_of_new(loss, values, mixed))
    best = lowest(main)
    stderr = math.sqrt(variance / len(values) + _pairs(best, seed))
    raw = float(rows.averaged(mixed_losses(loss, weights, said, y)).mean())
    error = float(values.mean())
    estimate = CorrectedError(error, stderr, error - raw)
    return Search(objective, tuple(main), weights, estimate, judged, ranking, interrupted)


def _without(candidate: Candidate, folds: Tensor) -> Tensor:
    """Predictions of a candidate with the row and each fold left out, shape (folds, n, K)."""
    rows, run = candidate.rows, candidate.run
    problem = Problem(rows, run.bound, candidate.ridge)
    moves = shifts_without(problem, fitted_outputs(candidate), folds)
    loss = run.objective.loss.name
    return torch.stack(
        [predictions(loss, candidate.outputs + move, row_count(rows)) for move in moves]
    )


def _main(found: Sequence[Candidate]) -> list[Candidate]:
    """Fits of the maps that are kept in the ranking of all rows; they are made first."""
    return [one for one in found if one.known[-1]]


def _variance_of_new(loss: str, values: Tensor, mixed: Tensor) -> float:
    """Variance of the loss of a new row, with rare large losses that may not have been seen.

    For classes, it is the variance if the stated probabilities were true. For numbers, a new loss
    is above all n that were seen with probability 1/(n + 1): the largest one counts once more.
    """
    if loss == "squared":
        return float(torch.cat([values, values.max().unsqueeze(0)]).var())
    chances = mixed.clamp_min(1e-12)
    losses = -chances.log()
    mean = (chances * losses).sum(1)
    return float(((chances * losses.square()).sum(1) - mean.square()).mean() + mean.var())


def _pairs(candidate: Candidate, seed: int) -> float:
    """Mean covariance of the left-out losses of two rows, or groups, for the best candidate."""
    rows = candidate.rows
    problem = Problem(rows, candidate.run.bound, candidate.ridge)
    some = some_rows(rows.n, PAIRED, rows.groups, seed)
    return paired_losses(problem, fitted_outputs(candidate), some)


def _limit_landmarks(features: Features, y: Tensor, outputs: int, loss: str) -> None:
    """Fewer landmarks for many classes, whose Hessian has K times as many columns."""
    given = features.get_params()
    if "landmarks" in given and loss == "cross_entropy" and len(y) > given["landmarks"]:
        features.set_params(landmarks=min(given["landmarks"], MOST_PARAMETERS // outputs))
