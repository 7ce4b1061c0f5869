"""The training rows of a network, of any shape, and the groups of them that are left out."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from decoupled_descent.networks.agreement import Nearest, nearest_rows
from decoupled_descent.networks.path.curvature import Members
from decoupled_descent.rows.averages import unit_values
from decoupled_descent.rows.processes import Alone
from decoupled_descent.rows.tensors import as_groups, as_tensor, as_weights, check_finite


class Examples:
    """Rows of any shape with labels, weights and groups, checked.

    Args:
        X: n rows of any shape; whole numbers (tokens) stay whole.
        y: Labels, n rows.
        weights: The weight of each row, positive; equal by default.
        groups: Rows with the same whole number are left out together; by default each is alone.
        dtype: The dtype of numbers where X has whole ones.

    Attributes:
        n: The number of rows.
        like: An empty tensor with the dtype and the device.
        groups: The number of the group of each row, 0, 1, …, shape (n,).
        spread: The standard deviation of real labels, 1 for classes.

    Example:
        >>> rows = Examples(torch.zeros(4, 1, 8, 8), torch.ones(4), groups=[7, 7, 3, 3])
        >>> rows.n, rows.groups.tolist(), rows.weights.tolist()
        (4, [1, 1, 0, 0], [1.0, 1.0, 1.0, 1.0])
    """

    processes, all_here = Alone(), True  # all rows are in this process

    def __init__(
        self,
        X: Any,
        y: Any,
        weights: Any = None,
        groups: Any = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.X, labels = as_tensor("X", X), as_tensor("y", y)
        if self.X.ndim == 0 or len(self.X) < 2 or 0 in self.X.shape:
            raise ValueError(f"X has shape {tuple(self.X.shape)}; training needs at least 2 rows")
        check_finite("X", self.X)
        self.n = self.block_size = len(self.X)
        dtype = self.X.dtype if self.X.is_floating_point() else dtype
        if dtype not in (torch.float32, torch.float64):
            raise ValueError(
                f"X has dtype {dtype}, in which no system of equations can be solved; pass it in "
                "float32 or float64"
            )
        self.like = torch.empty(0, dtype=dtype, device=self.X.device)
        if labels.ndim not in (1, 2) or len(labels) != self.n:
            raise ValueError(
                f"y has shape {tuple(labels.shape)} but X has {self.n} rows; y must have one entry "
                "(or one row) per row of X"
            )
        check_finite("y", labels)
        real = labels.is_floating_point() or labels.dtype == torch.bool
        self.y = labels.to(self.like if real else self.like.device)
        self.weighted = weights is not None
        self.weights = (
            as_weights(weights, self.like, self.n) if self.weighted else self.like.new_ones(self.n)
        )
        self.grouped = groups is not None
        self.groups = torch.arange(self.n, device=self.like.device)
        if groups is not None:
            self.groups = as_groups(groups, self.like, self.n)
        deviation = float(self.y.double().std()) if real else 1.0
        self.spread = deviation if deviation > 0 else 1.0

    def with_inputs(self, X: Tensor) -> Examples:
        """The same rows with other inputs."""
        result = copy.copy(self)
        result.X = X
        return result

    @cached_property
    def nearest(self) -> Nearest:
        """The nearest row of another group, for each row."""
        return nearest_rows(self.X, self.groups)

    def classes(self, outputs: int) -> Tensor | None:
        """The class of each row, 0, 1, …, shape (n,); None where labels are no classes.

        They are where one label goes with several outputs, and where all labels are 0 or 1.
        """
        if self.y.ndim == 2 or (outputs == 1 and not bool(((self.y == 0) | (self.y == 1)).all())):
            return None
        codes: Tensor = torch.unique(self.y, return_inverse=True)[1]
        return codes

    def follow(
        self,
        outputs: int,
        most: int | None = None,
        seed: int | None = 0,
        stratified: bool = False,
        first: Tensor | None = None,
    ) -> FollowedGroups:
        """Choose the groups that are left out: all, or ``most`` of them.

        Those are the groups with the numbers ``first``, and others that are drawn at random.
        """
        chosen = torch.arange(count := int(self.groups.max()) + 1)
        first = chosen[:0] if first is None else first.to(chosen)
        if most is not None and most < count:
            generator = torch.Generator()
            generator.seed() if seed is None else generator.manual_seed(seed)
            order = torch.randperm(count, generator=generator)
            drawn = order[~torch.isin(order, first)][: most - len(first)]
            chosen = torch.cat([first, drawn.sort().values])
        certain = len(first) if len(chosen) < count else 0
        return self.followed(chosen.to(self.groups.device), outputs, stratified, certain)

    def followed(
        self, chosen: Tensor, outputs: int, stratified: bool = False, certain: int = 0
    ) -> FollowedGroups:
        """The groups with these numbers, of which the first were not drawn at random."""
        number = torch.full((int(self.groups.max()) + 1,), -1, device=chosen.device)
        number[chosen] = torch.arange(len(chosen), device=chosen.device)
        own = number[self.groups]
        rows = (own >= 0).nonzero().squeeze(1)
        classes = self.classes(outputs) if stratified else None
        return FollowedGroups(chosen, rows, own[rows], outputs, classes, certain)


@dataclass(frozen=True)
class FollowedGroups:
    """The groups for which the run without them is followed.

    Attributes:
        chosen: Their numbers, shape (m,).
        rows: Their rows, shape (r,).
        group: For each of these rows its group, 0 … m − 1.
        outputs: K.
        classes: The class of each row of X if classes keep their shares, shape (n,), else None.
        certain: So many were not drawn, but would be followed in any case; the first ones.
    """

    chosen: Tensor
    rows: Tensor
    group: Tensor
    outputs: int
    classes: Tensor | None = None
    certain: int = 0

    def shares(self, groups: int) -> Tensor:
        """For how many of all groups each one speaks, with mean 1, shape (m,)."""
        drawn = self.count - self.certain
        result = torch.ones(self.count, dtype=torch.float64, device=self.chosen.device)
        result[self.certain :] = (groups - self.certain) / max(1, drawn)
        return result / result.mean()

    @property
    def count(self) -> int:
        """The number of groups, m."""
        return len(self.chosen)

    @property
    def first(self) -> Tensor:
        """One row of each group, shape (m,)."""
        order = self.group.argsort(stable=True)
        sizes = torch.bincount(self.group, minlength=self.count)
        return self.rows[order[sizes.cumsum(0) - sizes]]

    def weights_without(self, rows: Examples) -> Tensor:
        r"""The weights of all rows in the run without each group, shape (m, n).

        If classes keep their shares, rows of the same class as one that is left out weigh more:

        .. math:: w_j \frac{\sum_{k \in c} w_k}{\sum_{k \in c,\, k \notin \text{group}} w_k}
           \quad \text{for } j \in c .
        """
        weights = rows.weights * (rows.groups != self.chosen.unsqueeze(1))
        if self.classes is None:
            return weights
        member = torch.nn.functional.one_hot(self.classes).to(weights)
        total, rest = rows.weights @ member, weights @ member
        factor = torch.where(rest > 0, total / rest.clamp_min(1e-30), 1.0)
        return weights * factor[:, self.classes]

    def members(self, some: Tensor | None = None) -> Members:
        """The outputs of the rows of each group, or some groups, as rows of a matrix of all."""
        place = self.rows
        order = self.group.argsort(stable=True)
        sizes = torch.bincount(self.group, minlength=self.count)
        starts = sizes.cumsum(0) - sizes
        slots = torch.arange(int(sizes.max())).to(place)
        there = slots < sizes.unsqueeze(1)
        at = (starts.unsqueeze(1) + slots).clamp_max(len(order) - 1)
        index = place[order[at]].unsqueeze(2) * self.outputs
        index = (index + torch.arange(self.outputs).to(place)).flatten(1)
        there = there.repeat_interleave(self.outputs, 1)
        return Members(index, there) if some is None else Members(index[some], there[some])

    def averaged(self, rows: Examples, losses: Tensor) -> Tensor:
        """One value per row or group, whose mean is the error and whose sd/√count its stderr."""
        weights = rows.weights[self.rows] if rows.weighted else None
        return unit_values(losses, weights, self.group if rows.grouped else None)

    def summed(self, rows: Examples, effects: Tensor) -> Tensor:
        """Turn changes of row losses, shape (r, m), into those of ``averaged`` values, (m, m)."""
        weights = rows.weights[self.rows]
        effects = (weights / weights.mean()).unsqueeze(1) * effects
        sums = effects.new_zeros(self.count, effects.shape[1]).index_add_(0, self.group, effects)
        return sums * (self.count / len(effects))
