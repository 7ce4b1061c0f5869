r"""From kernel matrices or raw columns to features with uncorrelated columns.

A feature map is φ(x) = raw(x) P − shift, where raw(x) is the scaled row itself or its kernel values
k(x, Z) with landmarks Z. P and shift are chosen such that on the training rows, with weights w,

.. math::
   \sum_i w_i φ_i = 0, \qquad \sum_i w_i φ_i φ_i^\top = \mathrm{diag}(v), \quad v_1 ≥ v_2 ≥ …,
   \qquad \sum_i w_i ‖φ_i‖^2 = \sum_i w_i :

centred, uncorrelated, largest variance first, mean squared norm 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from decoupled_descent.rows.freed_memory import return_freed_memory
from decoupled_descent.rows.sources import spans

#: Directions whose variance is below this share of the largest are rounding errors; they are
#: dropped.
NEGLIGIBLE = 1e-9
#: A centred kernel matrix below this share of the original one is a rounding error.
CONSTANT = 1e-13
#: Rows are handled in blocks whose kernel values take about this many bytes.
BLOCK_BYTES = 4 * 2**20
#: Steps of the subspace iteration for the leading directions of wide and long X.
POWER_STEPS = 3


#: Goes through raw rows: their span, and the rows in float64 or, for some, as CSR.
Parts = Callable[[], Iterable[tuple[slice, Any]]]
#: Sums over all processes of what was summed over the rows of one.
Total = Callable[..., list[Tensor]]


def one_process(*parts: Tensor) -> list[Tensor]:
    """The sums of rows that are all in one process."""
    return list(parts)


class FeatureMap(NamedTuple):
    """φ(x) = raw(x) P − shift."""

    projection: Tensor  # P, shape (m, r)
    shift: Tensor  # shape (r,)
    values: Tensor  # v, shape (r,)

    def __call__(self, raw: Any) -> Tensor:
        """Return the features, shape (b, r), of raw rows, shape (b, m), dense or CSR."""
        return product(raw, self.projection).sub_(self.shift)


class IndefiniteError(ValueError):
    """A kernel matrix has a negative eigenvalue beyond rounding."""


def product(raw: Any, matrix: Tensor) -> Tensor:
    """Multiply dense rows, or CSR rows on the CPU, by a dense matrix."""
    if isinstance(raw, Tensor):
        return raw @ matrix
    return torch.from_numpy(raw @ matrix.numpy())


def blocks(n: int, width: int) -> Iterator[slice]:
    """Slices of n rows with ``width`` float64 numbers each, about ``BLOCK_BYTES`` at a time."""
    return spans(n, max(1, BLOCK_BYTES // (8 * max(width, 1))))


def from_kernel(K: Tensor, weights: Tensor, most: int) -> tuple[FeatureMap, Tensor]:
    r"""Decompose the kernel matrix of the training rows, whose weights are positive.

    With k̄ = Kw/Σw, the centred matrix is C = K − k̄1ᵀ − 1k̄ᵀ + (wᵀk̄/Σw)11ᵀ. Let t be its weighted
    mean diagonal and W^½CW^½ = tQVQᵀ, U = W^{-½}Q. Then Φ = UV^½, P = WUV^{-½}/t, shift = k̄ᵀP.

    Returns:
        The map from k(x, training rows), and Φ of the training rows, at most ``most`` columns.
    """
    share = weights / weights.sum()
    centre = K @ share
    C = (K - centre).sub_((centre - share @ centre)[:, None])
    if not _size(C) > CONSTANT * _size(K):
        raise ValueError("the kernel is the same for all pairs of rows; nothing can be learnt")
    trace = float(share @ C.diagonal())
    root = weights.sqrt()
    values, vectors = _largest(C.mul_(root).mul_(root[:, None]), most)
    values = values / trace
    U = vectors / root[:, None]
    U -= share @ U  # zero already, up to rounding that small eigenvalues amplify
    deviation = values.sqrt()
    P = (weights[:, None] * U / (deviation * trace)).contiguous()
    return FeatureMap(P, centre @ P, values), U.mul_(deviation)


def _size(matrix: Tensor) -> float:
    """The largest absolute value, without a matrix of absolute values."""
    low, high = torch.aminmax(matrix)
    return max(-float(low), float(high))


def from_columns(
    parts: Parts, weights: Tensor, most: int, total: Total = one_process
) -> FeatureMap:
    r"""Rotate raw columns such that they are uncorrelated, in one pass.

    With the centred second moment S = Σ w xxᵀ − Σw x̄x̄ᵀ = QVQᵀ and t = tr S/Σw: P = Qt^{-½}. Rows
    are scaled, so their mean is small, and nothing is lost by the difference.
    """
    moment, sums = weights.new_zeros(0, 0), weights.new_zeros(0)
    for rows, part in parts():
        if not len(sums):
            sums = part.new_zeros(part.shape[1])
            moment = part.new_zeros(len(sums), len(sums))
        own = weights[rows]
        moment.addmm_(part.T, part * own[:, None])
        sums += own @ part
    moment, sums, size = total(moment, sums, weights.sum())
    mean = sums / size
    moment.addr_(mean, mean, alpha=-float(size))
    return _from_moment(moment, mean, size, most)


def from_sparse_columns(raw: Any, weights: Tensor, most: int) -> FeatureMap:
    """Rotate CSR columns without making them dense: S = Σ w xxᵀ − Σw x̄x̄ᵀ."""
    w = weights.numpy()
    mean = torch.from_numpy(raw.T @ w) / weights.sum()
    moment = torch.from_numpy((raw.T @ raw.multiply(w[:, None])).toarray())
    moment.addr_(mean, mean, alpha=-float(weights.sum()))
    return _from_moment(moment, mean, weights.sum(), most)


def _from_moment(moment: Tensor, mean: Tensor, size: Tensor, most: int) -> FeatureMap:
    trace = float(moment.trace() / size)
    values, vectors = _largest(moment, most)
    P = vectors.contiguous().div_(trace**0.5)
    return FeatureMap(P, mean @ P, values / trace)


def leading_directions(
    parts: Parts, weights: Tensor, count: int, seed: int, total: Total = one_process
) -> Tensor:
    """Orthonormal columns, shape (m, count), that nearly span the leading directions of raw rows.

    Subspace iteration on the centred rows, dense or CSR, from random directions: products with the
    rows only. Directions far below the leading ones are less exact.
    """
    sums: Any = 0.0
    for rows, part in parts():
        sums = sums + product(part.T, weights[rows, None])[:, 0]
    sums, size = total(sums, weights.sum())
    mean = sums / size
    generator = torch.Generator().manual_seed(seed)
    basis = torch.randn(len(mean), count, generator=generator, dtype=torch.float64).to(mean)
    for _ in range(POWER_STEPS):
        back, pulled = torch.zeros_like(basis), basis.new_zeros(count)
        for rows, part in parts():
            share = weights[rows, None] / size
            scores = product(part, basis).sub_(mean @ basis).mul_(share)
            back += product(part.T, scores)
            pulled += scores.sum(0)
        back, pulled = total(back, pulled)
        basis = torch.linalg.qr(back.addr_(mean, pulled, alpha=-1))[0]
    return basis


def _largest(matrix: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Eigenvalues that are not negligible, largest first, at most ``most``, and eigenvectors.

    The matrix is overwritten by the eigenvectors.
    """
    return_freed_memory(matrix.nbytes)
    values, vectors = torch.linalg.eigh(matrix)
    largest = float(values[-1])
    worst = float(values[0])
    if worst < -1e-8 * largest or not largest > 0:
        raise IndefiniteError(f"has the eigenvalue {worst:.3g}, the largest is {largest:.3g}")
    count = min(int((values > NEGLIGIBLE * largest).sum()), most)
    order = torch.arange(len(values) - 1, len(values) - 1 - count, -1, device=values.device)
    room = (matrix if matrix.is_contiguous() else matrix.T).reshape(-1)
    leading = room[: len(values) * count].view(len(values), count)
    torch.index_select(vectors, 1, order, out=leading)
    return values[order], leading
