r"""Ridge regression on uncorrelated features: exact leave-one-out for every ridge at once.

Let Φ be features with Σ w_i φ_i = 0 and Φᵀ diag(w) Φ = diag(v), as every map of
``kernel_map.py`` makes them, and U = Φ diag(v)^{-½}. The minimum of
Σ w_i (y_i − b − φ_iᵀβ)² + λ‖β‖² has b = ȳ, the weighted mean, and

.. math::
   o_i = \bar y + \sum_k U_{ik} \frac{v_k}{v_k + λ} (U^\top W (y - \bar y))_k, \qquad
   V_i = \frac{1}{\sum_j w_j} + \sum_k U_{ik}^2 \frac{v_k}{v_k + λ}.

Solving again without row i moves its output to

.. math::
   o_i^{(-i)} = y_i - \frac{y_i - o_i}{1 - w_i V_i},

exactly (Sherman–Morrison). All ridges share U: a ridge costs a few products with n × r numbers. The
same holds for a group G of rows that are left out together, with V_GG = 1/Σw + Φ_G diag(1/(v + λ))
Φ_Gᵀ:

.. math:: y_G - o_G^{(-G)} = (I - V_{GG} W_G)^{-1} (y_G - o_G) .
"""

from __future__ import annotations

from copy import copy
from typing import Any

import torch
from torch import Tensor

from decoupled_descent.rows.tensors import as_floats, as_tensor
from decoupled_descent.tables.features.scaling import row_weights

#: Features count as uncorrelated up to this share of the largest second moment.
UNCORRELATED = 1e-6
TINY = torch.finfo(torch.float64).tiny


