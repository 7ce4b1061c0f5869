"""What the intervals of a search need about the training rows that are left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decoupled_descent.rows.blocks import Rows
from decoupled_descent.tables.prediction.jackknife import Jackknife
from decoupled_descent.tables.search.fits import SearchResult

Floats = NDArray[np.floating[Any]]

#: At most this many training rows are left out for an interval, drawn at random if there are more.
#: The level of their quantile then has a standard error of 1.4 percentage points, and files stay
#: small.
MOST = 500


def jackknife_of(result: SearchResult, shares: Tensor | None, seed: int) -> Jackknife:
    """Take the data that intervals need: of models without each row for squared loss."""
    rows, members = result.best.rows, [fit for _, fit in result.members]
    y = rows.y.reshape(rows.n, -1)
    some, codes = _some(rows, seed)
    loss, weights = (
        result.objective.loss,
        counted(None if shares is None else shares[some], len(some)),
    )
    errors = ((y - result.left_out).abs() / loss.variance(result.left_out).sqrt())[some].numpy()
    if not loss.quadratic:
        return Jackknife(errors, weights, codes.numpy(), rows=some.numpy())
    leaving = torch.ones_like(y) if rows.weights is None else rows.weights.unsqueeze(1)
    maps = {id(one.features): one.rows.gather(some) for one in members}
    kept = []
    for _, one in result.other_members:
        assert result.table is not None
        kept.append(one.model.kept_rows(result.table, some))
    return Jackknife(
        errors,
        weights,
        codes.numpy(),
        1 / float(rows.n if rows.weights is None else rows.weights.sum()),
        tuple(one.numpy() for one in maps.values()),
        tuple((leaving * (one.outputs - y))[some].numpy() for one in members),
        tuple(one.matrix.numpy() for one in kept),
        some.numpy(),
        tuple(np.empty((len(some), 0)) if one.X is None else one.X.numpy() for one in kept),
    )


def counted(shares: Tensor | None, n: int) -> Floats:
    """Weights whose sum is the effective sample size, (Σw)²/Σw²."""
    if shares is None:
        return np.ones(n)
    weights: Floats = (shares * (shares.sum() / shares.square().sum())).numpy()
    return weights


def _some(rows: Rows, seed: int) -> tuple[Tensor, Tensor]:
    """Choose rows to leave out, in whole groups; return them and the number of each row's group."""
    groups = torch.arange(rows.n) if rows.groups is None else rows.groups
    sizes = torch.bincount(groups)
    order = torch.randperm(len(sizes), generator=torch.Generator().manual_seed(seed))
    fits = sizes[order].cumsum(0) <= MOST
    fits[0] = True
    some = torch.isin(groups, order[fits]).nonzero().squeeze(1)
    codes: Tensor = torch.unique(groups[some], return_inverse=True)[1]
    return some, codes
