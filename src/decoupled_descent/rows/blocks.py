"""The training rows, checked once and handed out block by block."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from decoupled_descent.checks import whole_number
from decoupled_descent.rows.gram import Gram
from decoupled_descent.rows.products import backward, fast_routine, forward

#: Rows are taken in blocks of about this many bytes, so that the second use of a block finds it
#: in the cache. Data up to ``SINGLE_BLOCK_BYTES`` goes through in one piece, and so does any data
#: that oneDNN multiplies: its two whole products take less time than one pass in blocks.
BLOCK_BYTES = 4 * 2**20
SINGLE_BLOCK_BYTES = 16 * 2**20


class Block(NamedTuple):
    """Some consecutive rows."""

    X: Tensor  # features, shape (b, d)
    y: Tensor  # labels, b rows
    span: slice  # where the rows sit among all n


def as_floats(name: str, values: Any) -> Tensor:
    """Turn an array into a finite floating-point matrix, without a copy where possible."""
    tensor = as_tensor(name, values)
    if not tensor.is_floating_point():
        tensor = tensor.to(torch.get_default_dtype())
    if tensor.ndim != 2 or 0 in tensor.shape:
        raise ValueError(
            f"{name} has shape {tuple(tensor.shape)}; it must be a non-empty matrix with one row "
            "per sample and one column per feature"
        )
    check_finite(name, tensor)
    return tensor


def check_finite(name: str, tensor: Tensor) -> None:
    """Raise ``ValueError`` naming the first entry that is NaN or infinite."""
    if tensor.is_floating_point() and not bool(torch.isfinite(tensor.sum())):
        bad = torch.nonzero(~torch.isfinite(tensor))
        if len(bad):
            place = ", ".join(str(i) for i in bad[0].tolist())
            raise ValueError(
                f"{name}[{place}] is {tensor[tuple(bad[0])].item()} ({len(bad)} such "
                "entries in all); remove or impute NaN and infinite values first"
            )


def as_tensor(name: str, values: Any) -> Tensor:
    """Turn an array of real numbers into a tensor, without a copy where possible."""
    if isinstance(values, Tensor):
        if values.is_complex():
            raise ValueError(f"{name} has dtype {values.dtype}; it must be real: pass {name}.real")
        return values.clone() if values.is_inference() else values.detach()
    if values is None:
        raise ValueError(f"{name} is None; pass an array with one row per sample")
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} has dtype {array.dtype}; it must be numeric: encode text and categories as "
            "numbers first"
        )
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:  # torch has few operations for them
        array = array.astype(np.int64)
    array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    with warnings.catch_warnings():  # read-only arrays are welcome: nothing is written to them
        warnings.filterwarnings("ignore", message="The given NumPy array is not writ")
        return torch.from_numpy(array)


class Rows:
    """Features and labels of n samples, validated, in blocks.

    Args:
        X: Features, shape (n, d), scaled to noise variance 1/d. Rows follow its dtype and device.
        y: Labels, shape (n,) or (n, K).
        block_size: Rows per block; chosen from the size of X by default.
        weights: How much each row counts, shape (n,), positive; equally by default.
        removed: How much of its weight is left out when a row is judged as if it were new, shape
            (n,); all of it by default. A row that stands for several equal ones has 1 here.
        groups: Rows with the same whole number belong together, shape (n,); each row by itself by
            default.

    Example:
        >>> rows = Rows(torch.zeros(5, 3), torch.zeros(5), block_size=2)
        >>> [len(block.X) for block in rows.blocks()]
        [2, 2, 1]
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        block_size: int | None = None,
        *,
        weights: Any = None,
        removed: Any = None,
        groups: Any = None,
    ) -> None:
        self.X = as_floats("X", X).contiguous()
        labels = as_tensor("y", y)
        if labels.is_floating_point() or labels.dtype == torch.bool:
            labels = labels.to(self.X.dtype)
        self.y = labels.to(self.X.device)
        if self.y.ndim not in (1, 2) or len(self.y) != len(self.X):
            raise ValueError(
                f"y has shape {tuple(self.y.shape)} but X has {len(self.X)} rows; y must have one "
                "entry (or one row) per row of X"
            )
        if len(self.X) < 2:
            raise ValueError("X has 1 row; training needs at least 2")
        check_finite("y", self.y)
        self.n, self.d = self.X.shape
        if block_size is None:
            block_size = automatic_block_size(self.X)
        self.block_size = whole_number("block_size", block_size)
        self.weights = None if weights is None else self._per_row("weights", weights)
        self.removed = self.weights if removed is None else self._per_row("removed", removed)
        self.groups = None if groups is None else self._grouped(groups)

    def _per_row(self, name: str, values: Any) -> Tensor:
        found = as_tensor(name, values).to(self.X)
        if found.shape != (self.n,):
            raise ValueError(f"{name} has shape {tuple(found.shape)}; it must be ({self.n},)")
        check_finite(name, found)
        if not bool((found > 0).all()):
            raise ValueError(
                f"{name} has the entry {float(found.min()):g}; all must be positive: leave out "
                "rows of weight 0"
            )
        return found

    def _grouped(self, groups: Any) -> Tensor:
        labels = as_tensor("groups", groups).to(self.X.device)
        if labels.shape != (self.n,):
            raise ValueError(f"groups has shape {tuple(labels.shape)}; it must be ({self.n},)")
        codes: Tensor
        _, codes = torch.unique(labels, return_inverse=True)
        if int(codes.max()) == 0:
            raise ValueError(
                "groups has one value only; leaving out its group would leave no rows to learn from"
            )
        return codes

    def averaged(self, losses: Tensor) -> Tensor:
        r"""Turn row losses into values whose mean is the error and whose sd/√count its stderr.

        .. math:: m + \frac{w_i}{\bar w} (\ell_i - m), \qquad m = \sum_i w_i \ell_i / \sum_i w_i

        With groups there is one value per group, the sum over its rows of what is added to m, times
        the number of groups over n: errors of the same group are not independent.
        """
        if self.weights is None and self.groups is None:
            return losses
        weights = torch.ones_like(losses) if self.weights is None else self.weights.to(losses)
        mean: Tensor = (weights @ losses) / weights.sum()
        deviations = weights / weights.mean() * (losses - mean)
        if self.groups is None:
            per_row: Tensor = mean + deviations
            return per_row
        count = int(self.groups.max()) + 1
        sums: Tensor = losses.new_zeros(count).index_add_(0, self.groups, deviations)
        return torch.add(mean, sums, alpha=count / self.n)

    @property
    def ratio(self) -> float:
        """α = n/d."""
        return self.n / self.d

    @cached_property
    def gram(self) -> Gram:
        """The decomposed Gram matrix of X, computed when first asked for."""
        return Gram(self.X)

    def forward(self, theta: Tensor) -> Tensor:
        """Return θXᵀ, shape (L, n), for θ of shape (L, d)."""
        parts = [forward(theta, block.X) for block in self.blocks()]
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)

    def backward(self, q: Tensor) -> Tensor:
        """Return qX, shape (L, d), for q of shape (L, n)."""
        total: Tensor | None = None
        for block in self.blocks():
            total = backward(q[:, block.span], block.X, total)
        assert total is not None
        return total

    def blocks(self) -> Iterator[Block]:
        """Go through the rows once."""
        if self.block_size >= self.n:
            yield Block(self.X, self.y, slice(0, self.n))
            return
        for start in range(0, self.n, self.block_size):
            span = slice(start, min(start + self.block_size, self.n))
            yield Block(self.X[span], self.y[span], span)


def automatic_block_size(X: Tensor) -> int:
    """Rows per block such that a block fits the cache, or all rows where blocks do not pay."""
    row_bytes = X.shape[1] * X.element_size()
    small = len(X) * row_bytes <= SINGLE_BLOCK_BYTES
    if small or X.device.type != "cpu" or fast_routine(X) is not None:
        return len(X)
    return max(16, BLOCK_BYTES // row_bytes)
