r"""Duplicate rows, and their effect on the estimate.

Leaving a row out has little effect if its duplicate stays in.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from decoupled_descent.evaluation.checks.measures import losses_left_out
from decoupled_descent.rows.blocks import Rows

if TYPE_CHECKING:
    from decoupled_descent.training.run import Run

#: Two rows are near duplicates if ‖x_i − x_j‖² is below this share of ‖x_i‖² + ‖x_j‖², …
NEAR = 0.02
#: … below this share of the distance expected of the nearest of n neighbours, …
UNUSUAL = 0.1
#: … and so small that at most this share of independent rows would be as close by chance.
CHANCE = 0.01
#: At most COMPARED rows are compared with all others, AT_A_TIME of them at a time.
COMPARED, AT_A_TIME = 2000, 256
#: The others are taken in pieces of at most this many numbers, and of as many distances.
NUMBERS = 2**20
#: A lower bound of denominators.
TINIEST = torch.finfo(torch.float64).tiny


class Duplicates(NamedTuple):
    """Rows that were compared with all others, and whether the nearest one is a duplicate."""

    rows: Tensor  # their indices, (s,)
    is_duplicate: Tensor  # truth values, (s,)
    nearest: Tensor  # indices of the nearest others, (s,)

    @property
    def share(self) -> float:
        """The share of rows that have a duplicate."""
        return float(self.is_duplicate.double().mean()) if len(self.rows) else 0.0

    def both(self, other: Duplicates) -> Duplicates:
        """Rows that are duplicates in two tables: the columns, and features made from them."""
        return self._replace(is_duplicate=self.is_duplicate & other.is_duplicate)


def find(rows: Rows, among: Tensor | None = None) -> Duplicates:
    r"""Find rows, all or some, that have an exact or near duplicate among the others.

    If the √n-th neighbour is at a squared distance D in m dimensions, the first is expected at
    about D n^{−1/m}; a duplicate is far closer. Rows of two numbers and a category lie in planes,
    so m is estimated from the neighbours. Rows at distance 0 from √n others, or with values so
    frequent that they agree by chance, are not duplicates: new rows will agree with them as well.
    """
    d, device = rows.d, rows.like.device
    among = torch.arange(rows.n, device=device) if among is None else among
    n = len(among)
    if n < 3:
        return Duplicates(among, torch.zeros_like(among, dtype=torch.bool), among)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0)).to(device)
    chosen = among[order[:COMPARED]] if n > COMPARED else among
    X = rows.gather(chosen)  # in its own precision: there may be many columns
    distances, others = _neighbours(rows, among, X, chosen, math.isqrt(n - 1) + 1)
    nearest, farthest = distances[:, 0], distances[:, -1]
    m = _dimension(distances, d)
    expected = min(UNUSUAL, CHANCE ** (2 / m)) * n ** (-1 / m) * farthest
    close = nearest < expected.clamp_max(NEAR)
    apart = (close & (nearest > 0)).nonzero().squeeze(1)
    if len(apart) > 0:
        pairs = torch.stack([chosen[apart], others[apart]])
        steps = X[apart].double() - rows.gather(others[apart]).double()
        close[apart] = _is_close(X.double(), steps, pairs, n)
    same = (close & (nearest == 0)).nonzero().squeeze(1)
    if len(same) > 0:
        close[same] = _coincidences(rows, among, X[same].double()) < CHANCE
    return Duplicates(chosen, close, others)


def rise_without(run: Run, rows: Rows, pairs: Duplicates) -> float | None:
    """How much the error rises if rows are left out together with their duplicates.

    The mean over the compared rows, in the units of the loss. Rows of a group are left out together
    in any case. None if the run is not at a minimum.
    """
    alone = torch.arange(rows.n) if rows.groups is None else rows.groups.cpu()
    before, after = (losses_left_out(run, rows, one) for one in (alone, _joined(alone, pairs)))
    if before is None or after is None:
        return None
    return float((after - before)[pairs.rows].mean())


def _joined(groups: Tensor, pairs: Duplicates) -> Tensor:
    """Merge groups that have duplicates of each other."""
    left = groups[pairs.rows[pairs.is_duplicate].cpu()].numpy()
    right = groups[pairs.nearest[pairs.is_duplicate].cpu()].numpy()
    count = int(groups.max()) + 1
    graph = coo_array((np.ones(len(left)), (left, right)), shape=(count, count))
    return torch.from_numpy(connected_components(graph, directed=False)[1]).long()[groups]


def _some(rows: Rows, among: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Go through some rows in float64, a few at a time: their indices, and the rows."""
    size = max(1, NUMBERS // max(rows.d, AT_A_TIME))
    for span, part in rows.doubles():
        inside = among[(among >= span.start) & (among < span.stop)]
        every = len(inside) == len(part)
        for numbers in torch.split(inside, size):
            indices = numbers - span.start
            yield numbers, part[indices[0] : indices[-1] + 1] if every else part[indices]


def _coincidences(rows: Rows, among: Tensor, X: Tensor) -> Tensor:
    """Return how many rows would equal each row of X by chance, if columns were independent."""
    ordered = X.T.contiguous().sort(1).values  # (d, s)
    own = torch.searchsorted(ordered, X.T.contiguous())
    counts = torch.zeros_like(ordered)
    for _, part in _some(rows, among):
        values = part.T.contiguous()
        index = torch.searchsorted(ordered, values).clamp_max_(ordered.shape[1] - 1)
        counts.scatter_add_(1, index, (ordered.gather(1, index) == values).double())
    n = len(among)
    expected = (counts.gather(1, own) / n).log().sum(0) + math.log(n)
    return expected.exp()


def _neighbours(
    rows: Rows, among: Tensor, X: Tensor, chosen: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """Return ‖x_i − x_j‖²/(‖x_i‖² + ‖x_j‖²) to the nearest others, ascending, and the nearest j."""
    smallest = X.new_full((len(X), count), math.inf, dtype=torch.float64)
    nearest = torch.zeros_like(chosen)
    parts = torch.split(torch.arange(len(X), device=X.device), AT_A_TIME)
    squares = torch.cat([X[some].double().square().sum(1) for some in parts])
    for numbers, part in _some(rows, among):
        own = part.square().sum(1)
        for some in parts:
            sums = squares[some].unsqueeze(1) + own
            share = 1 - 2 * (X[some].double() @ part.T) / sums.clamp_min(TINIEST)
            share[share < 1e-12] = 0.0
            share[chosen[some].unsqueeze(1) == numbers] = math.inf
            least, which = share.min(1)
            closer = least < smallest[some, 0]
            nearest[some[closer]] = numbers[which[closer]]
            few = torch.topk(share, min(count, len(numbers)), dim=1, largest=False).values
            smallest[some] = torch.cat([smallest[some], few], 1).sort(1).values[:, :count]
    return smallest, nearest


def _dimension(distances: Tensor, most: int) -> float:
    """Return m ≤ d if the number of neighbours grows with the m-th power of their distance.

    Two octaves are compared and the faster growth is used, because the slower one may contain the
    gap between groups of rows.
    """
    rank, estimates = distances.shape[1], []
    for far in (rank, rank // 2):
        near = far // 2
        ends = distances[:, [max(near, 1) - 1, far - 1]]
        growth = (ends[:, 1] / ends[:, 0])[(ends[:, 0] > 0) & (ends[:, 1] > ends[:, 0])]
        if near > 0 and len(growth) > 0:
            estimates.append(2 * math.log(far / near) / float(growth.log().median()))
    return min(float(most), max(1.0, *estimates)) if estimates else float(most)


def _is_close(X: Tensor, steps: Tensor, pairs: Tensor, n: int) -> Tensor:
    r"""Return which pairs are significantly close, in the directions in which pairs differ.

    Rows with the same rare categories differ only in the numbers, as any two rows do. So distances
    are compared with those of random rows X in the same m directions. The nearest of n such rows is
    at a share n^{−2/m} of the mean distance.
    """
    lengths = steps.square().sum(1)
    different, which = torch.unique(pairs.sort(0).values, dim=1, return_inverse=True)
    numbers = torch.arange(len(steps), device=X.device)
    once = torch.empty_like(different[0]).scatter_(0, which, numbers)
    u = steps[once] / lengths[once].sqrt().unsqueeze(1)
    count, d = u.shape
    common = float((u @ u.T).square().sum()) - count
    m = min(d, max(1.0, count * (count - 1) / max(common, 1e-9))) if count > 1 else d
    variance = float((X @ u.T).var(0).mean())
    limit = min(NEAR, (CHANCE / n) ** (2 / m))
    close: Tensor = lengths < limit * 2 * m * variance
    return close
