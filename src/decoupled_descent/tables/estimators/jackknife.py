r"""Prediction intervals from leave-one-out models: the jackknife+.

With μ₋ᵢ the model without row i (or without its group) and R_i = |y_i − μ₋ᵢ(x_i)|, the interval at
level 1 − α ends at the quantiles of μ₋ᵢ(x) ∓ R_i over the training rows (Barber, Candès, Ramdas and
Tibshirani, *Predictive inference with the jackknife+*, 2021). It contains the target of a new row
with probability at least 1 − 2α for any distribution of the rows, and usually with about 1 − α.

For squared loss all these models follow from one fit. Leaving row i out moves the prediction of any
x by

.. math:: J(x) H^{-1} J_i^\top d_i = \Bigl(\frac{1}{\sum_j w_j} + \sum_k
   \frac{\phi_k(x)\,\phi_k(x_i)}{v_k + \lambda}\Bigr) d_i, \qquad d_i = w_i (o_i^{(-i)} - y_i),

since features are centred and uncorrelated (``tables/features/decomposition.py``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decoupled_descent.rows.blocks import Rows
from decoupled_descent.tables.estimators.mixture import Mixture
from decoupled_descent.tables.members.interface import KeptRows
from decoupled_descent.tables.search.fits import SearchResult

Floats = NDArray[np.floating[Any]]

#: At most this many training rows are left out for an interval, drawn at random if there are more.
#: The level of their quantile then has a standard error of 1.4 percentage points, and files stay
#: small.
MOST = 500
#: New rows are processed in blocks, so that about this many numbers are in memory.
NUMBERS = 2**21
#: Tensors that every jackknife has.
SINGLE = ("residuals", "weights", "groups")


@dataclass(frozen=True)
class Jackknife:
    """The data of s training rows that intervals need.

    There are no moves for networks, whose intervals have the same width everywhere.
    """

    residuals: Tensor  # abs(y − μ₋ᵢ(x_i)), shape (s, K)
    weights: Tensor  # of the rows, shape (s,); their sum is the effective sample size
    groups: Tensor  # rows with the same whole number are left out together, shape (s,)
    constant: float = 0.0  # 1/Σ_j w_j over all training rows
    features: tuple[Tensor, ...] = ()  # φ for each feature map of the mixture, shapes (s, r)
    moves: tuple[Tensor, ...] = ()  # d for each member of the mixture, shapes (s, K)
    rows: Tensor | None = None  # the indices of these rows, shape (s,); not saved in files
    others: tuple[KeptRows, ...] = ()  # for each member of another kind

    @classmethod
    def of(cls, result: SearchResult, shares: Tensor | None, seed: int) -> Jackknife:
        """Take the data that intervals need from a search with squared loss."""
        rows, members = result.best.rows, [fit for _, fit in result.members]
        y = rows.y.reshape(rows.n, -1)
        some, codes = _some(rows, seed)
        leaving = torch.ones_like(y) if rows.weights is None else rows.weights.unsqueeze(1)
        maps = {id(one.features): one.rows.gather(some) for one in members}
        return cls(
            (y - result.left_out).abs()[some],
            _counted(None if shares is None else shares[some], len(some)),
            codes,
            1 / float(rows.n if rows.weights is None else rows.weights.sum()),
            tuple(maps.values()),
            tuple((leaving * (one.outputs - y))[some] for one in members),
            some,
            tuple(_kept_rows(result, some)),
        )

    @classmethod
    def plain(cls, residuals: Floats, shares: Tensor | None = None) -> Jackknife:
        """From out-of-sample errors or scores alone, shape (n, K)."""
        n, rows = len(residuals), torch.arange(len(residuals))
        return cls(torch.from_numpy(np.abs(residuals)), _counted(shares, n), rows, rows=rows)

    def of_one_width(self) -> Jackknife:
        """For intervals of the same width everywhere, which need no features of the rows."""
        return replace(self, constant=0.0, features=(), moves=(), others=())

    def in_order(self) -> Jackknife:
        """The same in the order of the residuals of one output, which tells nothing of the rows.

        Only for intervals of the same width everywhere.
        """
        order = self.residuals[:, 0].argsort(stable=True)
        groups = torch.arange(len(order))
        return Jackknife(self.residuals[order], self.weights[order], groups)

    def widths(self, level: float) -> Tensor:
        """The quantile of the residuals, shape (K,): half the width of intervals without moves."""
        return quantiles(self.residuals.unsqueeze(0), self.weights, level)[0]

    def intervals(self, mixture: Mixture | None, X: Any, centre: Tensor, level: float) -> Tensor:
        """Lower and upper ends, shape (m, K, 2), around predictions of shape (m, K)."""
        if mixture is None or not self.moves:
            return torch.stack([centre - self.widths(level), centre + self.widths(level)], 2)
        ends, size = [], max(1, NUMBERS // self.residuals.numel())
        for start in range(0, len(centre), size):
            rows = slice(start, start + size)
            models = centre[rows].unsqueeze(1) + self.changes(mixture, X[rows])
            ends.append(self._ends(models, self.weights, level))
        return torch.cat(ends)

    def own_intervals(self, mixture: Mixture | None, left_out: Tensor, level: float) -> Tensor:
        r"""Intervals for these rows themselves, shape (s, K, 2), each from the other rows.

        ``left_out`` are their leave-one-out outputs (s, K). The prediction without rows i and j is
        approximated by μ₋ᵢ(x_i) + (μ₋ⱼ − μ)(x_i), so that no row influences its own interval.
        """
        models = left_out.unsqueeze(1)
        if mixture is not None and self.moves:
            models = models + self.changes(mixture, None)
        return self._ends(models, self.weights * (self.groups.unsqueeze(1) != self.groups), level)

    def _ends(self, models: Tensor, weights: Tensor, level: float) -> Tensor:
        """Quantiles of the predictions without each row ∓ its residual, shape (m, K, 2)."""
        lower = -quantiles(self.residuals - models, weights, level)
        return torch.stack([lower, quantiles(self.residuals + models, weights, level)], 2)

    def changes(self, mixture: Mixture, X: Any | None) -> Tensor:
        """μ₋ᵢ(x) − μ(x), shape (m, s, K); for these rows themselves if X is None."""
        total, maps = torch.zeros(()), iter(self.features)
        mapped: dict[int, tuple[Tensor, Tensor]] = {}
        for member, moves in zip(mixture.members, self.moves, strict=True):
            key = id(member.features)
            if key not in mapped:
                old = next(maps)
                mapped[key] = old if X is None else member.features.transform(X), old
            new, old = mapped[key]
            pulled = new / (member.features.map_.values + member.ridge) @ old.T + self.constant
            total = total + member.share * pulled.unsqueeze(2) * moves
        if int(self.groups.max()) + 1 < len(self.groups):
            sums = total.new_zeros(len(total), int(self.groups.max()) + 1, total.shape[2])
            total = sums.index_add_(1, self.groups, total)[:, self.groups]
        for (share, model), kept in zip(mixture.others, self.others, strict=True):
            total = total + share * model.changes(X, kept)  # whole groups are left out in these
        return total


def _kept_rows(result: SearchResult, some: Tensor) -> Iterator[KeptRows]:
    """What members of other kinds need about these rows."""
    for _, one in result.other_members:
        assert result.table is not None
        yield one.model.kept_rows(result.table, some)


def quantiles(values: Tensor, weights: Tensor, level: float) -> Tensor:
    """The conformal quantile along the second axis, infinite beyond the last value.

    With unit weights it is the ⌈(s + 1) level⌉-th smallest of s values. Values are (m, s, K),
    weights (s,) or (m, s).
    """
    ordered, order = values.sort(1)
    weights = weights.expand(values.shape[:2]).unsqueeze(2)
    reached = weights.expand_as(values).gather(1, order).cumsum(1)
    limit = level * (weights.sum(1, keepdim=True) + 1) * (1 - 1e-12)
    index = (reached < limit).sum(1, keepdim=True)
    past = torch.full_like(ordered[:, :1], math.inf)
    return torch.cat([ordered, past], 1).gather(1, index).squeeze(1)


def _counted(shares: Tensor | None, n: int) -> Tensor:
    """Weights whose sum is the effective sample size, (Σw)²/Σw²."""
    if shares is None:
        return torch.ones(n, dtype=torch.float64)
    return shares * (shares.sum() / shares.square().sum())


def _some(rows: Rows, seed: int) -> tuple[Tensor, Tensor]:
    """Choose rows to leave out, in whole groups; return them and the number of each row's group."""
    groups = torch.arange(rows.n) if rows.groups is None else rows.groups
    sizes = torch.bincount(groups)
    order = torch.randperm(len(sizes), generator=torch.Generator().manual_seed(seed))
    fits = sizes[order].cumsum(0) <= MOST
    fits[0] = True
    some = torch.isin(groups, order[fits]).nonzero().squeeze(1)
    codes: Tensor = torch.unique(groups[some], return_inverse=True)[1]
    return some, codes


