r"""Ridge regression on uncorrelated features: exact leave-one-out for every ridge at once.

Let Φ be features with Σ w_i φ_i = 0 and Φᵀ diag(w) Φ = diag(v), as every map of
:mod:`decoupled_descent.rows.features` makes them, and U = Φ diag(v)^{-½}. The minimum of
Σ w_i (y_i − b − φ_iᵀβ)² + λ‖β‖² has b = ȳ, the weighted mean, and

.. math::
   o_i = \bar y + \sum_k U_{ik} \frac{v_k}{v_k + λ} (U^\top W (y - \bar y))_k, \qquad
   V_i = \frac{1}{\sum_j w_j} + \sum_k U_{ik}^2 \frac{v_k}{v_k + λ}.

Taking the weight ρ_i ≤ w_i away from row i and solving again moves its output to

.. math::
   o_i^{(-i)} = y_i - \frac{y_i - o_i}{1 - ρ_i V_i},

exactly (Sherman–Morrison). All ridges share U: a ridge costs a few products with n × r numbers. The
same holds for a group G of rows that are left out together, with V_GG = 1/Σw + Φ_G diag(1/(v + λ))
Φ_Gᵀ:

.. math:: y_G - o_G^{(-G)} = (I - V_{GG} W_G)^{-1} (y_G - o_G) .
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from decoupled_descent.rows.scaling import row_weights
from decoupled_descent.rows.tensors import as_floats, as_tensor

#: Features count as uncorrelated up to this share of the largest second moment.
UNCORRELATED = 1e-6
TINY = torch.finfo(torch.float64).tiny


class RidgePath(NamedTuple):
    """Ridge regressions for L ridges with every row left out in turn.

    Attributes:
        outputs: o^(−i), shape (L, n, K).
        losses: Squared errors ‖y_i − o_i^(−i)‖², shape (L, n).
        leverages: w_i V_i, shape (L, n): the share of every row in its own fitted value.
        coefficients: β with all rows, shape (L, r, K).
        intercept: b with all rows, shape (K,), the same for every ridge.
    """

    outputs: Tensor
    losses: Tensor
    leverages: Tensor
    coefficients: Tensor
    intercept: Tensor


def ridge_path(
    features: Tensor,
    y: Any,
    ridges: Any,
    sample_weight: Any = None,
    removed: Any = None,
    groups: Tensor | None = None,
) -> RidgePath:
    """Fit ridge regressions and leave every row, or group of rows, out of each, exactly.

    Args:
        features: Centred and uncorrelated features, shape (n, r), from a feature map that was
            fitted with the same weights.
        y: Targets, shape (n,) or (n, K), for example one-hot classes.
        ridges: λ, L positive numbers; the squared errors are summed, not averaged.
        sample_weight: Weight of every row, shape (n,); all 1 by default.
        removed: The weight that is removed when a row is left out, shape (n,); all of it by
            default. It is 1 for a row of weight 2 that represents two rows.
        groups: Rows with the same number are left out together, shape (n,).

    Returns:
        Left-out outputs and losses, leverages, and the coefficients with all rows.

    Example:
        >>> phi = torch.tensor([[-1.0], [0.0], [1.0]], dtype=torch.float64)
        >>> ridge_path(phi, torch.tensor([0.0, 1.0, 3.0]), [1.0]).outputs.ravel()
        tensor([1.0000, 1.5000, 1.0000], dtype=torch.float64)
    """
    features = as_floats("features", features).double()
    n = len(features)
    weights = row_weights(sample_weight, n)
    y = as_tensor("y", y).double()
    if y.ndim not in (1, 2) or len(y) != n:
        raise ValueError(f"y has shape {tuple(y.shape)} but features has {n} rows")
    y = y.reshape(n, -1)
    ridge = _checked_ridges(ridges)
    share = _share_removed(removed, weights)
    values = weights @ features.square()
    _check_uncorrelated(features, weights, values)
    mean = weights @ y / weights.sum()
    centred = y - mean
    projected = features.T @ (weights[:, None] * centred)
    coefficients = projected / (values + ridge[:, None])[:, :, None]
    L, r, K = coefficients.shape
    fitted = (features @ coefficients.transpose(0, 1).reshape(r, L * K)).reshape(n, L, K)
    residuals = centred - fitted.transpose(0, 1)
    leverages = _leverages(features, weights, values, ridge)
    inverse = 1 / (values + ridge[:, None])
    if groups is None:
        rest = (1 - share * leverages).clamp_min(TINY)
        errors = residuals / rest[:, :, None]
    else:
        errors = _groups_left_out(residuals, features, weights, inverse, groups)
    return RidgePath(y - errors, errors.square().sum(2), leverages, coefficients, mean)


def losses_without(
    features: Tensor,
    y: Tensor,
    ridges: Any,
    held: Tensor,
    sample_weight: Any = None,
    removed: Any = None,
    groups: Tensor | None = None,
) -> Tensor:
    r"""Squared errors of left-out rows if a fold of rows is left out as well, (L, folds, n).

    Leaving out fold S changes the residuals r = y − o of the other rows to

    .. math:: r_i + V_{iS} W_S\, e_S, \qquad e_S = (I - V_{SS} W_S)^{-1} r_S,

    exactly. Each row, or group, is then left out as in :func:`ridge_path`, with the V of all rows:
    what the labels of the fold have told the model is taken back, and the model is otherwise that
    of all rows but one. Arguments are as there; ``held`` has the rows of each fold, booleans of
    shape (folds, n), whole groups.
    """
    weights = row_weights(sample_weight, len(features))
    path = ridge_path(features, y, ridges, weights)
    rest = (1 - _share_removed(removed, weights) * path.leverages).clamp_min(TINY)
    residuals = (y.reshape(len(features), -1) - path.outputs) * (1 - path.leverages)[:, :, None]
    inverse = 1 / (weights @ features.square() + _checked_ridges(ridges)[:, None])
    (count, n), outputs = held.shape, residuals.shape[2]
    pulled = residuals.new_zeros(len(residuals), n, count, outputs)
    for fold, chosen in enumerate(held):
        rows = chosen.nonzero().squeeze(1)
        together = _left_out_together(residuals, features, weights, inverse, rows)
        pulled[:, rows, fold] = weights[rows, None] * together
    flat = pulled.flatten(2)  # (L, n, folds · K)
    moved = features @ (inverse[:, :, None] * (features.T @ flat))
    moved += flat.sum(1, keepdim=True) / weights.sum()
    found = (residuals[:, :, None] + moved.reshape(-1, n, count, outputs)).flatten(2)
    if groups is None:
        found /= rest[:, :, None]
    else:
        found = _groups_left_out(found, features, weights, inverse, groups)
    losses: Tensor = found.reshape(-1, n, count, outputs).square().sum(3).transpose(1, 2)
    return losses


def _groups_left_out(
    residuals: Tensor, features: Tensor, weights: Tensor, inverse: Tensor, groups: Tensor
) -> Tensor:
    """Errors of every group when it is left out, shape (L, n, K)."""
    errors = torch.empty_like(residuals)
    for group in torch.unique(groups):
        rows = (groups == group).nonzero().squeeze(1)
        errors[:, rows] = _left_out_together(residuals, features, weights, inverse, rows)
    return errors


def _left_out_together(
    residuals: Tensor, features: Tensor, weights: Tensor, inverse: Tensor, rows: Tensor
) -> Tensor:
    """(I − V_GG W_G)⁻¹ r_G for some rows G, shape (L, s, K)."""
    own = features[rows]
    V = torch.einsum("ir,lr,jr->lij", own, inverse, own) + 1 / weights.sum()
    system = torch.eye(len(rows), dtype=torch.float64) - V * weights[rows]
    found: Tensor = torch.linalg.solve(system, residuals[:, rows])
    return found


def _leverages(features: Tensor, weights: Tensor, values: Tensor, ridges: Tensor) -> Tensor:
    """w_i V_i, shape (L, n)."""
    shrunk = features.square() @ (1 / (values + ridges[:, None])).T
    return weights * (shrunk.T + 1 / weights.sum())


def _checked_ridges(ridges: Any) -> Tensor:
    ridge = as_tensor("ridges", ridges).double()
    if ridge.ndim != 1 or len(ridge) == 0 or not bool(((ridge > 0) & ridge.isfinite()).all()):
        raise ValueError(f"ridges={ridges!r} must be a list of positive, finite numbers")
    return ridge


def _share_removed(removed: Any, weights: Tensor) -> Tensor:
    """ρ/w: the share of its weight that every row loses."""
    if int((weights > 0).sum()) < 2:
        raise ValueError("only 1 row has a positive weight; leaving it out leaves no rows")
    if removed is None:
        return torch.ones_like(weights)
    rho = as_tensor("removed", removed).double()
    if rho.ndim > 1 or (rho.ndim == 1 and len(rho) != len(weights)):
        raise ValueError(f"removed has shape {tuple(rho.shape)} for {len(weights)} rows")
    rho = rho.expand_as(weights)
    bad = torch.nonzero(~((rho >= 0) & (rho <= weights)))
    if len(bad):
        i = int(bad[0])
        raise ValueError(
            f"removed[{i}] is {rho[i].item():g}; it must be between 0 and the row's weight, "
            f"{weights[i].item():g}"
        )
    return rho / weights.clamp_min(TINY)


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
