r"""The search behind the estimators: features and ridges compete by leave-one-out at the minimum.

1. Feature maps are ranked by the exact leave-one-out error of kernel ridge regression on (one-hot)
   targets, for all ridges at once, on at most ``RANKED`` rows.
2. The best few, and the linear model in any case, are fitted with the real loss by
   :class:`~decoupled_descent.DecoupledNewton`, along a grid of ridges that is walked downhill.
3. All fits are mixed, with the weights that maximise the left-out likelihood.

The estimate of the test error is *cross-fitted*: the weights that judge a row were chosen without
it. Its standard error counts three things: how much the losses vary, how much they would vary if
the stated probabilities were true (rare large losses may not have been seen), and that each row
trains the model that judges the others.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from decoupled_descent.descent.newton import DecoupledNewton, paired_losses
from decoupled_descent.descent.newton_step import Problem
from decoupled_descent.objective import Objective, heads
from decoupled_descent.progress import progress_bar, show_progress
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.candidates import as_features, fit_all
from decoupled_descent.rows.interface import Features
from decoupled_descent.rows.ridge_path import ridge_path
from decoupled_descent.rows.scaling import is_sparse
from decoupled_descent.training.callbacks import StopReason
from decoupled_descent.training.run import Run, fit
from decoupled_descent.validation.cost import FITS, expected_seconds, in_words
from decoupled_descent.validation.selection import CorrectedError
from decoupled_descent.validation.stacking import (
    cross_fitted,
    mixed_losses,
    row_losses,
    stack_weights,
)

#: The most rows by which feature maps are ranked; beyond, the order hardly changes.
RANKED = 400
#: How many feature maps are kept beside the linear one; a third one was never worth its time.
KEPT = 2
#: Ridges are powers of ten in steps of half a decade, within these exponents.
STEP, LOWEST, HIGHEST = 0.5, -5.0, 3.0
#: The real loss starts from this share of the best ridge of the ranking: its curvature is smaller.
SHARE = 0.2
#: The tolerance of candidates. Newton steps square it, so that a smaller one costs a step only, and
#: a row of weight 2 is the same as the row twice.
CLOSE = 1e-14
#: Searches with fewer numbers of features than this take seconds.
QUICK = 10**6
#: Candidates with less weight than this are left out of the mixture.
LEAST_WEIGHT = 0.01
#: The most rows whose pairs are looked at for the standard error.
PAIRED = 1000
#: With K classes and many rows, the Hessian has K times as many columns as there are features.
MOST_PARAMETERS = 4000


class Candidate(NamedTuple):
    """One fit of the search.

    Attributes:
        features: The fitted feature map.
        ridge: λ.
        run: The Newton run that ended at the minimum.
        outputs: Outputs of the rows with each left out, shape (n, K).
        rows: The features of the training rows, with labels, weights and groups.
        said: Left-out predictions, shape (n, K) or, with two classes, (n, 2).
        error: The leave-one-out error of these predictions.
    """

    features: Features
    ridge: float
    run: Run
    outputs: Tensor
    rows: Rows
    said: Tensor
    error: float

    @property
    def name(self) -> str:
        """Features and ridge in words."""
        return f"{self.features.name}, ridge={self.ridge:.3g}"


@dataclass(frozen=True)
class Search:
    """What the search found.

    Attributes:
        objective: Ψ of all candidates.
        candidates: All fits, in the order in which they were made.
        weights: The share of each in the model, shape (F,); a single 1 without stacking.
        estimate: The error to expect on new rows, with its standard error.
        losses: Cross-fitted losses row by row, shape (n,).
        ranking: Feature maps and their errors in the first round, best first.
        interrupted: Whether Ctrl-C ended the search early.
    """

    objective: Objective
    candidates: tuple[Candidate, ...]
    weights: Tensor
    estimate: CorrectedError
    losses: Tensor
    ranking: tuple[tuple[str, float], ...]
    interrupted: bool

    @property
    def best(self) -> Candidate:
        """The candidate with the lowest leave-one-out error."""
        return _best(self.candidates)

    @property
    def members(self) -> list[tuple[float, Candidate]]:
        """The candidates in the model with their shares, largest first."""
        pairs = zip(self.weights.tolist(), self.candidates, strict=True)
        return sorted([pair for pair in pairs if pair[0] > 0], key=lambda pair: -pair[0])

    def outputs(self, of: Callable[[Candidate], Tensor]) -> Tensor:
        """Mix what members say, (m, K): probabilities for classes, numbers otherwise."""
        loss = self.objective.loss.name
        count = row_count(self.candidates[0].rows)
        parts = [share * predictions(loss, of(member), count) for share, member in self.members]
        return torch.stack(parts).sum(0)

    @property
    def left_out(self) -> Tensor:
        """Mixed predictions of the training rows as if they were new, (n, K)."""
        return self.outputs(lambda member: member.outputs)

    def predict(self, X: Any) -> Tensor:
        """Mixed predictions of new rows, (m, K)."""
        maps: dict[int, Tensor] = {}
        for _, member in self.members:
            if id(member.features) not in maps:
                maps[id(member.features)] = member.features.transform(X)
        return self.outputs(lambda member: evaluate(member, maps[id(member.features)]))


def evaluate(candidate: Candidate, phi: Tensor) -> Tensor:
    """Outputs of a candidate for given features, shape (m, K)."""
    state = candidate.run.state
    with torch.no_grad():
        found = candidate.run.objective.pure_head(phi @ state.theta.T, state.head)
    return found.unsqueeze(1) if found.ndim == 1 else found


def predictions(loss: str, outputs: Tensor, count: float) -> Tensor:
    r"""Probabilities of all classes for outputs that are logits, or the outputs themselves.

    A sample of n rows cannot show that a class is less likely than about 1/n. One more row, which
    belongs to each of the K classes alike, is counted: (n p + 1/K) / (n + 1).
    """
    if loss == "logistic":
        outputs = torch.cat([torch.zeros_like(outputs), outputs], 1)
    elif loss != "cross_entropy":
        return outputs
    return (count * torch.softmax(outputs, 1) + 1 / outputs.shape[1]) / (count + 1)


def row_count(rows: Rows) -> float:
    """How many independent rows there are: groups, or the sum of the weights."""
    if rows.groups is not None:
        return float(rows.groups.max() + 1)
    return float(rows.n if rows.weights is None else rows.weights.sum())


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
        X: Rows, shape (n, d). Sparse ones get linear features unless others are given.
        y: Labels: class indices, 0 and 1, or numbers of shape (n,) or (n, K).
        loss: ``"logistic"``, ``"cross_entropy"`` or ``"squared"``.
        outputs: K.
        features: What :func:`~decoupled_descent.rows.candidates.as_features` takes.
        ridge: λ, or ``"auto"``.
        weights: How much each row counts, positive.
        removed: How much of its weight is left out of each row; see :class:`Rows`.
        groups: Rows that belong together; see :class:`Rows`.
        stack: Whether to mix all candidates; otherwise the best one is the model.
        seed: Draws the rows of the ranking, landmarks and the folds of the cross-fit.
        progress: Whether to draw a progress bar; by default, only on a terminal.

    Returns:
        The search.
    """
    objective = Objective(heads.Linear(outputs, intercept=True), loss)
    unset = isinstance(features, str) and features == "auto"
    tried = as_features("linear" if unset and is_sparse(X) else features)
    for each in tried:
        _limit_landmarks(each, y, outputs, loss)
    common: dict[str, Any] = {"weights": weights, "removed": removed, "groups": groups}
    found: list[Candidate] = []
    ranking: list[tuple[str, float]] = []
    interrupted = False
    maps = min(len(tried), KEPT + 1)
    _announce(X, tried[-maps:], outputs, progress)
    with progress_bar(1 + FITS * maps, "search", progress) as advance:
        try:
            ranked = _rank(X, y, loss, outputs, tried, weights, removed, seed)
            ranking = [(one.features.name, one.error) for one in ranked]
            kept = _kept(ranked)
            for index, one in enumerate(kept):
                done = 1 + FITS * maps * index // len(kept)
                advance(done, one.features.name)
                phi = one.phi
                if phi is None:
                    phi = one.features.fit_transform(X, sample_weight=weights)
                for count, fitted in enumerate(
                    _walk(one, Rows(phi, y, **common), objective, ridge)
                ):
                    found.append(fitted)
                    lowest = f"{one.features.name}, lowest error {_best(found).error:.4g}"
                    advance(done + min(count + 1, FITS), lowest)
        except KeyboardInterrupt:
            if not found:
                raise
            interrupted = True
    return _combined(objective, found, stack, seed, tuple(ranking), interrupted)


