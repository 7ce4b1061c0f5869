"""Weights, groups and records of the search, for estimators with the Newton method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from decoupled_descent.features.scaling import is_sparse, moments
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.store import Mapped
from decoupled_descent.selection.found import Candidate, Search
from decoupled_descent.training.run import Run

Floats = NDArray[np.floating[Any]]


class Weighing(NamedTuple):
    """The rows of positive weight, their weights (None where all are one) and their groups."""

    kept: NDArray[np.bool_] | None = None  # marks them, shape (n,); None if all are positive
    weights: Tensor | None = None  # in training
    shares: Tensor | None = None  # in the estimates: sample weights without class weights
    groups: Tensor | None = None  # whole numbers; rows of a group are left out together
    unit: float = 1.0  # of weights, shares and ridges: a power of two

    def counted(self) -> tuple[Floats | None, NDArray[Any] | None]:
        """Weights of the kept rows in the estimates, and their groups."""
        shares = None if self.shares is None else self.shares.numpy()
        return shares, None if self.groups is None else self.groups.numpy()

    def some(self, part: Any = slice(None)) -> dict[str, Any]:
        """What the search needs of some of the kept rows."""
        parts = {"weights": self.weights, "groups": self.groups}
        return {name: None if each is None else each[part] for name, each in parts.items()}


def weigh(sample_weight: Any, class_weight: Floats | None, groups: Any, n: int) -> Weighing:
    """Combine sample weights and class weights, which count in training but not in the estimates.

    Weight 2 trains the same model as the row twice. A row is left out with all of its weight, as
    two equal rows of one group are.
    """
    codes = check_groups(groups, n)
    if sample_weight is None and class_weight is None:
        return Weighing(groups=codes)
    copies = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if copies.ndim == 0:
        copies = np.full(n, float(copies))
    if copies.shape != (n,):
        raise ValueError(f"sample_weight has shape {copies.shape}; it must be ({n},)")
    bad = ~(np.isfinite(copies) & (copies >= 0))
    if bad.any():
        raise ValueError(
            f"sample_weight[{bad.argmax()}] is {copies[bad.argmax()]:g}; weights must be finite "
            "and at least 0"
        )
    if not copies.max() > 0:
        raise ValueError(
            "sample_weight is zero for every row; at least two rows must have a positive weight"
        )
    kept = copies > 0
    _, exponents = np.frexp(copies[kept])
    exponent = int(np.median(exponents))
    copies = np.ldexp(copies, -exponent)  # exact: squares and sums of weights stay finite
    own = np.ones(n) if class_weight is None else class_weight
    weights = torch.from_numpy((copies * own)[kept])
    shares = torch.from_numpy(copies[kept])
    codes = None if codes is None else codes[torch.from_numpy(kept)]
    return Weighing(None if kept.all() else kept, weights, shares, codes, 2.0**exponent)


def check_groups(groups: Any, n: int) -> Tensor | None:
    """Number the groups, or raise ``ValueError``."""
    if groups is None:
        return None
    labels = np.asarray(groups)
    if labels.shape != (n,):
        raise ValueError(f"groups has shape {labels.shape}; it must name the group of each row")
    missing = pd.isna(labels)
    if missing.any():
        raise ValueError(
            f"groups has {missing.sum()} missing value(s), the first in row {missing.argmax()}; "
            "give every row a group, or leave those rows out"
        )
    names, codes = np.unique(labels.astype(str), return_inverse=True)
    if len(names) == 1:
        raise ValueError(
            "groups has one value only; leaving out its group would leave no rows to learn from"
        )
    if len(names) == n:
        raise ValueError(
            f"groups has {n} different values for {n} rows; leave it out, or name what rows have "
            "in common, such as the patient"
        )
    return torch.from_numpy(codes.reshape(-1))


#: Error and standard error of a candidate, in the units of the estimator.
Measure = Callable[[Candidate], tuple[float, float]]


def candidate_records(found: Search, measured: Measure, unit: float) -> list[dict[str, Any]]:
    """The candidates: features, ridge for weights in a unit, leave-one-out error, and share."""
    best, records = found.best, []
    for share, one in zip(found.weights.tolist(), found.candidates, strict=True):
        error, stderr = measured(one)
        records.append(
            {
                "features": one.features.name,
                "ridge": unit * one.ridge,
                "error": error,
                "stderr": stderr,
                "share": float(share),
                "step": one.run.best_step,
                "stop_reason": str(one.run.stop_reason),
                "chosen": one is best,
            }
        )
    return records


def ridge_curve(
    found: Search, measured: Measure, unit: float
) -> tuple[Floats, Floats, Floats, int]:
    """Ridges of the best features, largest first, their errors and stderrs, and the best index."""
    best = found.best
    path = [one for one in found.candidates if one.features is best.features]
    path.sort(key=lambda one: -one.ridge)
    ridges = unit * np.array([one.ridge for one in path])
    errors, stderrs = np.array([measured(one) for one in path]).T
    return ridges, errors, stderrs, path.index(best)


def standardised(X: Any) -> Rows | None:
    """Columns of mean 0 and variance 1, for the check of duplicate rows; None for sparse rows."""
    if is_sparse(X):
        return None
    mean, deviation = moments(X, torch.ones(X.here, dtype=torch.float64))
    scale = torch.where(deviation > 0, deviation, 1.0)
    return Rows(Mapped(X, lambda part: (part - mean).div_(scale), X.d))


def judged_run(candidate: Candidate) -> tuple[Rows, None, Run]:
    """The best candidate as arguments of :func:`diagnose`, with one loss per row."""
    rows, run = candidate.rows, candidate.run
    shaped = candidate.outputs.squeeze(1) if candidate.outputs.shape[1] == 1 else candidate.outputs
    losses = run.objective.loss.of(shaped, rows.y)
    best = replace(run.best, info=run.best.info._replace(losses=losses))
    return rows, None, replace(run, best=best)
