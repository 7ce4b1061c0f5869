"""Tools that the structures share: Cholesky factors, and rows in pieces."""

from __future__ import annotations

import math
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