def _announce(X: Any, tried: Sequence[Features], outputs: int, progress: bool | None) -> None:
    """Say on a terminal how long the search will take, if that is more than a minute."""
    n, d = X.shape
    widths = [
        d if each.name.startswith("linear") else min(n, each.get_params().get("landmarks", d))
        for each in tried
    ]
    if show_progress(progress) and n * max(widths) > QUICK:
        seconds = expected_seconds(n, widths, outputs)
        if seconds > 60:
            print(f"This will take about {in_words(seconds)}.", file=sys.stderr)


class _Ranked(NamedTuple):
    features: Features
    error: float
    ridge: float
    phi: Tensor | None  # of all rows, where these were ranked by


def _targets(y: Tensor, loss: str, outputs: int) -> Tensor:
    if loss == "cross_entropy":
        return torch.nn.functional.one_hot(y.long(), outputs).double()
    return y.double().reshape(len(y), -1)


def _rank(
    X: Any,
    y: Tensor,
    loss: str,
    outputs: int,
    tried: Sequence[Features],
    weights: Tensor | None,
    removed: Tensor | None,
    seed: int,
) -> list[_Ranked]:
    """Exact leave-one-out of kernel ridge regression for every feature map, best first."""
    n, targets = X.shape[0], _targets(y, loss, outputs)
    rows = torch.arange(n)
    if n > RANKED:
        generator = torch.Generator().manual_seed(seed)
        rows = torch.randperm(n, generator=generator)[:RANKED].sort().values
    part = [None if each is None else each[rows] for each in (weights, removed)]
    ridges = 10.0 ** torch.arange(HIGHEST, LOWEST - STEP / 2, -STEP, dtype=torch.float64)
    whole, ranked = n <= RANKED, []
    for features, phi in fit_all(tried, X if whole else X[rows.numpy()], part[0]):
        path = ridge_path(phi, targets[rows], ridges, *part)
        share = torch.ones(len(rows), dtype=torch.float64) if part[0] is None else part[0]
        errors = path.losses @ share / share.sum()
        best = int(errors.argmin())
        ranked.append(
            _Ranked(features, float(errors[best]), float(ridges[best]), phi if whole else None)
        )
    return sorted(ranked, key=lambda one: one.error)


