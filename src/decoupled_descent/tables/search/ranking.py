"""The first round of the search: feature maps ranked by kernel ridge regression."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from decoupled_descent.objective import Objective
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.tables.features.candidates import as_features, fit_all
from decoupled_descent.tables.features.interface import Features
from decoupled_descent.tables.features.ridge_path import RidgePath
from decoupled_descent.tables.search.deadline import Deadline
from decoupled_descent.tables.search.fits import effective_count
from decoupled_descent.tables.search.ridge_walk import STEP

#: The largest number of rows for the ranking of feature maps, up to 1000 rows in all. With more it
#: grows as the cube root of n, as the time of the ranking then does as n, to at most
#: ``MOST_RANKED``: of three draws of 400 among 100,000
#: rows, one ranked linear maps first, whose test error was 11 % above that of kernels.
RANKED, MOST_RANKED = 400, 1000
#: The number of feature maps that are kept beside the linear one: for classes, where three instead
#: of two lowered the log loss of 72 fits to public sets by 0.5 %, and a fourth one by no more than
#: 0.1 % for a fifth more time; and for numbers, where more changed nothing (18 fits, 1.004), or
#: with more rows than ``NESTED``, where each takes long.
KEPT, FEWER_KEPT = 3, 2
#: With more rows than this, the ranking leaves out no folds: its rows are then a small part of all
#: rows, and that they have chosen the maps hardly changes the estimate.
NESTED = 2000
#: Ridges are powers of ten within these exponents, times the mean weight of a row.
LOWEST, HIGHEST = -5.0, 3.0
#: Outputs of ridge regression on one-hot classes are multiplied by the best of these to be logits.
#: At 2 they are, for two classes, to first order near probability ½; larger ones are for classes
#: far apart. With 64 as well, noise chose the maps of tables without errors.
SCALES = (2.0, 4.0, 8.0, 16.0)
#: With the real loss the first ridge is this share of the best ridge of the ranking, because the
#: curvature is smaller. It was chosen on six real tables.
SHARE = 0.06


class RankedMap(NamedTuple):
    """A feature map and its rank."""

    features: Features  # fitted if all rows were used for the ranking; else not
    error: float  # its lowest leave-one-out error
    start: float  # the first ridge to try with the real loss
    phi: Tensor | None  # the features of all rows, if all were used for the ranking; else None
    selected: Tensor  # whether it is selected without each fold of rows, and, last, on all rows
    chosen: bool = False  # whether the ridge is chosen, so that no others are tried
    essential: bool = False  # whether it is fitted whatever time it takes


class Sample(NamedTuple):
    """The rows of a search; weights and groups are as in :class:`Rows`."""

    X: Any  # Rows or a CSR matrix; a plain matrix if they are some of many rows
    y: Tensor  # labels of all rows
    objective: Objective  # Ψ of all fits
    weights: Tensor | None = None
    groups: Tensor | None = None

    @property
    def common(self) -> dict[str, Any]:
        """Weights and groups, as :class:`Rows` takes them."""
        return {"weights": self.weights, "groups": self.groups}

    @property
    def columns(self) -> int:
        """The number of columns."""
        return int(self.X.d if isinstance(self.X, Rows) else self.X.shape[1])

    @property
    def unit(self) -> float:
        """The mean weight of a row, or of a group, in whose units ridges are tried.

        Weights that are all multiplied by a constant, or rows that are repeated in groups, then
        give the same model.
        """
        n = len(self.y)
        total = n if self.weights is None else float(self.weights.sum())
        return total / effective_count(n, self.weights, self.groups)

    def some(self, most: int, seed: int) -> tuple[Tensor, Sample]:
        """The indices of at most ``most`` rows, and these rows, in memory."""
        rows = some_rows(len(self.y), most, self.groups, seed)
        X = self.X.gather(rows) if isinstance(self.X, Rows) else self.X[rows.numpy()]
        kept = [None if each is None else each[rows] for each in self.common.values()]
        return rows, Sample(X, self.y[rows], self.objective, *kept)

    def targets(self) -> Tensor:
        """What ridge regression fits: numbers, or classes one-hot, shape (n, K)."""
        return self.objective.loss.regression_targets(self.y, self.objective.width or -1)


def some_rows(n: int, most: int, groups: Tensor | None, seed: int) -> Tensor:
    """Indices of at most ``most`` rows, drawn without using labels; groups stay together."""
    if n <= most:
        return torch.arange(n)
    generator = torch.Generator().manual_seed(seed)
    if groups is None:
        return torch.randperm(n, generator=generator)[:most].sort().values
    order = torch.randperm(int(groups.max()) + 1, generator=generator)
    sizes = torch.bincount(groups)[order].cumsum(0)
    return torch.isin(groups, order[: max(2, int((sizes <= most).sum()))]).nonzero().squeeze(1)


def kept_count(n: int, objective: Objective) -> int:
    """How many feature maps are kept beside the linear one."""
    return KEPT if objective.loss.has_classes and n <= NESTED else FEWER_KEPT


def ranked_count(n: int) -> int:
    """How many of n rows rank the feature maps."""
    return min(n, round(RANKED * math.cbrt(max(1.0, n / 1000))), MOST_RANKED)


def rank(
    sample: Sample,
    maps: Sequence[Features],
    seed: int,
    folds: Tensor,
    deadline: Deadline,
) -> list[RankedMap]:
    """Exact leave-one-out of kernel ridge regression for every feature map, best first.

    Classes are compared by the log loss of scaled outputs, numbers by squared errors. Every fold of
    rows is also left out, for ridges near the best one: this shows which maps would be selected
    without these rows. The first linear map, or the first map without a linear one, is ranked
    whatever time it takes.
    """
    n = len(sample.y)
    rows, few = sample.some(ranked_count(n), seed)
    everything = len(rows) == n
    powers = torch.arange(HIGHEST, LOWEST - STEP / 2, -STEP, dtype=torch.float64)
    ridges = few.unit * 10.0**powers
    first = SHARE if sample.objective.loss.has_classes else 1.0
    held = torch.arange(int(folds.max()) + 1).unsqueeze(1) == folds[rows]
    copies = maps if everything else as_features(list(maps))  # others, which are gone afterwards
    essential = copies[next((k for k, one in enumerate(maps) if one.is_linear), 0)]
    originals = {id(copy): one for copy, one in zip(copies, maps, strict=True)}
    results, errors = [], []
    for copy, phi in fit_all(_in_time(copies, essential, deadline), few.X, few.weights):
        own, ridge = _errors(phi, few, ridges, held if n <= NESTED else held[:0])
        kept = phi if everything else None
        results.append((originals[id(copy)], float(own[-1]), first * ridge, kept))
        errors.append(own if n <= NESTED else own.repeat(len(held) + 1))
    ranks = torch.stack(errors).argsort(dim=0, stable=True).argsort(dim=0)
    linear = torch.tensor([features.is_linear for features, *_ in results]).unsqueeze(1)
    selected = (ranks < kept_count(n, sample.objective)) | linear
    ranked = [
        RankedMap(*one, selected=own, essential=one[0] is originals[id(essential)])
        for one, own in zip(results, selected, strict=True)
    ]
    return sorted(ranked, key=lambda one: one.error)


def _in_time(
    maps: Sequence[Features], essential: Features, deadline: Deadline
) -> Iterator[Features]:
    """The maps that are reached in time, and the essential one."""
    for one in maps:
        if one is essential or not deadline.leaves_out(one.name):
            yield one


def _errors(phi: Tensor, few: Sample, ridges: Tensor, held: Tensor) -> tuple[Tensor, float]:
    """Errors of a map without each fold and, last, on all rows, and the ridge that is best there.

    ``held`` has the rows of each fold. Ridges are compared by squared errors.
    """
    targets = few.targets()
    share = torch.ones(len(phi), dtype=torch.float64) if few.weights is None else few.weights
    path = RidgePath(phi, targets, ridges, *few.common.values())
    best = int((path.losses @ share).argmin())
    outputs, weights = path.outputs[best].unsqueeze(0), share.unsqueeze(0)
    if len(held):
        errors = path.some(slice(max(best - 1, 0), best + 2)).errors_without(held)
        weights = torch.cat([share * ~held, weights])
        chosen = (errors.square().sum(3) * weights[:-1]).sum(2).argmin(0)
        without = errors[chosen, torch.arange(len(held))]
        outputs = torch.cat([targets - without, outputs])
    classes = few.objective.loss.classes(few.y)
    if classes is None:
        losses = (targets - outputs).square().sum(2)
        lowest = (losses * weights).sum(1) / weights.sum(1)
    else:
        count = effective_count(len(classes), few.weights, few.groups)
        lowest = scaled_log_loss(outputs, classes, weights, count)
    return lowest, float(ridges[best])


def scaled_log_loss(outputs: Tensor, classes: Tensor, weights: Tensor, count: float) -> Tensor:
    r"""The lowest mean log loss of outputs of ridge regression as logits, shape (B,).

    Squared errors do not show that a map separates classes: its outputs may be far from 0 and 1.
    So the logit of class k is log π_k + c (o_k − π_k), with the share π_k of the class and the best
    of a few scales c. Probabilities are bounded as those of fits.

    Args:
        outputs: o of B regressions on one-hot classes, or on zeros and ones, shape (B, n, K).
        classes: The class of each row, shape (n,).
        weights: How much each row counts in each regression, shape (B, n).
        count: The effective number of rows, which bounds probabilities.

    Example:
        >>> outputs = torch.tensor([[[0.4], [0.6]]], dtype=torch.float64)
        >>> ones = torch.ones(1, 2, dtype=torch.float64)
        >>> scaled_log_loss(outputs, torch.tensor([0, 1]), ones, 1e9).exp().round(decimals=3)
        tensor([1.0410], dtype=torch.float64)
    """
    if outputs.shape[2] == 1:
        outputs = torch.cat([1 - outputs, outputs], 2)
    kinds = outputs.shape[2]
    total = weights.sum(1, keepdim=True)
    shares = (weights @ one_hot(classes, kinds).to(weights) / total).clamp_min(1 / (count * kinds))
    centred, start = outputs - shares.unsqueeze(1), shares.log().unsqueeze(1)
    index = classes.reshape(1, -1, 1).expand(len(outputs), -1, 1)
    lowest = torch.full_like(total, math.inf)
    for scale in SCALES:
        logits = torch.add(start, centred, alpha=scale)
        own = (logits.gather(2, index).squeeze(2) - logits.logsumexp(2)).exp_()
        losses = own.mul_(count).add_(1 / kinds).div_(count + 1).log_().neg_()
        lowest = torch.minimum(lowest, (losses * weights).sum(1, keepdim=True) / total)
    return lowest.squeeze(1)


def select(ranked: Sequence[RankedMap]) -> list[RankedMap]:
    """The best few and the linear model, then maps that are selected only without some fold."""
    chosen = [one for one in ranked if bool(one.selected.any())]
    return sorted(chosen, key=lambda one: not one.selected[-1])
