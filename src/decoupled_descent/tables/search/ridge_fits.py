"""The second round of the search: every selected feature map is fitted with several ridges."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.descent.info import DivergenceWarning
from decoupled_descent.evaluation.means import mean_with_stderr
from decoupled_descent.leave_one_out.leave_out import moves_without_folds
from decoupled_descent.leave_one_out.minimum import TINY, forget_influence, linear_minimum
from decoupled_descent.leave_one_out.newton import DecoupledNewton, NewtonState
from decoupled_descent.leave_one_out.problem import Problem
from decoupled_descent.leave_one_out.resampling import half_samples, variation
from decoupled_descent.objective import Objective
from decoupled_descent.objective.second_order import curvature
from decoupled_descent.quiet import ignoring
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.gathered import divided, gather_rows
from decoupled_descent.rows.store import FunctionSource, Store
from decoupled_descent.tables.features.candidates import as_features
from decoupled_descent.tables.features.interface import Features
from decoupled_descent.tables.search.cost import FITS, SAMPLED, fit_operations
from decoupled_descent.tables.search.deadline import Deadline
from decoupled_descent.tables.search.decisions import half_sample_count
from decoupled_descent.tables.search.fits import (
    CandidateFit,
    fitted_outputs,
    gathered_run,
    lowest_error,
    row_count,
    selected_fits,
    smoothed_predictions,
)
from decoupled_descent.tables.search.ranking import HIGHEST, LOWEST, RankedMap, Sample
from decoupled_descent.tables.search.ridge_walk import STEP, downhill
from decoupled_descent.training.callbacks import StopReason
from decoupled_descent.training.fit import fit

#: The tolerance of fits. Newton's method converges quadratically, so that a small one costs only
#: one more step. With it a row of weight 2 trains the same model as two equal rows.
CLOSE = 1e-14
#: The number of rows that are refitted exactly per fit is this over n K: with more rows a refit
#: costs more, and a single row matters less.
REFITTED = 2000
#: The single ridge of a further kernel is corrected by at most this factor: where the best kernel
#: separates the classes, it needs hardly any ridge, and others do.
MOST_CORRECTED = 10.0


class FitInputs(NamedTuple):
    """What a feature map is fitted to."""

    rows: Rows  # the features of the rows of this process
    everything: Rows  # those of all processes
    objective: Objective  # Ψ
    folds: Tensor | None  # the fold of each row, shape (n,), to be left out as well, or None
    unit: float = 1.0  # the mean weight of a row, in whose units ridges are tried
    outputs: Tensor | None = None  # of another map's fit, to start from, (n, K); None for zero
    signs: Tensor | None = None  # of half-samples, for classes, shape (n, B)


def fit_maps(
    maps: Sequence[RankedMap],
    sample: Sample,
    ridge: float | str,
    folds: Tensor | None,
    deadline: Deadline,
) -> Iterator[tuple[float, CandidateFit]]:
    """Fit every map with every ridge that is tried; yield the share of work done, and the fit.

    Large features are in memory for one map at a time, and in the end for the best one. Linear maps
    and the best kernel are fitted with several ridges. Its best one shows by how much the guess of
    the ranking is wrong: for classes, further kernels get one ridge, corrected by as much. So do
    those whose ridge is chosen, and those that come last and only serve the cross-fit.
    After the deadline only the essential map is fitted, with one ridge.
    """
    X, y, objective, *_ = sample
    fits: list[CandidateFit] = []
    rows_of_maps: dict[int, Rows] = {}
    outputs: Tensor | None = None  # of the best fit so far
    signs = None if folds is None else _half_samples(sample)
    correction, walked = 1.0, False  # of the ridges of kernels, once a kernel had several
    for index, one in enumerate(maps):
        if not _has_time(one, deadline, sample):
            continue
        further = walked and not one.features.is_linear
        start = one.start if one.features.is_linear else correction * one.start
        alone = one.chosen or (further and objective.loss.has_classes) or not one.selected[-1]
        if further and alone and not one.chosen:
            start = _bounded(start, one.start, sample.unit)
        tried = start if isinstance(ridge, str) and alone else ridge
        own: list[CandidateFit] = []
        phi = one.features.fit_rows(X, sample.weights) if one.phi is None else one.phi
        rows = divided(phi, y, X, **sample.common)
        del phi
        rows_of_maps[id(one.features)] = rows
        everything = gather_rows(rows, y, **sample.common)
        inputs = FitInputs(rows, everything, objective, folds, sample.unit, outputs, signs)
        for fitted in fit_ridges(one._replace(start=start), inputs, tried, deadline):
            own.append(fitted)
            yield (index + min(len(own) / FITS, 1.0)) / len(maps), fitted
        fits += own
        if not one.features.is_linear:
            correction, walked = correction * lowest_error(own).ridge / own[0].ridge, True
        rows.kept.clear()
        everything.kept.clear()
        if rows.all_here and (best := lowest_error(fits)).rows is rows:
            outputs = fitted_outputs(best)
        if len(maps) > 1 and isinstance(X, Rows):
            _free_features(one.features, rows, X)
    if len(maps) > 1 and isinstance(X, Rows):
        best_map = lowest_error(selected_fits(fits)).features
        _store_features(rows_of_maps[id(best_map)], X)


def _has_time(one: RankedMap, deadline: Deadline, *samples: Sample) -> bool:
    """Whether there is time for a first fit of a map to each sample, or whether it is essential."""
    work = 0.0
    for each in samples:
        width = one.features.width(len(each.y), each.columns)
        work += fit_operations(len(each.y), width, each.objective.width or 1)
    return one.essential or not deadline.leaves_out(one.features.name, work)


def _bounded(ridge: float, guess: float, unit: float) -> float:
    """A ridge that is not far from the guess of the ranking, and within the grid."""
    near = min(max(ridge, guess / MOST_CORRECTED), guess * MOST_CORRECTED)
    return float(min(max(near, unit * 10**LOWEST), unit * 10**HIGHEST))


def _free_features(features: Features, rows: Rows, X: Rows) -> None:
    """Free the memory of large features: from now on they are made again whenever they are read."""
    rows.move(FunctionSource(X, features.transform, rows.d))


def _store_features(rows: Rows, X: Rows) -> None:
    """Make the features of the best fit once more, for all that is computed with it from now on."""
    if rows.held:
        return
    store = Store(rows.here, rows.d, X)
    for block in rows.blocks():
        store.write(block.span, block.X)
    rows.move(store)


def choose_on_sample(
    maps: Sequence[RankedMap], sample: Sample, seed: int, deadline: Deadline
) -> list[RankedMap]:
    """Choose the ridge of each map on some of many rows, and drop maps that are clearly worse.

    The best ridge hardly depends on the number of rows, and a fit to all of them is expensive.
    """
    if len(sample.y) <= SAMPLED:
        return list(maps)
    few = sample.some(SAMPLED, seed)[1]
    if sample.objective.loss.has_classes and bool((few.y == few.y[0]).all()):
        return list(maps)  # a rare class, of which none was drawn
    fitted: list[tuple[RankedMap, Tensor]] = []
    correction: float | None = None  # of the ridges of further kernels, for classes
    for one in maps:
        if not _has_time(one, deadline, few, sample):
            continue
        kernel = not one.features.is_linear
        ridge: float | str = "auto"
        if kernel and correction is not None and few.objective.loss.has_classes:
            ridge = _bounded(correction * one.start, one.start, few.unit)
        fitted.append(_fit_sample(one, few, ridge, deadline))
        if kernel and correction is None:
            correction = fitted[-1][0].start / one.start
    best, best_losses = min(fitted, key=lambda pair: pair[0].error)
    chosen = []
    for one, losses in fitted:
        more = losses - best_losses
        mean, stderr = mean_with_stderr(more)
        if one is best or one.features.is_linear or mean <= 2 * stderr:
            chosen.append(one)
    return chosen


def _fit_sample(
    one: RankedMap, few: Sample, ridge: float | str, deadline: Deadline
) -> tuple[RankedMap, Tensor]:
    """The best ridge of a map and its losses on some rows. The map that was fitted is not kept."""
    again = one._replace(features=as_features(one.features)[0])
    phi = again.features.fit_transform(few.X, sample_weight=few.weights)
    rows = Rows(phi, few.y, **few.common)
    inputs = FitInputs(rows, rows, few.objective, None, few.unit)
    best = lowest_error(list(fit_ridges(again, inputs, ridge, deadline)))
    losses = best.rows.averaged(few.objective.loss.of_predictions(best.predictions, few.y))
    return one._replace(start=best.ridge, error=best.error, phi=None, chosen=True), losses


def fit_ridges(
    one: RankedMap, inputs: FitInputs, ridge: float | str, deadline: Deadline
) -> Iterator[CandidateFit]:
    """Fit along a grid of ridges, from a first guess downhill; or fit the ridge that is given.

    After the deadline no ridge but the first is fitted.
    """
    if not isinstance(ridge, str):
        yield _fitted(one, inputs, float(ridge), _start(inputs, float(ridge)))
        return
    fits: dict[int, CandidateFit] = {}
    work = fit_operations(inputs.rows.n, inputs.rows.d, inputs.objective.width or 1)

    def error(power: int) -> float:
        if power not in fits:
            if fits and deadline.leaves_out(f"more ridges of {one.features.name}", work):
                return math.inf  # which ends the walk
            ridge = inputs.unit * 10 ** (STEP * power)
            start = _extrapolated(fits, power) if fits else _start(inputs, ridge)
            fits[power] = _fitted(one, inputs, ridge, start)
        return fits[power].error

    low, high = round(LOWEST / STEP), round(HIGHEST / STEP)
    first = min(max(round(math.log10(one.start / inputs.unit) / STEP), low), high)
    for power in downhill(error, first, low, high):
        if power in fits:
            yield fits[power]


def _extrapolated(fits: dict[int, CandidateFit], power: int) -> NewtonState:
    """Where the minimum should be, from those of the nearest ridge and the one behind it."""
    near = min(fits, key=lambda other: abs(other - power))
    behind = 2 * near - power
    state: NewtonState = fits[near].run.state
    if behind not in fits:
        return state
    before: NewtonState = fits[behind].run.state
    head = {name: 2 * value - before.head[name] for name, value in state.head.items()}
    return NewtonState(2 * state.theta - before.theta, head, 0)


def _fitted(
    one: RankedMap, inputs: FitInputs, ridge: float, start: NewtonState | None
) -> CandidateFit:
    """One fit, with its leave-one-out predictions."""
    rows, objective = inputs.rows, inputs.objective
    repairs = REFITTED // (rows.n * (objective.width or 1))
    algorithm = DecoupledNewton(ridge, tolerance=CLOSE, repairs=repairs)
    forget_influence(rows)  # that of the last ridge; its memory is needed
    with nullcontext() if start is None else ignoring(DivergenceWarning):
        run = fit(rows, None, objective, algorithm, 100, state=start, progress=False)
    if start is not None and run.stop_reason is StopReason.STEPS:
        # from a start with saturated probabilities there may be no way down
        run = fit(rows, None, objective, algorithm, 100, progress=False)
    if run.stop_reason is StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    if not rows.all_here:
        run, rows = gathered_run(run, rows, inputs.everything), inputs.everything
    outputs = run.best_outputs.reshape(rows.n, -1)
    predictions = smoothed_predictions(objective.loss, outputs, row_count(rows))
    error = float(rows.averaged(objective.loss.of_predictions(predictions, rows.y)).mean())
    fitted = CandidateFit(one.features, ridge, run, outputs, rows, predictions, error, one.selected)
    if inputs.folds is None:
        return fitted
    return _resampled(fitted, inputs.folds, inputs.signs)


def _start(inputs: FitInputs, ridge: float) -> NewtonState | None:
    """Parameters that roughly reproduce the outputs of another map; None for zero.

    It is a ridge regression on these outputs, with the mean curvature of the loss, for features
    that are uncorrelated or treated as if they were.
    """
    outputs, rows, loss = inputs.outputs, inputs.rows, inputs.objective.loss
    if outputs is None or loss.quadratic:
        return None
    weights = rows.like.new_ones(rows.n) if rows.weights is None else rows.weights
    shift = weights @ outputs / weights.sum()
    moments = rows.backward(weights * (outputs - shift).T)
    squares = sum(weights[span] @ part.square() for span, part in rows.doubles())
    mean_curvature = max(curvature(loss, outputs, rows.y), TINY)
    (name,) = inputs.objective.parameters(rows.like)
    return NewtonState(moments / (squares + ridge / mean_curvature), {name: shift}, 0)


def _half_samples(sample: Sample) -> Tensor | None:
    """Signs of half-samples, shape (n, B), if labels are classes."""
    classes = sample.objective.loss.classes(sample.y)
    if classes is None:
        return None
    count = half_sample_count(len(classes), sample.objective.width or 1)
    return half_samples(classes, sample.groups, count, seed=0)


def _resampled(fitted: CandidateFit, folds: Tensor, signs: Tensor | None) -> CandidateFit:
    """Add predictions with each fold left out as well, and how outputs vary with the sample."""
    rows, run = fitted.rows, fitted.run
    problem = Problem(rows, run.bound, fitted.ridge)
    minimum = linear_minimum(problem, fitted_outputs(fitted)).rough()  # first order is rougher
    loss, count = run.objective.loss, row_count(rows)
    without = torch.stack(
        [
            smoothed_predictions(loss, fitted.outputs + move, count)
            for move in moves_without_folds(minimum, folds)
        ]
    )
    varied = None if signs is None else variation(minimum, signs)
    return fitted._replace(fold_predictions=without, variation=varied)