def _kept(ranked: Sequence[_Ranked]) -> list[_Ranked]:
    """The best few, and the linear model in any case."""
    return [
        one for place, one in enumerate(ranked) if place < KEPT or one.features.name == "linear"
    ]


def _walk(
    one: _Ranked, rows: Rows, objective: Objective, ridge: float | str
) -> Iterator[Candidate]:
    """Fit along a grid of ridges, downhill from a first guess until both neighbours are worse."""
    if not isinstance(ridge, str):
        yield _fitted(one, rows, objective, float(ridge), None)
        return
    found: dict[int, Candidate] = {}
    low, high = round(LOWEST / STEP), round(HIGHEST / STEP)
    exact = objective.loss.name == "squared"
    guess = math.log10(one.ridge if exact else SHARE * one.ridge)
    best = min(max(round(guess / STEP), low), high)
    while True:
        tried = [place for place in (best, best - 1, best + 1) if low <= place <= high]
        for place in tried:
            if place not in found:
                near = min(found, key=lambda other: abs(other - place), default=None)
                start = None if near is None else found[near]
                found[place] = _fitted(one, rows, objective, 10 ** (STEP * place), start)
                yield found[place]
        lowest = min(tried, key=lambda place: found[place].error)
        if lowest == best:
            return
        best = lowest


