"""Fits of one feature map and one ridge each, and the mixture of them that a search returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from decoupled_descent.leave_one_out.resampling import Variation
from decoupled_descent.objective import Objective
from decoupled_descent.objective.losses import Loss
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.gathered import all_gather
from decoupled_descent.tables.features.interface import Features
from decoupled_descent.tables.members.interface import MemberFit, TrainingTable
from decoupled_descent.training.run import Run

#: A minimum of divided rows counts as one of all rows: the next step gains less than this share.
ROUNDED = 1e-6


class CandidateFit(NamedTuple):
    """One fit of the search: a feature map with a ridge."""

    features: Features  # the fitted feature map
    ridge: float  # λ
    run: Run  # Newton's method, which ended at the minimum
    outputs: Tensor  # outputs of the rows with each left out, shape (n, K)
    rows: Rows  # the features of the training rows, with labels, weights and groups
    predictions: Tensor  # leave-one-out predictions, shape (n, K) or, with two classes, (n, 2)
    error: float  # the leave-one-out error of these predictions
    selected: Tensor  # whether the map is selected in each ranking, see RankedMap
    fold_predictions: Tensor | None = None  # if each fold is left out as well, (folds, n, K)
    variation: Variation | None = None  # of the outputs with the sample, for classes

    @property
    def name(self) -> str:
        """Features and ridge in words."""
        return f"{self.features.name}, ridge={self.ridge:.3g}"


@dataclass(frozen=True)
class SearchResult:
    """The result of a search: all fits, and their mixture."""

    objective: Objective  # Ψ of all fits
    fits: tuple[CandidateFit, ...]  # all fits of the selected maps, in the order of training
    others: tuple[MemberFit, ...]  # members that are not Newton fits, such as forests
    weights: Tensor  # the share of each fit, then of each other; a single 1 without stacking
    losses: Tensor  # cross-fitted losses row by row, shape (n,)
    predictions: Tensor  # cross-fitted predictions, shape (n, K)
    excess: Tensor  # their variance in excess of the model's, shape (n, K)
    right: Tensor | None  # for classes: how often each row is predicted right, shape (n,)
    pairs: float  # variance of the mean loss, because rows train the models of others
    optimism: float  # by how much the mean loss is higher because the mixture was chosen
    mixture_codes: Tensor  # the number of the mixture that predicts each row, shape (n,)
    ranking: tuple[tuple[str, float], ...]  # maps and errors of the first round, best first
    interrupted: bool  # whether Ctrl-C ended the search early
    folds: Tensor  # the fold of each row in the cross-fit, shape (n,)
    table: TrainingTable | None = None  # the rows of the others
    skipped: tuple[str, ...] = ()  # candidates that the time limit left out

    @property
    def best(self) -> CandidateFit:
        """The Newton fit with the lowest leave-one-out error."""
        return lowest_error(self.fits)

    @property
    def members(self) -> list[tuple[float, CandidateFit]]:
        """The Newton fits in the model with their shares, largest first; at least the best one."""
        pairs = [*zip(self.weights.tolist(), self.fits, strict=False)]
        kept = [pair for pair in pairs if pair[0] > 0] or [(0.0, self.best)]
        return sorted(kept, key=lambda pair: -pair[0])

    @property
    def other_members(self) -> list[tuple[float, MemberFit]]:
        """The other members of the model with their shares."""
        pairs = zip(self.weights[len(self.fits) :].tolist(), self.others, strict=True)
        return [pair for pair in pairs if pair[0] > 0]

    @property
    def left_out(self) -> Tensor:
        """Mixed predictions of the training rows as if they were new, (n, K)."""
        parts = [share * member.predictions for share, member in self.members]
        parts += [share * member.predictions for share, member in self.other_members]
        return torch.stack(parts).sum(0)


def gathered_run(run: Run, rows: Rows, everything: Rows) -> Run:
    """A run on rows that are divided among processes, as if it had been made on all in one.

    A process does not refine or refit rows that move far when they are left out, and does not have
    the rows of a group together. If there are any, the last step is repeated on the rows of all.
    """
    info, bound = run.best.info, run.objective.bind(everything.y, run.bound.width, everything.like)
    doubtful = torch.tensor(float(info.notes.get("doubtful", 0)), dtype=torch.float64)
    if everything.groups is not None or float(rows.total(doubtful)[0]) > 0:
        # the sums differ by rounding, which must not decide whether this is the minimum
        newton: Any = run.algorithm
        newton = replace(newton, tolerance=ROUNDED) if info.estimates else newton
        again = newton.step(run.best.state, everything, bound)[1]
    else:
        losses, h = all_gather(rows, info.losses), all_gather(rows, info.preactivations)
        again = info._replace(losses=losses, preactivations=h, global_error=None)
    error, stderr = again.train_error, again.train_error_stderr
    best = replace(run.best, info=again, train_error=error, train_error_stderr=stderr)
    return replace(run, bound=bound, best=best)


def fitted_outputs(fit: CandidateFit) -> Tensor:
    """Outputs of a fit for the rows that it was trained on, shape (n, K)."""
    run = fit.run
    with torch.no_grad():
        h = fit.rows.forward(run.state.theta).T
        outputs = run.objective.pure_head(h, run.state.head)
    return outputs.unsqueeze(1) if outputs.ndim == 1 else outputs


def smoothed_predictions(loss: Loss, outputs: Tensor, count: float) -> Tensor:
    """Predictions for outputs, away from the ends of their range: see :meth:`Loss.smoothed`."""
    return loss.smoothed(loss.predictions(outputs), count)


def row_count(rows: Rows) -> float:
    """The effective number of independent rows, or groups: see :func:`effective_count`."""
    return effective_count(rows.n, rows.weights, rows.groups)


def effective_count(n: int, weights: Tensor | None, groups: Tensor | None) -> float:
    r"""Kish's effective sample size, (Σ w)²/Σ w², of rows or of groups with their total weights.

    It is the number of rows if all weights are equal, and a row whose weight tends to zero ceases
    to count.
    """
    if weights is None and groups is None:
        return float(n)
    own = torch.ones(n, dtype=torch.float64) if weights is None else weights.double()
    if groups is not None:
        own = own.new_zeros(int(groups.max()) + 1).index_add_(0, groups, own)
    return float(own.sum().square() / own.square().sum())


def selected_fits(fits: Sequence[CandidateFit]) -> list[CandidateFit]:
    """Fits of the maps that the ranking on all rows selects; they are trained first."""
    return [one for one in fits if one.selected[-1]]


def lowest_error(fits: Sequence[CandidateFit]) -> CandidateFit:
    """The fit with the lowest leave-one-out error."""
    return min(fits, key=lambda one: one.error)
