"""The training rows: features with labels, weights and groups, and products with them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from decoupled_descent.rows.averages import mean_and_error, moments, unit_values
from decoupled_descent.rows.gram import Gram
from decoupled_descent.rows.inputs import Inputs
from decoupled_descent.rows.processes import Alone, Processes
from decoupled_descent.rows.products import backward, forward
from decoupled_descent.rows.tensors import as_groups, as_tensor, as_weights, check_finite


class Block(NamedTuple):
    """Some consecutive rows."""

    X: Tensor  # features, shape (b, d)
    span: slice  # where the rows sit among all n


class Rows(Inputs):
    """Features of n samples, with labels where they are needed: validated, in blocks.

    Args:
        X: Features, shape (n, d), scaled to noise variance 1/d. Rows follow its dtype and device.
            Memory maps, objects with ``shape``, ``dtype`` and slices (HDF5, Zarr), CSR matrices,
            datasets of PyTorch and objects that yield blocks of rows are read block by block, at
            most three blocks at a time, unless three blocks hold all rows.
        y: Labels, shape (n,) or (n, K); None where X yields rows with their labels, and for rows
            without labels, which are enough for feature maps and products.
        block_size: Rows per block; chosen from the size of X by default.
        weights: The weight of each row, shape (n,), positive; equal by default. A process passes
            those of its own rows, or none if no process passes any.
        groups: Rows with the same whole number belong together, shape (n,); by default each row is
            its own group.
        group: Processes of ``torch.distributed`` among which the rows are divided. Each process
            passes its own rows, and training uses the rows of all.
        timeout: Seconds to wait for the other processes.

    Attributes:
        n: The number of rows, in all processes.
        here: The number of rows in this process.
        first: How many rows the processes before this one have.
        population: The number of rows that these were drawn from; n except for a mini-batch.
        index: The numbers of the rows of a mini-batch among these; None for all rows.
        like: An empty matrix with the dtype and the device of X.
        kept: What was computed from the rows and may be needed again soon, by name. Clearing it
            frees memory, and costs nothing but time.

    Example:
        >>> rows = Rows(torch.zeros(5, 3), torch.zeros(5), block_size=2)
        >>> [len(block.X) for block in rows.blocks()]
        [2, 2, 1]
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        block_size: int | None = None,
        *,
        weights: Any = None,
        groups: Any = None,
        group: Any = None,
        timeout: float = 120.0,
    ) -> None:
        super().__init__(X, block_size)
        self.kept: dict[str, Any] = {}
        if y is not None and self.labels is not None:
            raise ValueError("y must be None when X yields rows with their labels")
        y = self.labels if y is None else y
        self._y = None if y is None else self._labels(y)
        self.processes = Alone() if group is None else Processes(group, timeout)
        self.n, self.first = self.here, 0
        if not self.all_here:
            self.n, self.first = self._counted(weights, groups)
        self.population: int = self.n
        self.index: Tensor | None = None
        if self.n < 2:
            raise ValueError("X has 1 row; training needs at least 2")
        self.weights = None if weights is None else as_weights(weights, self.like, self.here)
        self.groups = None if groups is None else as_groups(groups, self.like, self.n)

    def _labels(self, y: Any) -> Tensor:
        """Check the labels, and bring them to the device of X, and to its dtype unless whole."""
        labels = as_tensor("y", y)
        if labels.is_floating_point() or labels.dtype == torch.bool:
            labels = labels.to(self.like.dtype)
        labels = labels.to(self.like.device)
        if labels.ndim not in (1, 2) or len(labels) != self.here:
            raise ValueError(
                f"y has shape {tuple(labels.shape)} but X has {self.here} rows; y must have one "
                "entry (or one row) per row of X"
            )
        check_finite("y", labels)
        return labels

    def _counted(self, weights: Any, groups: Any) -> tuple[int, int]:
        """Count the rows of all processes, which must have the same columns, and those before."""
        if groups is not None:
            raise ValueError(
                "groups= is for rows in one process, but these are divided; use "
                "DecoupledClassifier().fit(rows, y, groups=…), or leave out group="
            )
        numbers = torch.tensor([self.here, self.d, weights is not None], device="cpu")
        counts, columns, weighted = self.processes.all_gather(numbers).T
        if not bool((columns == self.d).all()):
            raise ValueError(
                f"X has {self.d} columns here, and another number in other processes; all must "
                "have the same columns"
            )
        if len(weighted.unique()) > 1:
            raise ValueError(
                f"{int(weighted.sum())} of {self.processes.size} processes pass weights; all must, "
                "or none"
            )
        return int(counts.sum()), int(counts[: self.processes.rank].sum())

    @property
    def y(self) -> Tensor:
        """Labels, shape (n,) or (n, K); raises ``ValueError`` for rows without labels."""
        if self._y is None:
            raise ValueError("y is None; pass an array with one row per sample")
        return self._y

    @property
    def X(self) -> Tensor:  # noqa: N802 (the paper's capital)
        """Features, shape (n, d); raises ``ValueError`` if they are not in memory."""
        if not self.all_here:
            raise ValueError(
                "this needs all of X in one process, but its rows are divided among "
                f"{self.processes.size}"
            )
        if self._X is None:
            size = self.n * self.d * self.like.element_size() / 1e9
            raise ValueError(
                f"this needs all of X in memory, but X ({self.n} × {self.d}, {size:.3g} GB) is "
                "read block by block: load it first, Rows(torch.as_tensor(X[:]), y), if it fits"
            )
        return self._X

    def require_one_process(self, why: str) -> None:
        """Raise ``ValueError`` when the rows are divided among processes."""
        if not self.all_here:
            raise ValueError(f"{why}, but these are divided; fit takes such rows, one by one")

    @property
    def all_here(self) -> bool:
        """Whether all rows are in this process."""
        return self.processes.alone

    @property
    def in_memory(self) -> bool:
        """Whether all of X is in the memory of this process."""
        return self.held and self.all_here

    @property
    def span(self) -> slice:
        """Where the rows of this process are among those of all."""
        return slice(self.first, self.first + self.here)

    def total(self, *parts: Tensor) -> list[Tensor]:
        """Sum over all processes what was summed over the rows of this one, in one message."""
        return self.processes.total(parts)

    def common(self, values: Tensor) -> Tensor:
        """The values that the first process passes, in all processes."""
        return values if self.all_here else self.processes.all_gather(values)[0]

    def totals(
        self, parts: Sequence[Tensor | None], losses: Tensor
    ) -> tuple[list[Any], Tensor | None]:
        """Sums over all processes, None staying None; mean and standard error of all losses.

        These two are None where ``losses`` are those of all rows.
        """
        if self.all_here:
            return list(parts), None
        *totals, last = self.total(*(part for part in parts if part is not None), moments(losses))
        sums = iter(totals)
        return [one if one is None else next(sums) for one in parts], mean_and_error(last, self.n)

    def mean(self, values: Tensor) -> Tensor:
        """The mean over the rows of all processes of values per row, along the last axis."""
        if self.all_here:
            return values.mean(-1)
        return self.total(values.sum(-1))[0] / self.n

    def gather(self, index: Tensor) -> Tensor:
        """Return rows by their numbers among those of all processes, which all get, (B, d)."""
        if self.all_here:
            return self.take(index)
        taken = self.like.new_zeros(len(index), self.d)
        mine = index - self.first
        inside = ((mine >= 0) & (mine < self.here)).nonzero().squeeze(1)
        if len(inside):
            taken[inside] = self.take(mine[inside])
        return self.total(taken)[0]

    def recall(self, name: str, key: Sequence[Any], make: Callable[[], Any]) -> Any:
        """What was made under this name last time, if that was for the same key; else make it."""
        before, value = self.kept.get(name, (None, None))
        if before is None or not all(map(_same, before, key)):
            before = value = None
            self.kept.pop(name, None)  # its memory is needed
            value = make()
            self.kept[name] = key, value
        return value

    def subset(self, index: Tensor) -> Self:
        """Return some rows by their numbers, in memory, as one block: a mini-batch."""
        batch = copy.copy(self)
        for name in ("squares", "gram"):  # those of all rows
            vars(batch).pop(name, None)
        batch._source, batch._X, batch._y = None, self.take(index), self.y[index]
        batch.n = batch.here = batch.block_size = len(index)
        batch.population, batch.index, batch.kept = self.n, index, {}
        return batch

    def with_groups(self, groups: Any) -> Self:
        """The same rows in groups that leave together."""
        other = copy.copy(self)
        other.groups = as_groups(groups, self.like, self.n)
        return other

    @cached_property
    def squares(self) -> Tensor:
        """Squared norms of the rows, shape (n,), in float64."""
        squares = self.like.new_empty(self.here, dtype=torch.float64)
        for span, part in self.doubles(4 * self.d):  # a piece and its squares fit the cache
            torch.sum(part.square(), 1, out=squares[span])
        return squares

    def averaged(self, losses: Tensor) -> Tensor:
        """Turn row losses into values whose mean is the error and whose sd/√count its stderr."""
        if self.weights is None and self.groups is None:
            return losses
        weights = torch.ones_like(losses) if self.weights is None else self.weights.to(losses)
        weighted, total = self.total(weights @ losses, weights.sum())
        mean, mean_weight = weighted / total, total / self.n
        return unit_values(losses, weights, self.groups, mean, mean_weight, self.n)

    @property
    def ratio(self) -> float:
        """α = n/d."""
        return self.n / self.d

    @property
    def products(self) -> Tensor:
        """XXᵀ, shape (n, n), for rows in memory; it is kept."""
        products: Tensor = self.recall("products", (), lambda: self.X @ self.X.T)
        return products

    @cached_property
    def gram(self) -> Gram:
        """The decomposed Gram matrix of X, computed when first asked for."""
        return Gram(self)

    def forward(self, theta: Tensor) -> Tensor:
        """Return θXᵀ, shape (L, n), for θ of shape (L, d)."""
        h: Tensor | None = None
        for block in self.blocks():
            h = self._placed(h, forward(theta, block.X), block.span)
        assert h is not None
        return h

    def _placed(self, h: Tensor | None, part: Tensor, span: slice) -> Tensor:
        """Put the columns of a block among those of all rows.

        A list of parts would stay between blocks in memory, where the next block does not fit.
        """
        if part.shape[1] == self.here:
            return part
        h = part.new_empty(len(part), self.here) if h is None else h
        h[:, span] = part
        return h

    def backward(self, q: Tensor) -> Tensor:
        """Return qX, shape (L, d), for q of shape (L, n)."""
        total: Tensor | None = None
        for block in self.blocks():
            total = backward(q[:, block.span], block.X, total)
        assert total is not None
        return self.total(total)[0]

    def through(
        self, theta: Tensor, middle: Callable[[Tensor, slice], Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Return h = θXᵀ, shape (L, n), and middle(h, span) X, shape (L, d), in one pass.

        Each process has the h of its own rows.
        """
        total: Tensor | None = None
        h: Tensor | None = None
        for block in self.blocks():
            part = forward(theta, block.X)
            total = backward(middle(part, block.span), block.X, total)
            h = self._placed(h, part, block.span)
        assert h is not None
        assert total is not None
        return h, self.total(total)[0]

    def blocks(self) -> Iterator[Block]:
        """Go through the rows once."""
        for span, X in self.parts():
            yield Block(X, span)


def as_rows(X: Any, y: Any) -> Rows:
    """Return X if it is :class:`Rows`, which have their labels, else the rows of X and y."""
    if not isinstance(X, Rows):
        return Rows(X, y)
    if y is not None:
        raise ValueError("y must be None when X is Rows, which has its labels")
    return X


def _same(one: Any, other: Any) -> bool:
    both = isinstance(one, Tensor) and isinstance(other, Tensor)
    return torch.equal(one, other) if both else one is other or one == other
