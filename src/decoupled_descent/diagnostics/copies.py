r"""Copies among the rows, and what they do to the estimate.

Leaving a row out does not help while its copy stays in.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from decoupled_descent.rows.blocks import Rows
from decoupled_descent.training.run import Run

#: Two rows are near duplicates if ‖x_i − x_j‖² is below this share of ‖x_i‖² + ‖x_j‖², …
NEAR = 0.02
#: … below this share of the distance expected of the nearest of n neighbours, …
UNUSUAL = 0.1
#: … and so small that at most this share of independent rows would be as close.
CHANCE = 0.01
#: At most this many rows are compared with all others.
COMPARED = 2000


class Copies(NamedTuple):
    """Rows that were compared with all others, and whether each is a copy of its nearest one."""

    rows: Tensor  # their places, (s,)
    found: Tensor  # truth values, (s,)
    nearest: Tensor  # places of the nearest others, (s,)

    @property
    def share(self) -> float:
        """The share of rows that have a copy."""
        return float(self.found.double().mean()) if len(self.found) else 0.0

    def both(self, other: Copies) -> Copies:
        """Rows that are copies in two tables, of the columns and of features made from them."""
        return self._replace(found=self.found & other.found)


def copies(X: Tensor) -> Copies:
    r"""Find rows that have an exact or near duplicate among the others.

    If the √n-th neighbour is at a squared distance D in m dimensions, the first is expected at
    about D n^{−1/m}; a duplicate is far closer. Rows of two numbers and a category lie in planes,
    so m is estimated from the neighbours. Rows at distance 0 from √n others, or with values so
    frequent that they agree by chance, are not duplicates: new rows will agree with them as well.
    """
    X, (n, d) = X.double(), X.shape
    chosen = torch.arange(n, device=X.device)
    if n < 3:
        return Copies(chosen, torch.zeros_like(chosen, dtype=torch.bool), chosen)
    if n > COMPARED:
        order = torch.randperm(n, generator=torch.Generator().manual_seed(0))
        chosen = order[:COMPARED].to(X.device)
    distances, others = _neighbours(X, chosen, math.isqrt(n - 1) + 1)
    nearest, farthest = distances[:, 0], distances[:, -1]
    m = _dimension(distances, d)
    expected = min(UNUSUAL, CHANCE ** (2 / m)) * n ** (-1 / m) * farthest
    found = nearest < expected.clamp_max(NEAR)
    apart = (found & (nearest > 0)).nonzero().squeeze(1)
    if len(apart) > 0:
        found[apart] = _is_close(X, chosen, apart, others[apart])
    same = (found & (nearest == 0)).nonzero().squeeze(1)
    if len(same) > 0:
        found[same] = _coincidences(X, chosen[same]) < CHANCE
    return Copies(chosen, found, others)


def rise(run: Run, rows: Rows, found: Copies) -> float | None:
    """How much the error rises when rows are left out together with their copies.

    The mean over the rows compared, in the units of the loss. Rows of a group leave together in any
    case. None where the run is not at a minimum.
    """
    alone = torch.arange(rows.n) if rows.groups is None else rows.groups.cpu()
    losses = []
    for groups in (alone, _joined(alone, found)):
        grouped = Rows(rows.X, rows.y, weights=rows.weights, groups=groups.to(rows.X.device))
        _, info = run.algorithm.step(run.state, grouped, run.objective)
        if not info.estimates:
            return None
        outputs = run.algorithm.outputs(run.state, info.preactivations, run.bound)
        losses.append(run.objective.loss.of(outputs, rows.y).double())
    return float((losses[1] - losses[0])[found.rows].mean())


def _joined(groups: Tensor, found: Copies) -> Tensor:
    """Groups with those joined that hold copies of each other."""
    left = groups[found.rows[found.found].cpu()].numpy()
    right = groups[found.nearest[found.found].cpu()].numpy()
    count = int(groups.max()) + 1
    graph = coo_array((np.ones(len(left)), (left, right)), shape=(count, count))
    return torch.from_numpy(connected_components(graph, directed=False)[1]).long()[groups]


def _coincidences(X: Tensor, rows: Tensor) -> Tensor:
    """Return the expected number of rows equal to a row if columns were independent."""
    n = len(X)
    expected = torch.full((len(rows),), math.log(n), dtype=torch.float64, device=X.device)
    for column in X.T:
        _, which, counts = torch.unique(column, return_inverse=True, return_counts=True)
        expected += (counts.double() / n).log()[which[rows]]
    return expected.exp()


def _neighbours(X: Tensor, chosen: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return ‖x_i − x_j‖²/(‖x_i‖² + ‖x_j‖²) to the nearest others, ascending, and the nearest j."""
    squares, distances, nearest = X.square().sum(1), [], []
    for part in torch.split(chosen, 256):
        sums = squares[part].unsqueeze(1) + squares
        share = 1 - 2 * (X[part] @ X.T) / sums.clamp_min(torch.finfo(X.dtype).tiny)
        share[share < 1e-12] = 0.0
        share[torch.arange(len(part), device=X.device), part] = math.inf
        found = torch.topk(share, count, dim=1, largest=False)
        distances.append(found.values)
        nearest.append(found.indices[:, 0])
    return torch.cat(distances), torch.cat(nearest)


def _dimension(distances: Tensor, most: int) -> float:
    """Return m ≤ d if the number of neighbours grows with the m-th power of their distance.

    Two octaves are compared and the faster growth is used, because the slower one may contain the
    gap between groups of rows.
    """
    rank, found = distances.shape[1], []
    for far in (rank, rank // 2):
        near = far // 2
        ends = distances[:, [max(near, 1) - 1, far - 1]]
        growth = (ends[:, 1] / ends[:, 0])[(ends[:, 0] > 0) & (ends[:, 1] > ends[:, 0])]
        if near > 0 and len(growth) > 0:
            found.append(2 * math.log(far / near) / float(growth.log().median()))
    return min(float(most), max(1.0, *found)) if found else float(most)


def _is_close(X: Tensor, chosen: Tensor, rows: Tensor, others: Tensor) -> Tensor:
    r"""Return which pairs are closer than chance explains, in the directions where pairs differ.

    Rows that share rare categories differ in the numbers alone, as any two rows do. So distances
    are compared with those of random rows in the same m directions, at best a share n^{−2/m}.
    """
    steps = X[chosen[rows]] - X[others]
    lengths = steps.square().sum(1)
    pairs = torch.stack([chosen[rows], others]).sort(0).values
    known, which = torch.unique(pairs, dim=1, return_inverse=True)
    once = torch.empty_like(known[0]).scatter_(0, which, torch.arange(len(rows), device=X.device))
    u = steps[once] / lengths[once].sqrt().unsqueeze(1)
    count, d = u.shape
    common = float((u @ u.T).square().sum()) - count
    m = min(d, max(1.0, count * (count - 1) / max(common, 1e-9))) if count > 1 else d
    variance = float((X[chosen] @ u.T).var(0).mean())
    limit = min(NEAR, (CHANCE / len(X)) ** (2 / m))
    close: Tensor = lengths < limit * 2 * m * variance
    return close