class RidgePath:
    """Ridge regressions for L ridges, with every row, or group of rows, left out of each in turn.

    Args:
        features: Centred and uncorrelated features, shape (n, r), from a feature map that was
            fitted with the same weights.
        y: Targets, shape (n,) or (n, K), for example one-hot classes.
        ridges: λ, L positive numbers; the squared errors are summed, not averaged.
        sample_weight: Weight of every row, shape (n,); all 1 by default.
        groups: Rows with the same number are left out together, shape (n,).

    Attributes:
        outputs: o^(−i), shape (L, n, K).
        losses: Squared errors ‖y_i − o_i^(−i)‖², shape (L, n).
        leverages: w_i V_i, shape (L, n): the share of every row in its own fitted value.
        coefficients: β with all rows, shape (L, r, K).
        intercept: b with all rows, shape (K,), the same for every ridge.

    Example:
        >>> phi = torch.tensor([[-1.0], [0.0], [1.0]], dtype=torch.float64)
        >>> RidgePath(phi, torch.tensor([0.0, 1.0, 3.0]), [1.0]).outputs.ravel()
        tensor([1.0000, 1.5000, 1.0000], dtype=torch.float64)
    """

    def __init__(
        self,
        features: Tensor,
        y: Any,
        ridges: Any,
        sample_weight: Any = None,
        groups: Tensor | None = None,
    ) -> None:
        self.features, self.groups = as_floats("features", features).double(), groups
        n = len(self.features)
        self.weights = weights = row_weights(sample_weight, n)
        y = as_tensor("y", y).double().reshape(n, -1)
        values = weights @ self.features.square()
        _check_uncorrelated(self.features, weights, values)
        self.intercept = weights @ y / weights.sum()
        centred = y - self.intercept
        projected = self.features.T @ (weights[:, None] * centred)
        self.inverse = 1 / (values + as_tensor("ridges", ridges).double()[:, None])  # (L, r)
        self.coefficients = projected * self.inverse[:, :, None]
        L, r, K = self.coefficients.shape
        flat = self.coefficients.transpose(0, 1).reshape(r, L * K)
        self.residuals = centred - (self.features @ flat).reshape(n, L, K).transpose(0, 1)
        self.spread = (self.features.square() @ self.inverse.T).T + 1 / weights.sum()  # V_i, (L, n)
        self.leverages = weights * self.spread
        errors = self._left_out(self.residuals)
        self.outputs, self.losses = y - errors, errors.square().sum(2)

    def some(self, ridges: slice) -> RidgePath:
        """The path of some of the ridges."""
        part = copy(self)
        for name in ("inverse", "coefficients", "residuals", "spread", "leverages"):
            setattr(part, name, getattr(self, name)[ridges])
        part.outputs, part.losses = self.outputs[ridges], self.losses[ridges]
        return part

    def errors_without(self, held: Tensor) -> Tensor:
        r"""Errors y − o of left-out rows if a fold of rows is left out as well, (L, folds, n, K).

        Leaving out fold S changes the residuals r = y − o of the other rows to

        .. math:: r_i + V_{iS} W_S\, e_S, \qquad e_S = (I - V_{SS} W_S)^{-1} r_S,

        exactly. Each row, or group, is then left out as before, with the V of all rows: the effect
        of the labels of the fold is removed, and the model is otherwise that of all rows but one.
        ``held`` has the rows of each fold, booleans of shape (folds, n), whole groups.
        """
        (count, n), K = held.shape, self.residuals.shape[2]
        rows, here = _padded(held)
        own, weights = self.features[rows], self.weights[rows] * here  # (folds, s, r), (folds, s)
        roots = own * self.inverse.sqrt()[:, None, None]  # in the order of memory, which is faster
        V = roots @ roots.mT + 1 / self.weights.sum()
        system = torch.eye(rows.shape[1], dtype=torch.float64) - V * weights.unsqueeze(1)
        together = weights.unsqueeze(2) * torch.linalg.solve(system, self.residuals[:, rows])
        pulled = self.residuals.new_zeros(len(self.residuals), n, count, K)
        fold = torch.arange(count).unsqueeze(1).expand_as(rows)
        pulled[:, rows[here], fold[here]] = together[:, here]
        flat = pulled.transpose(0, 1).flatten(1)  # (n, L · folds · K): one product for all
        back = (self.features.T @ flat).unflatten(1, (len(self.inverse), -1))
        moved = self.features @ back.mul_(self.inverse.T.unsqueeze(2)).flatten(1)
        moved += flat.sum(0) / self.weights.sum()
        moved = moved.reshape(n, -1, count, K).transpose(0, 1)
        moved = (self.residuals[:, :, None] + moved).flatten(2)
        return self._left_out(moved).reshape(-1, n, count, K).transpose(1, 2)

    def _left_out(self, residuals: Tensor) -> Tensor:
        """Errors of every row, or group, when it is left out, given all residuals, (L, n, K)."""
        if self.groups is None:
            return residuals / (1 - self.leverages).clamp_min(TINY)[:, :, None]
        errors = torch.empty_like(residuals)
        for group in torch.unique(self.groups):
            rows = (self.groups == group).nonzero().squeeze(1)
            errors[:, rows] = self._left_out_together(residuals, rows)
        return errors

    def _left_out_together(self, residuals: Tensor, rows: Tensor) -> Tensor:
        """(I − V_GG W_G)⁻¹ r_G for some rows G, shape (L, s, K)."""
        own = self.features[rows]
        V = torch.einsum("ir,lr,jr->lij", own, self.inverse, own) + 1 / self.weights.sum()
        system = torch.eye(len(rows), dtype=torch.float64) - V * self.weights[rows]
        errors: Tensor = torch.linalg.solve(system, residuals[:, rows])
        return errors


def _padded(held: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of each fold, filled up with others to the largest fold, and which are its own."""
    sizes = held.sum(1, keepdim=True)
    most = int(sizes.max())
    rows = held.byte().argsort(dim=1, descending=True, stable=True)[:, :most]
    return rows, torch.arange(most) < sizes


def _check_uncorrelated(features: Tensor, weights: Tensor, values: Tensor) -> None:
    """Raise ``ValueError`` if Σ wφ ≠ 0 or Φᵀ diag(w) Φ is not diagonal, tried on one direction."""
    probe = torch.linspace(1, 2, features.shape[1], dtype=torch.float64)
    probe[::2].neg_()
    moment = features.T @ (weights * (features @ probe))
    mean = weights @ features / weights.sum()
    limit = UNCORRELATED * float(values.max())
    scale = (float(values.max()) * float(weights.sum())) ** 0.5
    off = float((moment - values * probe).abs().max())
    if off > limit or float((weights.sum() * mean).abs().max()) > UNCORRELATED * scale:
        raise ValueError(
            "features are not centred and uncorrelated under these weights; make them with a "
            "feature map that is fitted with the same sample_weight"
        )
