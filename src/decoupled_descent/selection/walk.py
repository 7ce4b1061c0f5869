"""The second round of the search: every feature map that was kept is fitted with several ridges."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.features.candidates import as_features
from decoupled_descent.features.interface import Features
from decoupled_descent.leave_one_out.leave_out import moves_without_folds
from decoupled_descent.leave_one_out.minimum import TINY, forget_influence, linear_minimum
from decoupled_descent.leave_one_out.newton import DecoupledNewton, NewtonState
from decoupled_descent.leave_one_out.problem import Problem
from decoupled_descent.objective import Objective
from decoupled_descent.objective.second_order import curvature
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.gathered import divided, whole
from decoupled_descent.rows.store import Mapped, Store
from decoupled_descent.selection.cost import FITS
from decoupled_descent.selection.found import (
    Candidate,
    fitted_outputs,
    lowest,
    main,
    of_all,
    predictions,
    row_count,
)
from decoupled_descent.selection.ranking import HIGHEST, LOWEST, STEP, Ranked, Sample
from decoupled_descent.selection.stacking import row_losses
from decoupled_descent.training.callbacks import StopReason
from decoupled_descent.training.run import fit

#: With more rows than this, ridges are first found on this many rows.
SCOUTED = 2000
#: The tolerance of candidates. Newton's method converges quadratically, so that a small one costs
#: only one more step. With it a row of weight 2 trains the same model as two equal rows.
CLOSE = 1e-14
#: The number of rows that are refitted exactly per fit is this over n K: with more rows a refit
#: costs more, and a single row matters less.
REFITTED = 2000


class Place(NamedTuple):
    """Where a feature map is fitted."""

    rows: Rows  # the features of the rows of this process
    everything: Rows  # those of all processes
    objective: Objective  # Ψ
    folds: Tensor | None  # the fold of each row, shape (n,), to be left out as well, or None
    unit: float = 1.0  # the mean weight of a row, in whose units ridges are tried
    outputs: Tensor | None = None  # of another map's fit, to start from, (n, K); None for zero


def fits(
    kept: Sequence[Ranked], sample: Sample, ridge: float | str, folds: Tensor | None
) -> Iterator[tuple[float, Candidate]]:
    """Fit every map with every ridge that is tried; beside a fit is the share of work done.

    Large features are in memory for one map at a time, and in the end for the best one.
    """
    X, y, objective, *_ = sample
    found: list[Candidate] = []
    made: list[Rows] = []
    outputs: Tensor | None = None  # of the best fit so far
    for index, one in enumerate(kept):
        phi = one.features.fit_rows(X, sample.weights) if one.phi is None else one.phi
        rows = divided(phi, y, X, **sample.common)
        del phi
        made.append(rows)
        everything = whole(rows, y, **sample.common)
        place = Place(rows, everything, objective, folds, sample.unit, outputs)
        for count, fitted in enumerate(walk(one, place, ridge), 1):
            found.append(fitted)
            yield (index + min(count / FITS, 1.0)) / len(kept), fitted
        rows.kept.clear()
        place.everything.kept.clear()
        if rows.processes is None and (best := lowest(found)).rows is rows:
            outputs = fitted_outputs(best)
        if len(kept) > 1 and isinstance(X, Rows):
            _give_back(one.features, rows, X)
    if len(kept) > 1 and isinstance(X, Rows):
        place_of_best = [one.features for one in kept].index(lowest(main(found)).features)
        _keep_again(made[place_of_best], X)


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


def scouted(kept: Sequence[Ranked], sample: Sample, seed: int) -> list[Ranked]:
    """Find the ridge of each map on some of many rows, and leave out maps that are clearly worse.

    The best ridge hardly depends on the number of rows, and a fit to all of them is expensive.
    """
    if len(sample.y) <= SCOUTED:
        return list(kept)
    few = sample.some(SCOUTED, seed)[1]
    if sample.objective.loss.name != "squared" and bool((few.y == few.y[0]).all()):
        return list(kept)  # a rare class, of which none was drawn
    found = [_scout(one, few) for one in kept]
    least, better = min(found, key=lambda pair: pair[0].error), []
    for one, losses in found:
        more = losses - least[1]
        doubt = 2 * float(more.std()) / math.sqrt(len(more))
        if one is least[0] or one.features.name == "linear" or float(more.mean()) <= doubt:
            better.append(one)
    return better


def _scout(one: Ranked, few: Sample) -> tuple[Ranked, Tensor]:
    """The best ridge of a map and its losses on some rows. The map that was fitted is not kept."""
    again = one._replace(features=as_features(one.features)[0])
    phi = again.features.fit_transform(few.X, sample_weight=few.weights)
    rows = Rows(phi, few.y, **few.common)
    best = lowest(list(walk(again, Place(rows, rows, few.objective, None, few.unit), "auto")))
    losses = best.rows.averaged(row_losses(few.objective.loss.name, best.said, few.y))
    return one._replace(start=best.ridge, error=best.error, phi=None), losses


def walk(one: Ranked, place: Place, ridge: float | str) -> Iterator[Candidate]:
    """Fit along a grid of ridges, from a first guess downhill until both neighbours are worse."""
    if not isinstance(ridge, str):
        yield _fitted(one, place, float(ridge), _start(place, float(ridge)))
        return
    found: dict[int, Candidate] = {}
    low, high = round(LOWEST / STEP), round(HIGHEST / STEP)
    best = min(max(round(math.log10(one.start / place.unit) / STEP), low), high)
    while True:
        tried = [power for power in (best, best - 1, best + 1) if low <= power <= high]
        for power in tried:
            if power not in found:
                ridge = place.unit * 10 ** (STEP * power)
                start = _extrapolated(found, power) if found else _start(place, ridge)
                found[power] = _fitted(one, place, ridge, start)
                yield found[power]
        following = min(tried, key=lambda power: found[power].error)
        if following == best:
            return
        best = following


def _extrapolated(found: dict[int, Candidate], power: int) -> NewtonState:
    """Where the minimum should be, from those of the nearest ridge and the one behind it."""
    near = min(found, key=lambda other: abs(other - power))
    behind = 2 * near - power
    state: NewtonState = found[near].run.state
    if behind not in found:
        return state
    before: NewtonState = found[behind].run.state
    head = {name: 2 * value - before.head[name] for name, value in state.head.items()}
    return NewtonState(2 * state.theta - before.theta, head, 0)


def _fitted(one: Ranked, place: Place, ridge: float, start: NewtonState | None) -> Candidate:
    """One fit, with its leave-one-out predictions."""
    rows, objective = place.rows, place.objective
    repairs = REFITTED // (rows.n * (objective.width or 1))
    algorithm = DecoupledNewton(ridge, tolerance=CLOSE, repairs=repairs)
    forget_influence(rows)  # that of the last ridge; its memory is needed
    run = fit(rows, None, objective, algorithm, 100, state=start, progress=False)
    if run.stop_reason is StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    if rows.processes is not None:
        run, rows = of_all(run, rows, place.everything), place.everything
    outputs = run.best_outputs.reshape(rows.n, -1)
    name = objective.loss.name
    said = predictions(name, outputs, row_count(rows))
    error = float(rows.averaged(row_losses(name, said, rows.y)).mean())
    found = Candidate(one.features, ridge, run, outputs, rows, said, error, one.known)
    return found if place.folds is None else found._replace(without=_without(found, place.folds))


def _start(place: Place, ridge: float) -> NewtonState | None:
    """Parameters that roughly reproduce the outputs of another map; None for zero.

    It is a ridge regression on these outputs, with the mean curvature of the loss, for features
    that are uncorrelated or treated as if they were.
    """
    outputs, rows, loss = place.outputs, place.rows, place.objective.loss
    if outputs is None or loss.name == "squared":
        return None
    weights = rows.like.new_ones(rows.n) if rows.weights is None else rows.weights
    shift = weights @ outputs / weights.sum()
    pulled = rows.backward(weights * (outputs - shift).T)
    squares = sum(weights[span] @ part.square() for span, part in rows.doubles())
    bend = max(curvature(loss, outputs, rows.y), TINY)
    (name,) = place.objective.parameters(rows.like)
    return NewtonState(pulled / (squares + ridge / bend), {name: shift}, 0)


def _without(candidate: Candidate, folds: Tensor) -> Tensor:
    """Predictions of a candidate with the row and each fold left out, shape (folds, n, K)."""
    rows, run = candidate.rows, candidate.run
    problem = Problem(rows, run.bound, candidate.ridge)
    moves = moves_without_folds(linear_minimum(problem, fitted_outputs(candidate)), folds)
    loss = run.objective.loss.name
    return torch.stack(
        [predictions(loss, candidate.outputs + move, row_count(rows)) for move in moves]
    )
