r"""How left-out outputs vary with the sample, to first order.

Decisions, such as the most probable class, jump where outputs cross each other. Without signal all
rows are near such a point, and leaving out a single row shows one side of it only. In a random half
of the sample, row j has the weight 1 + ξ_j with ξ_j = ±1. This moves the outputs of row i by

.. math:: -(I - V_i W_i)^{-1} \sum_{j \ne i} V_{ij}\, ξ_j d_j, \qquad d_j = (I - W_j V_j)^{-1} g_j,

to first order. Rows of a group have the same sign, and the own row or group has none. Signs are
independent if the shares of the classes are drawn with the rows. If they are part of the design,
signs add up to zero within each class, and the other rows of class c share the sign of row i: ξ_j
becomes ξ_j + ξ_i/(n_c − 1).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from decoupled_descent.leave_one_out.class_shares import ClassShares
from decoupled_descent.leave_one_out.leave_out import leave_out, push_forward
from decoupled_descent.leave_one_out.minimum import Minimum
from decoupled_descent.leave_one_out.systems import systems


class Variation(NamedTuple):
    """How left-out outputs vary.

    Attributes:
        drawn: How they move if the shares of the classes are not kept, shape (n, K). Zero where
            they are part of the design.
        halves: How they move in random halves of the sample, shape (K, n, B).
    """

    drawn: Tensor
    halves: Tensor


def is_designed(classes: Tensor) -> bool:
    """Whether all classes have the same number of rows: chance rarely does that, designs do.

    A case–control study fixes the shares of its classes. Other samples draw them with the rows.
    """
    counts = torch.bincount(classes)
    counts = counts[counts > 0]
    return len(counts) > 1 and int(counts.max()) == int(counts.min())


def half_samples(classes: Tensor, groups: Tensor | None, count: int, seed: int) -> Tensor:
    """Signs of random halves of the sample, or of each class by design, shape (n, B)."""
    codes = torch.arange(len(classes)) if groups is None else groups
    units = int(codes.max()) + 1
    generator = torch.Generator().manual_seed(seed)
    keys = torch.rand(count, units, generator=generator, dtype=torch.float64)
    if groups is not None or not is_designed(classes):
        return (1.0 - 2.0 * (keys < 0.5)).T[codes].contiguous()
    ranks = (keys + 2 * classes).argsort(1).argsort(1)  # sorted by class, at random within each
    first = (keys[:, :1] < 0.5).long()  # one more +1 or one more −1, where rows are odd in number
    return (1.0 - 2.0 * ((ranks + first) % 2)).T.contiguous()


def variation(minimum: Minimum, signs: Tensor) -> Variation:
    """How left-out outputs at a minimum vary, for signs of half-samples, shape (n, B)."""
    classes = minimum.problem.classes
    assert classes is not None
    plain = leave_out(minimum)
    drawn = torch.zeros_like(plain.outputs)
    if not is_designed(classes):
        drawn = plain.outputs - leave_out(minimum, ClassShares.at(minimum)).outputs
    signs = signs.to(plain.moves)
    moved = minimum.influence @ (plain.moves.T.unsqueeze(2) * signs)  # (K, n, B)
    for system in systems(minimum):
        rows = system.rows
        own = system.times(plain.moves[rows].flatten(1).unsqueeze(2)).reshape(*rows.shape, -1)
        moved[:, rows] -= own.permute(2, 0, 1).unsqueeze(3) * signs[rows]
    if minimum.problem.rows.groups is None and is_designed(classes):
        moved += _shared(minimum, plain.moves, classes).unsqueeze(2) * signs
    return Variation(drawn, push_forward(minimum, moved.neg_()))


def _shared(minimum: Minimum, moves: Tensor, classes: Tensor) -> Tensor:
    """(n_c − 1)⁻¹ Σ V_ij d_j over the other rows j of row i's class c, shape (K, n)."""
    member = one_hot(classes).to(moves)
    pulls = minimum.influence @ (moves.T.unsqueeze(2) * member)  # (K, n, C)
    others = (pulls * member).sum(2) - torch.einsum("nkl,nl->kn", minimum.influence.blocks, moves)
    counts = (member.sum(0)[classes] - 1).clamp_min(1)
    return others / counts
