"""The error after a drift that changes how frequent rows are: weighted losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from decoupled_descent.checks import interval
from decoupled_descent.evaluation.estimate import Estimate
from decoupled_descent.evaluation.evaluation import Evaluation
from decoupled_descent.evaluation.means import effective_count
from decoupled_descent.rows.tensors import as_tensor

#: With fewer effective rows than this, a weighted mean says nothing about its own error.
FEWEST = 10


def row_weights_of(weights: Any, y: Tensor) -> Tensor:
    """Weights of the rows in float64, from numbers per row or per label, checked."""
    if isinstance(weights, Mapping):
        labels = set(y.reshape(-1).tolist())
        if missing := sorted(labels - {float(label) for label in weights}):
            raise ValueError(f"weights has no number for the label {missing[0]:g}")
        of = {float(label): float(weight) for label, weight in weights.items()}
        own = torch.tensor([of[label] for label in y.reshape(-1).tolist()], dtype=torch.float64)
    else:
        own = as_tensor("weights", weights).double().cpu()
    if own.shape != (len(y),):
        raise ValueError(f"weights has shape {tuple(own.shape)}; it needs one number per row")
    if not bool((own.isfinite() & (own >= 0)).all()) or not float(own.sum()) > 0:
        raise ValueError("weights must be finite, at least 0, and not all 0")
    return own


def reweighted(evaluation: Evaluation, weights: Tensor) -> Estimate:
    """The mean loss with other weights of the rows; see :meth:`Run.under`."""
    own = weights.double().numpy()
    count = effective_count(own)
    if count < FEWEST:
        raise ValueError(
            f"weights leave {count:.1f} effective rows of {len(own)}; the drift is too large to be "
            "estimated from these rows: collect rows after the drift"
        )
    after = replace(evaluation, weights=own, variance=0.0, pairs=0.0, right=None)
    parts = (after.error, after.stderr, interval(after.error, after.stderr))
    return Estimate(*parts, "loss after the drift", int(count), evaluation.verdict)