def _fitted(
    one: _Ranked, rows: Rows, objective: Objective, ridge: float, start: Candidate | None
) -> Candidate:
    """One fit, from the minimum of another ridge if there is one."""
    algorithm = DecoupledNewton(ridge, tolerance=CLOSE, repairs=0)
    state = None if start is None else start.run.state
    run = fit(rows, None, objective, algorithm, 100, state=state, progress=False)
    if run.stop_reason is StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    outputs = run.best_outputs.reshape(rows.n, -1)
    name = objective.loss.name
    said = predictions(name, outputs, row_count(rows))
    error = float(rows.averaged(row_losses(name, said, rows.y)).mean())
    return Candidate(one.features, ridge, run, outputs, rows, said, error)


def _best(found: Sequence[Candidate]) -> Candidate:
    return min(found, key=lambda one: one.error)


def _combined(
    objective: Objective,
    found: Sequence[Candidate],
    stack: bool,
    seed: int,
    ranking: tuple[tuple[str, float], ...],
    interrupted: bool,
) -> Search:
    loss, rows = objective.loss.name, found[0].rows
    y = rows.y
    said = torch.stack([one.said for one in found])
    shares = torch.ones(rows.n, dtype=torch.float64) if rows.weights is None else rows.weights
    weights = stack_weights(loss, said, y, shares)
    weights = torch.where(weights < LEAST_WEIGHT, 0.0, weights)
    weights = weights / weights.sum()
    judged = cross_fitted(loss, said, y, shares, rows.groups, seed)
    if not stack:  # what choosing the weights gains is what choosing one of them gains
        chosen = min(range(len(found)), key=lambda k: found[k].error)
        curse = (judged - mixed_losses(loss, weights, said, y)) @ shares / shares.sum()
        weights = torch.zeros_like(weights)
        weights[chosen] = 1.0
        judged = mixed_losses(loss, weights, said, y) + curse.clamp_min(0)
    values = rows.averaged(judged)
    mixed = torch.einsum("f,fnk->nk", weights, said)
    variance = max(float(values.var()), _stated_variance(loss, mixed))
    best = _best(found)
    together = _pairs(best, seed) if rows.groups is None else 0.0
    stderr = math.sqrt(variance / len(values) + together)
    raw = float(rows.averaged(mixed_losses(loss, weights, said, y)).mean())
    error = float(values.mean())
    estimate = CorrectedError(error, stderr, error - raw)
    return Search(objective, tuple(found), weights, estimate, judged, ranking, interrupted)


def _stated_variance(loss: str, mixed: Tensor) -> float:
    """Variance of a row's loss if the stated probabilities were true; 0 for numbers."""
    if loss == "squared":
        return 0.0
    chances = mixed.clamp_min(1e-12)
    losses = -chances.log()
    mean = (chances * losses).sum(1)
    return float(((chances * losses.square()).sum(1) - mean.square()).mean() + mean.var())


def _pairs(candidate: Candidate, seed: int) -> float:
    """Mean covariance of the left-out losses of two rows, for the best candidate."""
    rows = candidate.rows
    generator = torch.Generator().manual_seed(seed)
    some = torch.randperm(rows.n, generator=generator)[:PAIRED]
    problem = Problem(rows, candidate.run.bound, candidate.ridge)
    return paired_losses(problem, evaluate(candidate, rows.X), some)


def _limit_landmarks(features: Features, y: Tensor, outputs: int, loss: str) -> None:
    """Fewer landmarks for many classes, whose Hessian has K times as many columns."""
    given = features.get_params()
    if "landmarks" in given and loss == "cross_entropy" and len(y) > given["landmarks"]:
        features.set_params(landmarks=min(given["landmarks"], MOST_PARAMETERS // outputs))
