"""Which rows each copy of a network is trained on, and which copy evaluates each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decoupled_descent.checks import whole_number

Codes = NDArray[np.int64]

#: Labels that are whole numbers with at most this many values are classes.
MOST_CLASSES = 100
#: The fold of rows that no copy leaves out: the earliest rows where folds follow time.
NEVER = -1


@dataclass(frozen=True)
class FoldAssignment:
    r"""The fold of each row, and from it the rows of each copy.

    Copy k = 0, …, K − 1 leaves fold k out; copy K sees all rows. With ``past_only``, copy k
    sees the rows of earlier folds only.

    Attributes:
        fold: The fold of each row, shape (n,); −1 for rows that are never evaluated.
        count: K.
        past_only: Whether copy k is trained on folds before k only (an expanding window).

    Example:
        >>> folds = FoldAssignment(torch.tensor([0, 1, 1]), 2)
        >>> folds.trained()
        tensor([[False,  True,  True],
                [ True, False, False],
                [ True,  True,  True]])
    """

    fold: Tensor
    count: int
    past_only: bool = False

    def trained(self, rows: Tensor | None = None) -> Tensor:
        """Whether a copy is trained on a row, shape (K + 1, n), or for some rows by number."""
        fold = self.fold if rows is None else self.fold[rows]
        copies = torch.arange(self.count, device=fold.device).unsqueeze(1)
        inside = fold < copies if self.past_only else fold != copies
        return torch.cat([inside, torch.ones_like(inside[:1])])

    @property
    def evaluated(self) -> Tensor:
        """Whether a row is evaluated by a copy that did not see it, shape (n,)."""
        return self.fold != NEVER

    @property
    def sizes(self) -> Tensor:
        """The number of rows that copies 0 to K − 1 are trained on, shape (K,)."""
        sizes = torch.bincount(self.fold + 1, minlength=self.count + 1)
        return sizes.cumsum(0)[:-1] if self.past_only else len(self.fold) - sizes[1:]


def assign_folds(
    n: int,
    folds: Any,
    *,
    classes: Codes | None = None,
    groups: Any = None,
    time: Any = None,
    seed: int = 0,
) -> FoldAssignment:
    """Divide n rows into folds: at random, by class, by group or by time.

    Args:
        n: The number of rows.
        folds: K; "loo" for as many folds as rows (or groups); or the fold of each row, from 0 on.
        classes: The class of each row, shape (n,): every fold gets its share of each.
        groups: A label for each row: rows of one group are in one fold.
        time: A number or date for each row. The rows are divided into K + 1 pieces in this order;
            fold k is piece k + 1, and its copy sees the pieces before it. Rows of one time stay
            together. The earliest piece is never evaluated.
        seed: Makes the folds reproducible.

    Returns:
        The fold of each row.

    Example:
        >>> assign_folds(6, 2, classes=np.array([0, 0, 1, 1, 1, 1])).fold.bincount()
        tensor([3, 3])
        >>> assign_folds(6, 2, time=[1, 2, 3, 4, 5, 6]).fold
        tensor([-1, -1,  0,  0,  1,  1])
    """
    if time is not None and groups is not None:
        raise ValueError("groups and time are both given; give one, or fold numbers as folds=")
    if not isinstance(folds, str | int | np.integer):
        return _given(n, folds, groups, time)
    if time is not None:
        return _by_time(n, folds, _codes("time", time, n))
    units = np.arange(n) if groups is None else _codes("groups", groups, n)
    count = _count(folds, int(units.max()) + 1, "rows" if groups is None else "groups")
    strata = np.zeros(n, np.int64) if classes is None else classes
    generator = np.random.default_rng(seed)
    deal = _by_row if groups is None else _by_group
    return FoldAssignment(torch.from_numpy(deal(units, strata, count, generator)), count)


def classes_of(y: Any) -> Codes | None:
    """Return the class of each row from 0 on, or None where labels are no classes.

    Labels are classes if there is one per row, all are whole numbers, and they have at most 100
    values.

    Example:
        >>> classes_of(torch.tensor([1.0, 0.0, 1.0, 1.0])), classes_of(torch.tensor([0.5, 0.0]))
        (array([1, 0, 1, 1]), None)
    """
    values = np.asarray(torch.as_tensor(y).detach().cpu())
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.ndim != 1 or not np.array_equal(values, np.round(values)):
        return None
    kinds, codes = np.unique(values, return_inverse=True)
    return codes.astype(np.int64) if len(kinds) <= min(MOST_CLASSES, len(values) / 2) else None


def _count(folds: Any, units: int, what: str) -> int:
    """The number of folds of so many rows or groups."""
    if folds == "loo":
        folds = units
    if isinstance(folds, str):
        raise ValueError(f"folds={folds!r} must be a whole number, 'loo' or a fold for each row")
    if units < 2:
        raise ValueError(f"folds={folds!r} needs at least 2 {what}; there is {units}")
    if folds > units:
        raise ValueError(f"folds={folds!r} must be at most the number of {what}, {units}")
    return whole_number("folds", folds, 2)


def _codes(name: str, values: Any, n: int) -> Codes:
    """Numbers from 0 on in the order of the values."""
    values = np.asarray(values.cpu() if isinstance(values, Tensor) else values)
    if values.shape != (n,):
        raise ValueError(f"{name} has shape {values.shape}; give one value for each of {n} rows")
    if values.dtype.kind in "fmM" and (values != values).any():
        raise ValueError(f"{name} has missing values; give every row a value")
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _by_row(units: Codes, strata: Codes, count: int, generator: np.random.Generator) -> Codes:
    """Deal the rows of one class after the other to the folds in turn."""
    order = generator.permutation(len(units))
    order = order[np.argsort(strata[order], kind="stable")]
    fold = np.empty(len(units), np.int64)
    fold[order] = generator.permutation(count)[np.arange(len(units)) % count]
    return fold


def _by_group(units: Codes, strata: Codes, count: int, generator: np.random.Generator) -> Codes:
    """Put every group, the largest first, where it makes the classes of the folds most equal."""
    table = np.zeros((int(units.max()) + 1, int(strata.max()) + 1))
    np.add.at(table, (units, strata), 1.0)
    scaled = table / table.sum(0)  # a rare class counts as much as a frequent one
    order = generator.permutation(len(table))
    order = order[np.argsort(-table[order].sum(1), kind="stable")]
    shares, taken = np.zeros((count, table.shape[1])), np.zeros(count, bool)
    fold_of_group = np.empty(len(table), np.int64)
    for place, group in enumerate(order):
        cost = (2 * shares * scaled[group]).sum(1) + shares.sum(1) * 1e-9
        if len(order) - place <= count - taken.sum():  # every fold gets a group
            cost[taken] = np.inf
        best = int(cost.argmin())
        shares[best] += scaled[group]
        taken[best], fold_of_group[group] = True, best
    return fold_of_group[units]


def _by_time(n: int, folds: Any, codes: Codes) -> FoldAssignment:
    """Pieces of about equal size in the order of time; equal times are in one piece."""
    times = int(codes.max()) + 1
    if folds == "loo":
        folds = times - 1
    if isinstance(folds, str) or folds + 1 > times:
        raise ValueError(f"folds={folds!r} needs {folds} + 1 different times; time has {times}")
    count = whole_number("folds", folds, 1)
    sizes = np.bincount(codes)
    middle = (sizes.cumsum() - sizes / 2) / n  # where the rows of a time are, from 0 to 1
    piece = np.minimum((middle * (count + 1)).astype(np.int64), count)
    latest = np.arange(times)  # no piece is empty: enough times come before and after each
    piece = np.clip(piece, count - (times - 1 - latest), latest)
    for at in range(1, times):
        piece[at] = min(max(piece[at], piece[at - 1]), piece[at - 1] + 1)
    return FoldAssignment(torch.from_numpy(piece[codes] - 1), count, past_only=True)


def _given(n: int, folds: Any, groups: Any, time: Any) -> FoldAssignment:
    """Folds that the caller numbers."""
    if groups is not None or time is not None:
        raise ValueError("folds has a fold for each row; leave groups and time out")
    fold = torch.as_tensor(folds).to("cpu")
    if fold.shape != (n,) or fold.is_floating_point() or fold.dtype == torch.bool:
        raise ValueError(f"folds must be a whole number, 'loo' or {n} fold numbers, one per row")
    fold = fold.to(torch.int64)
    count = int(fold.max()) + 1
    if count < 2 or int(fold.min()) < 0 or len(torch.unique(fold)) != count:
        raise ValueError(
            f"folds has the numbers {torch.unique(fold).tolist()}; number them 0, 1, 2, …"
        )
    return FoldAssignment(fold, count)