def describe_jackknife(jackknife: Jackknife) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors by name for a file, and a description: the rows and the bytes."""
    tensors = {f"jackknife.{name}": getattr(jackknife, name) for name in SINGLE}
    for name in ("features", "moves"):
        for number, value in enumerate(getattr(jackknife, name)):
            tensors[f"jackknife.{name}.{number}"] = value
    for number, kept in enumerate(jackknife.others):
        tensors[f"jackknife.others.{number}"] = kept.matrix
    size = sum(value.numel() * value.element_size() for value in tensors.values())
    about = {"rows": len(jackknife.residuals), "constant": jackknife.constant, "bytes": size}
    return tensors, {"jackknife": about}


def rebuild_jackknife(content: dict[str, Any], tensors: dict[str, Tensor]) -> Jackknife:
    """Restore a jackknife from a file that was checked."""
    single = [tensors[f"jackknife.{name}"].clone() for name in SINGLE]
    lists = []
    for name in ("features", "moves", "others"):
        starts = f"jackknife.{name}."
        keys = sorted(int(key.removeprefix(starts)) for key in tensors if key.startswith(starts))
        lists.append(tuple(tensors[f"{starts}{number}"].clone() for number in keys))
    residuals, weights, groups = single
    features, moves, matrices = lists
    constant, others = float(content["jackknife"]["constant"]), tuple(map(KeptRows, matrices))
    return Jackknife(residuals, weights, groups, constant, features, moves, None, others)
