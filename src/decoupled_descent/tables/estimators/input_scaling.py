"""Columns of a network's inputs: centred, scaled to variance 1/d, and clipped."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from decoupled_descent.tables.features.scaling import CLIP, as_rows, moments

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class InputScaling:
    """Columns are centred, scaled to variance 1/d, and clipped.

    Attributes:
        mean: Column means, shape (d,).
        scale: Column deviations; infinite for constant columns, which become zero.
    """

    mean: Floats
    scale: Floats

    @classmethod
    def learn(cls, X: Any) -> InputScaling:
        """Learn means and deviations of the columns; ``ValueError`` if all are constant."""
        rows = as_rows(X)
        values = moments(rows, torch.ones(rows.here, dtype=torch.float64))
        mean, deviation = (value.cpu().numpy() for value in values)
        constant = deviation <= 1e-12 * np.maximum(np.abs(mean), np.finfo(float).tiny)
        if constant.all():
            raise ValueError("every column of X is constant; there is nothing to learn from")
        return cls(mean, np.where(constant, np.inf, deviation))

    @property
    def varying(self) -> NDArray[np.bool_]:
        """Which columns vary."""
        return np.isfinite(self.scale)

    def apply(self, X: Floats) -> Floats:
        """Centre the columns, scale them to variance 1/d and clip outliers, in float64.

        Columns that were constant in training become zero and do not count in d.
        """
        scaled: Floats = X - self.mean
        scaled /= self.scale  # in place: X may be large
        np.clip(scaled, -CLIP, CLIP, out=scaled)
        scaled /= math.sqrt(int(self.varying.sum()))
        return scaled
