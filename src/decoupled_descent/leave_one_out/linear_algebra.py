"""Tools that the structures share: Cholesky factors, rows in pieces, the speed of products."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import torch
from torch import Tensor

from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.freed_memory import return_freed_memory
from decoupled_descent.rows.inputs import piece_size
from decoupled_descent.rows.tensors import TOO_LARGE

#: Rows are processed in pieces of this length.
CHUNK = 8192


def pieces(rows: Rows) -> Iterator[tuple[slice, Tensor]]:
    """Yield the rows of this process in pieces of at most ``CHUNK``, each with its span."""
    return rows.pieces(min(CHUNK, piece_size(rows.d)))


def cholesky(matrix: Tensor) -> Tensor:
    """Cholesky factor; if there is none, the diagonal is increased by as little as possible."""
    factor: Tensor
    return_freed_memory(matrix.nbytes)
    factor, failed = torch.linalg.cholesky_ex(matrix)
    mean = float(matrix.diagonal().mean())
    if not math.isfinite(mean):  # no jitter would ever be enough
        raise ValueError(TOO_LARGE)
    jitter = 1e-12 * (float(matrix.diagonal().abs().mean()) or 1.0)
    while int(failed):
        shifted = matrix.clone()
        shifted.diagonal().add_(jitter)
        factor, failed = torch.linalg.cholesky_ex(shifted)
        jitter *= 10
    return factor


def product_speed() -> float:
    """Operations per second of a product of matrices in float64, the best of a few tries.

    A single one may have waited for other processes.
    """
    size, taken = 400, []
    square = torch.ones(size, size, dtype=torch.float64)
    for _ in range(5):
        start = time.perf_counter()
        square @ square
        taken.append(time.perf_counter() - start)
    return 2.0 * size**3 / max(min(taken), 1e-9)
