"""Weights and groups of rows, checked and combined."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.floating[Any]]


class RowWeights(NamedTuple):
    """The rows of positive weight, their weights (None where all are one) and their groups."""

    kept: NDArray[np.bool_] | None = None  # marks them, shape (n,); None if all are positive
    weights: Tensor | None = None  # in training
    shares: Tensor | None = None  # in the estimates: sample weights without class weights
    groups: Tensor | None = None  # whole numbers; rows of a group are left out together
    unit: float = 1.0  # of weights, shares and ridges: a power of two

    def in_estimates(self) -> tuple[Floats | None, NDArray[Any] | None]:
        """Weights of the kept rows in the estimates, and their groups."""
        shares = None if self.shares is None else self.shares.numpy()
        return shares, None if self.groups is None else self.groups.numpy()


def combine_weights(
    sample_weight: Any, class_weight: Floats | None, groups: Any, n: int
) -> RowWeights:
    """Combine sample weights and class weights, which count in training but not in the estimates.

    Weight 2 trains the same model as the row twice. A row is left out with all of its weight, as
    two equal rows of one group are.
    """
    codes = check_groups(groups, n)
    if sample_weight is None and class_weight is None:
        return RowWeights(groups=codes)
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
    return RowWeights(None if kept.all() else kept, weights, shares, codes, 2.0**exponent)


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
