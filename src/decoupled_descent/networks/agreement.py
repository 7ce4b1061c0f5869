r"""Rows that resemble each other: copies, and what nearest rows do to the error.

Row i is predicted by a model that has not seen it, but has seen its nearest row k. If k is a copy
of i, or a row of the same patient, the error of left-out rows is too low.

Copies alone are not wrong: where columns have few values, new rows have copies, too. Then the
labels of copies differ as those of other rows do, so that deviations of copies from their
predictions are not alike. Copies of whole rows deviate alike.

Where each row is left out of the path, the effect of the nearest row is known as well: how much the
mean loss rises if it is left out with row i. For independent rows it has about the effect of the
next neighbours. Rows that belong together have a far larger one.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

#: The most numbers of a block of distances, and the most operations of all.
BLOCK, MOST_WORK = 2**24, 1e11
#: The nearest row is compared with these neighbours.
NEXT = slice(5, 10)
#: Rows nearer than this share of the typical distance are the same row.
SAME = 1e-6


class Nearest(NamedTuple):
    """The nearest row of each row that may stay in when it is left out."""

    row: Tensor  # its number, shape (n,)
    copy: Tensor  # whether it has the same columns, shape (n,)
    next: Tensor  # further neighbours, beyond the rows of a small group, shape (n, c)


def nearest_rows(X: Tensor, groups: Tensor) -> Nearest:
    """Find the nearest row of another group, with all columns scaled to the same spread.

    Example:
        >>> X = torch.tensor([[0.0], [1.0], [1.1], [5.0], [5.0]])
        >>> nearest = nearest_rows(X, torch.arange(5))
        >>> nearest.row.tolist(), nearest.copy.tolist()
        ([1, 2, 1, 4, 3], [False, False, False, True, True])
    """
    columns = X.reshape(len(X), -1).to(torch.get_default_dtype())
    spread = columns.std(0)
    columns = (columns - columns.mean(0))[:, spread > 0] / spread[spread > 0]
    rows, same, further = [], [], []
    count = min(NEXT.stop, len(X) - 1)
    for some in torch.split(torch.arange(len(X), device=X.device), max(1, BLOCK // len(X))):
        distance = torch.cdist(columns[some], columns)
        distance[groups[some].unsqueeze(1) == groups] = torch.inf
        row = distance.topk(count, largest=False).indices
        rows.append(row[:, 0])
        exact = (columns[some] - columns[row[:, 0]]).norm(dim=1)  # a product has rounding errors
        same.append(exact <= SAME * columns.shape[1] ** 0.5)
        further.append(row[:, NEXT])
    return Nearest(torch.cat(rows), torch.cat(same), torch.cat(further))


def copies(slopes: Tensor, near: Nearest) -> dict[str, float]:
    r"""How many rows have a copy, and whether copies err alike.

    Args:
        slopes: g_i, those of the losses at the left-out outputs, shape (n, K).
        near: The nearest rows.

    Returns:
        ``copies``: the share of rows with a copy. ``alike``: over these rows, the cosine of g_i and
        g_k(i), averaged with the weights |g_i||g_k(i)|; 1 if the labels of copies always agree.

    Example:
        >>> slopes = torch.tensor([[1.0], [1.0], [-1.0], [1.0]])
        >>> row, copy = torch.tensor([1, 0, 3, 2]), torch.tensor([True, True, False, False])
        >>> copies(slopes, Nearest(row, copy, row.unsqueeze(1)))
        {'copies': 0.5, 'alike': 1.0}
    """
    one, other = slopes[near.copy].double(), slopes[near.row[near.copy]].double()
    total = float((one.norm(dim=1) * other.norm(dim=1)).sum())
    return {
        "copies": float(near.copy.double().mean()),
        "alike": float((one * other).sum()) / total if total > 0 else 0.0,
    }


def head_rise(
    features: Tensor,
    roots: Tensor,
    slopes: Tensor,
    fitted_slopes: Tensor,
    gap: float,
    near: Nearest,
) -> float:
    r"""How much more the mean loss rises without nearest rows, where folds are left out.

    No run without single rows is followed there. To first order in the last layer, with features φ,
    leaving out row k changes the loss of row i by

    .. math:: h_{ik} = g_i^\top \hat g_k\; \phi_i^\top A^{-1} \phi_k, \qquad
       A = \textstyle\sum_j W_j \phi_j \phi_j^\top + I ,

    with the slopes g of left-out and ĝ of fitted outputs. The last layer alone changes the outputs
    too little. But the effect of a row on itself is known as a whole: the gap between the
    out-of-fold error and the error of fitted rows. So the rise is the ratio of both h, times it.

    Args:
        features: φ, what the last layer gets for each row, shape (n, p).
        roots: √W, mean curvatures of the losses in their outputs, shape (n,).
        slopes: g, shape (n, K).
        fitted_slopes: ĝ, shape (n, K).
        gap: The mean left-out loss minus the mean fitted loss.
        near: The nearest rows.

    Example:
        >>> near = Nearest(
        ...     torch.tensor([1, 0, 3, 2]), torch.zeros(4), torch.tensor([[2], [3], [0], [1]])
        ... )
        >>> features = torch.tensor([[1.0, 0], [1.0, 0], [0, 1.0], [0, 1.0]])
        >>> slopes = torch.ones(4, 1)
        >>> head_rise(features, torch.ones(4), slopes, slopes, 0.5, near)  # a copy is as the row
        0.5
    """
    phi, g, fitted = features.double(), slopes.double(), fitted_slopes.double()
    weighted = phi * roots.double().unsqueeze(1)
    system = weighted.T @ weighted + torch.eye(phi.shape[1]).to(phi)
    solved = torch.linalg.solve(system, phi.T).T
    pairs = torch.cat([torch.arange(len(phi)).unsqueeze(1), near.row.unsqueeze(1), near.next], 1)
    effects = torch.einsum("np,ncp->nc", solved, phi[pairs])
    effects = effects * torch.einsum("nk,nck->nc", g, fitted[pairs])
    own, nearest, further = effects[:, 0].mean(), effects[:, 1].mean(), effects[:, 2:].mean()
    return float((nearest - further) / own) * gap if float(own) > 0 else 0.0


def rise(effects: Tensor, near: Tensor, further: Tensor, factor: float) -> float:
    """How much more the mean loss rises without nearest rows than without the next neighbours.

    Args:
        effects: The change of the loss of row i if group k is left out, shape (r, m).
        near: The group of the nearest row of each row, −1 where it is not followed, shape (r,).
        further: Those of the next neighbours, shape (r, c).
        factor: By how much larger effects are on rows that are left out; see ``pair_variance.py``.

    Example:
        >>> effects = torch.tensor([[0.0, 1.0, 0.5], [3.0, 0.0, 0.5]])
        >>> rise(effects, torch.tensor([1, 0]), torch.tensor([[2], [2]]), 1.0)
        1.5
    """
    return factor * (_mean(effects, near.unsqueeze(1)) - _mean(effects, further))


def _mean(effects: Tensor, groups: Tensor) -> float:
    """The mean effect of some groups, without those that are not followed."""
    there = groups >= 0
    own = effects.double().gather(1, groups.clamp_min(0))
    return float((own * there).sum()) / max(1, int(there.sum()))
