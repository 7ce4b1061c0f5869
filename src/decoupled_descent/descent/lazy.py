r"""Rows that change at every step, computed only when they are read.

A mini-batch adds ĥ to its own rows of the memory. All other rows follow the update rule without a
direction: they decay, or follow their momentum. An entry is S numbers (the value and what the rule
carries for it), and such a step multiplies them by the same S × S matrix in all rows. So a row is
stored as of its last update, and the product of the matrices since then is applied when the row is
next read.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from decoupled_descent.descent.rules import LinearRule, Slots


def transition(rule: LinearRule, step: int, like: Tensor) -> Tensor:
    r"""What a step without a direction does to a value and its slots: a matrix of shape (S, S).

    Raises ``ValueError`` where it is not the same for all L rows of ``like``.

    Example:
        >>> from decoupled_descent.descent.rules import SGD
        >>> transition(SGD(0.1, momentum=0.5), 3, torch.zeros(2, 4))
        tensor([[ 1.0000, -0.0500],
                [ 0.0000,  0.5000]])
    """
    if any(slot.shape != like.shape for slot in rule.slots(like)):
        raise ValueError(
            f"batch_size: what rule={rule!r} carries must have the shape of theta, so that rows "
            "outside of a batch can follow it"
        )
    matrices = _for_each(rule, step, like)
    if not torch.allclose(matrices, matrices[:, :1].expand_as(matrices)):
        raise ValueError(
            f"batch_size: rule={rule!r} decays some pre-activations faster than others, but rows "
            "outside of a batch must all follow one decay; use a rule whose weight decay and "
            "momentum are numbers"
        )
    return matrices[:, 0].contiguous()


def next_transition(rule: LinearRule, step: int, like: Tensor, slots: Slots) -> Tensor:
    """The matrix of a later step of a rule that :func:`transition` has checked."""
    return _for_each(rule, step, like, len(slots))[:, 0]


def _for_each(rule: LinearRule, step: int, like: Tensor, slots: int | None = None) -> Tensor:
    """Apply the rule to unit vectors, shape (S, L, S)."""
    count = len(rule.slots(like)) if slots is None else slots
    first, *rest = _units(1 + count, len(like), like.dtype, like.device)
    moved, following = rule(first, torch.zeros_like(first), tuple(rest), step, 1.0)
    return torch.stack([moved, *following])


@lru_cache(maxsize=8)
def _units(size: int, width: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, ...]:
    """The rows of the identity, each repeated for all L pre-activations: (L, S)."""
    rows = torch.eye(size, dtype=dtype, device=device)
    return tuple(row.expand(width, -1).contiguous() for row in rows)


class LazyRows:
    """Values of n rows and what the rule carries for them, updated when they are read.

    Args:
        value: Shape (L, n).
        slots: What the rule carries for it, each of shape (L, n).

    Example:
        >>> rows = LazyRows(torch.ones(1, 3), ())
        >>> rows.advance(torch.tensor([[0.5]]))
        >>> rows.write(torch.tensor([2]), (torch.tensor([[7.0]]),))
        >>> rows.advance(torch.tensor([[0.5]]))
        >>> rows.settled()[0]
        tensor([[0.2500, 0.2500, 3.5000]])
    """

    def __init__(self, value: Tensor, slots: Slots) -> None:
        self.values = torch.stack([part.T for part in (value, *slots)], 1).contiguous()  # (n, S, L)
        self.touched = torch.zeros(len(self.values), dtype=torch.int64, device=value.device)
        self._unit = torch.eye(1 + len(slots), dtype=value.dtype, device=value.device)
        self._since = self._unit.unsqueeze(0)  # product of the matrices from each step until now
        self._still = True  # whether all of them are the identity

    def read(self, index: Tensor) -> tuple[Tensor, ...]:
        """Return the value and the slots of some rows as they are now, each of shape (L, B)."""
        parts = self.values.index_select(0, index)
        if not self._still:
            moments = self.touched.index_select(0, index)
            parts = _times(self._since.index_select(0, moments), parts)
        return tuple(part.T.contiguous() for part in parts.unbind(1))

    def advance(self, matrix: Tensor) -> None:
        """Apply one step without a direction to all rows."""
        if not self._still or not torch.equal(matrix, self._unit):
            self._still = False
            self._since = torch.cat([matrix @ self._since, self._unit.unsqueeze(0)])

    def write(self, index: Tensor, parts: tuple[Tensor, ...]) -> None:
        """Store the present values of some rows."""
        self.values.index_copy_(0, index, torch.stack([part.T for part in parts], 1))
        if not self._still:
            self.touched.index_fill_(0, index, len(self._since) - 1)

    def settled(self) -> tuple[Tensor, ...]:
        """Bring all rows up to date and return the value and the slots, each of shape (L, n)."""
        if not self._still:
            self.values = _times(self._since[self.touched], self.values)
            self.touched.zero_()
            self._since, self._still = self._unit.unsqueeze(0), True
        return tuple(part.T.contiguous() for part in self.values.unbind(1))

    @property
    def age(self) -> int:
        """The largest number of steps that a row may be behind."""
        return len(self._since) - 1


def _times(matrices: Tensor, values: Tensor) -> Tensor:
    """(B, S, S) times (B, S, L), for small S entry by entry, which is faster than in a batch."""
    columns, parts = matrices.unsqueeze(3).unbind(2), values.unsqueeze(1).unbind(2)
    total = columns[0] * parts[0]  # (B, S, 1) and (B, 1, L)
    for column, part in zip(columns[1:], parts[1:], strict=True):
        total.addcmul_(column, part)
    return total
