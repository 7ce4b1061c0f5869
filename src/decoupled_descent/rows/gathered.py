"""Rows of all processes, read by each: what is needed once the fits are made.

Fits sum over rows, so each process works on its own rows. Mixtures of fits, intervals and checks
need single rows of all processes. These are sent block by block, and every process computes the
same from them, so that all have the same results.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.processes import Processes
from decoupled_descent.rows.sources import Source, SourceBlock, spans


class ProcessesSource(Source):
    """The rows of all processes, which all of them must read at the same time."""

    def __init__(self, rows: Rows) -> None:
        self.values, self.d, self.dtype = rows, rows.d, rows.like.dtype

    def parts(self, size: int | None) -> Iterator[SourceBlock]:
        """Send block by block."""
        for span in spans(self.values.n, size or self.values.n):
            yield SourceBlock(span, self.take(torch.arange(span.start, span.stop)), None)

    def take(self, index: Tensor) -> Tensor:
        """Send some rows."""
        taken: Tensor = self.values.gather(index.cpu()).to(self.dtype)
        return taken


def is_divided(X: Any) -> bool:
    """Whether these are rows that are divided among processes."""
    return isinstance(X, Rows) and not X.all_here


def gather_rows(rows: Rows, y: Tensor, **common: Any) -> Rows:
    """Rows of all processes with all labels, weights and groups, as if there were one process."""
    return rows if rows.all_here else Rows(ProcessesSource(rows), y, **common)


def divided(phi: Any, y: Tensor, X: Any, **common: Any) -> Rows:
    """Features with labels, divided among processes as X is, if it is.

    Args:
        phi: What features are read from: a matrix of all rows, or a source of this process's.
        y: Labels of all rows.
        X: The rows from which the features were made.
        common: Weights and groups of all rows. Divided rows have no groups, since the rows of a
            group may be in several processes.
    """
    if not is_divided(X):
        return Rows(phi, y, **common)
    own = phi[X.span] if isinstance(phi, Tensor) else phi
    kept = {k: v[X.span] for k, v in common.items() if v is not None and k != "groups"}
    processes = X.processes
    assert isinstance(processes, Processes)
    return Rows(own, y[X.span], group=processes.group, timeout=processes.timeout, **kept)


def all_gather(rows: Rows, values: Tensor) -> Tensor:
    """What each process has for its rows, for the rows of all, shape (n, …)."""
    if rows.all_here:
        return values
    padded = values.new_zeros(rows.n, *values.shape[1:])
    padded[rows.span] = values
    return rows.total(padded)[0]


def all_labels(rows: Rows, labels: NDArray[Any]) -> NDArray[Any]:
    """The labels of all rows from those of each process: numbers, truth values, or texts."""
    kinds = "biuf"
    kind = kinds.find(labels.dtype.kind) if labels.dtype.kind in kinds else len(kinds)
    code = -rows.processes.smallest(-kind)
    if code == len(kinds):
        return _all_texts(rows, [str(one) for one in labels.tolist()])
    dtype = np.float64 if kinds[code] == "f" else np.int64
    gathered: NDArray[Any] = all_gather(rows, torch.from_numpy(labels.astype(dtype))).numpy()
    return gathered.astype(bool) if kinds[code] == "b" else gathered


def _all_texts(rows: Rows, texts: list[str]) -> NDArray[Any]:
    """Send texts as bytes."""
    parts = rows.processes.all_gather_bytes(json.dumps(texts).encode())
    gathered = [text for part in parts for text in json.loads(part)]
    return np.array(gathered, dtype=object)
