r"""Columns of X on one scale: centred, divided by their deviation, cut at ±5, or by their ranks.

Labels are not used. Sums over rows use the sample weights, so that a row of weight 2 counts as two
equal rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.inputs import piece_size
from decoupled_descent.rows.tensors import as_floats, as_tensor
from decoupled_descent.tables.prediction.predictor import CLIP

#: A column is constant if its deviation is at most this share of its mean: that is rounding.
CONSTANT = 1e-12
#: The same for columns whose mean is removed first, so that only its own rounding is left.
ROUNDING = 1e-14
#: Squares of numbers beyond 2^±this come close to the ends of float64, as do sums of them.
SQUARED = 450
#: Ranks and mean distances need sorted values, and are learnt from at most this many rows: shares
#: of them then have a standard error of 0.8 points. Sorting all would take several copies of X.
SORTED = 4096
#: Scores of ranks are interpolated between at most this many values of a column.
KNOTS = 1000
#: This many numbers are sorted at a time.
NUMBERS = 2**20


def is_sparse(X: Any) -> bool:
    """Whether X is a sparse matrix or array of SciPy."""
    return hasattr(X, "tocsr") and hasattr(X, "nnz")


def as_matrix(X: Any) -> Any:
    """Return X as a finite float64 matrix: a tensor, or CSR if it is sparse."""
    if not is_sparse(X):
        return as_floats("X", X).double()
    X = X.tocsr().astype(np.float64, copy=False)
    if 0 in X.shape:
        raise ValueError(f"X has shape {X.shape}; it must have rows and columns")
    if not np.isfinite(X.data).all():
        raise ValueError("X has entries that are NaN or infinite; remove or impute them first")
    return X


def row_weights(sample_weight: Any, n: int) -> Tensor:
    """Return the weights of n rows in float64, ones by default, or raise ``ValueError``."""
    if sample_weight is None:
        return torch.ones(n, dtype=torch.float64)
    weights = as_tensor("sample_weight", sample_weight).double()
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight has shape {tuple(weights.shape)} but X has {n} rows; pass one weight "
            "per row"
        )
    bad = torch.nonzero(~(torch.isfinite(weights) & (weights >= 0)))
    if len(bad):
        i = int(bad[0])
        raise ValueError(
            f"sample_weight[{i}] is {weights[i].item():g}; weights must be finite and not negative"
        )
    if not bool((weights > 0).any()):
        raise ValueError("sample_weight is zero everywhere; some rows need a positive weight")
    return weights


@dataclass(frozen=True)
class ColumnScales:
    r"""How every column is scaled, learnt from training rows and applied to any rows.

    Dense rows: (x − mean)/deviation, cut at ±5. With ranks, x is first replaced by the normal score
    of its mid-rank; new values are interpolated between training values, and values outside their
    range get the score of the nearest. Sparse rows: x divided by the root mean square of its
    column, cut at ±5, without centring, so that zeros stay zeros. Constant columns are dropped.

    Attributes:
        count: Columns of X.
        keep: Which of them vary, shape (k,).
        mean: Their means (of the scores, with ranks), shape (k,); zeros after sparse rows.
        scale: Their deviations, or root mean squares after sparse rows, shape (k,).
        knots: With ranks: distinct training values of the columns and their scores, shape
            (2, k, u); the last of a column is repeated where it has fewer than u.
        sparse: Learnt from sparse rows.

    Example:
        >>> X = torch.tensor([[1.0, 7.0], [2.0, 7.0], [3.0, 7.0]])
        >>> columns = ColumnScales.learn(X)
        >>> columns.apply(X)
        tensor([[-1.2247], [ 0.0000], [ 1.2247]], dtype=torch.float64)
        >>> columns.apply(torch.tensor([[100.0, 7.0]]))
        tensor([[5.]], dtype=torch.float64)
    """

    count: int
    keep: Tensor
    mean: Tensor
    scale: Tensor
    knots: Tensor | None = None
    sparse: bool = False

    @classmethod
    def learn(cls, X: Any, ranks: bool = False, sample_weight: Any = None) -> ColumnScales:
        """Learn the scale of every column, of dense or sparse rows and their weights."""
        if is_sparse(X):
            if ranks:
                raise ValueError("ranks=True needs dense rows; pass X.toarray() or ranks=False")
            X = as_matrix(X)
            weights = row_weights(sample_weight, X.shape[0])
            return _learn_sparse(cls, X, weights / weights.sum())
        rows = as_rows(X)
        weights = row_weights(sample_weight, rows.n).to(rows.like.device)
        mean, deviation = moments(rows, weights[rows.span])
        keep = _varying(deviation, ROUNDING * mean.abs())
        if not ranks:
            return cls(rows.d, keep, mean[keep], deviation[keep])
        some = sorted_rows(weights)
        share = weights[some] / weights[some].sum()
        given = rows.gather(some)[:, keep]
        knots = _knots(given.T, share)
        varying = _varying(_counts(knots) - 1.0, torch.zeros(1))  # a rare value may not be here
        keep, given, knots = keep[varying], given[:, varying], knots[:, varying]
        scales = []
        for table, columns in zip(
            *(torch.split(each, 64, 1) for each in (knots, given)), strict=True
        ):
            scores = _interpolate(table, columns.double().T.contiguous())
            centre = scores @ share
            squares = scores.sub_(centre.unsqueeze(1)).square_()
            scales.append(torch.stack([centre, (squares @ share).sqrt()]))
        centres, widths = torch.cat(scales, 1).contiguous()
        return cls(rows.d, keep, centres, widths, knots)

    def apply(self, X: Any) -> Any:
        """Scale rows: float64 without the constant columns, shape (m, k), a tensor or CSR."""
        X = as_matrix(X)
        self.check(X)
        if is_sparse(X):
            return self._apply_sparse(X)
        X = X[:, self.keep]  # a copy
        if self.knots is not None:
            for part in torch.split(X, piece_size(X.shape[1])):
                part.copy_(_interpolate(self.knots, part.T.contiguous()).T)
        return X.sub_(self.mean).div_(self.scale).clamp_(-CLIP, CLIP)

    def check(self, X: Any) -> None:
        """Raise ``ValueError`` for rows of another number of columns."""
        if X.shape[1] != self.count:
            raise ValueError(f"X has {X.shape[1]} columns but {self.count} were seen in training")

    def _apply_sparse(self, X: Any) -> Any:
        if not self.sparse:
            raise ValueError("X is sparse but the training rows were dense; pass X.toarray()")
        X = X[:, self.keep.numpy()]
        X.data = np.clip(X.data / self.scale.numpy()[X.indices], -CLIP, CLIP)
        return X

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return plain settings and float64 tensors from which :meth:`restore` makes a copy."""
        tensors = {"keep": self.keep.double(), "mean": self.mean, "deviation": self.scale}
        if self.knots is not None:
            counts = _counts(self.knots)
            tables = [k[:, :u] for k, u in zip(self.knots.unbind(1), counts.tolist(), strict=True)]
            tensors["knots"] = torch.cat(tables, 1).contiguous()
            tensors["knot_counts"] = counts.double()
        return {"count": self.count, "sparse": self.sparse}, tensors

    @classmethod
    def restore(cls, settings: dict[str, Any], tensors: dict[str, Tensor]) -> ColumnScales:
        """Make the scales again from :meth:`state`."""
        knots = None
        if "knots" in tensors:
            counts = tensors["knot_counts"].long().tolist()
            knots = _padded(torch.split(tensors["knots"], counts, 1))
        keep = tensors["keep"].long()
        count, sparse = int(settings["count"]), bool(settings["sparse"])
        return cls(count, keep, tensors["mean"], tensors["deviation"], knots, sparse)


def as_rows(X: Any) -> Rows:
    """Anything dense that holds rows, as rows without labels; rows as they are."""
    if isinstance(X, Rows):
        return X
    return Rows(as_floats("X", X))


def moments(rows: Rows, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of every column in float64, whatever its unit.

    One pass over the rows; a second one if squares of a column would leave the range of float64.
    """
    mean, deviation, largest = _merged(rows, weights, None)
    unit = units(largest)
    if unit is None:
        return mean, deviation
    mean, deviation, _ = _merged(rows, weights, 1 / unit)
    return mean * unit, deviation * unit


def units(largest: Tensor) -> Tensor | None:
    """Powers of two, in which columns can be squared; None if they can be as they are.

    Dividing by them is exact. Those of columns that need none are 1.
    """
    _, exponent = torch.frexp(largest)
    far = (largest > 0) & (exponent.abs() > SQUARED)
    if not bool(far.any()):
        return None
    return torch.where(far, exponent.clamp(-1000, 1000), 0).double().exp2()


def _merged(rows: Rows, weights: Tensor, factor: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, deviation and largest size of columns times a factor; moments of pieces are merged."""
    total, mean, squares = weights.new_zeros(()), weights.new_zeros(()), weights.new_zeros(())
    largest = weights.new_zeros(rows.d)
    for span, part in rows.doubles():
        w = weights[span]
        if not (size := w.sum()) > 0:
            continue
        if factor is not None:
            part = part * factor
        low, high = torch.aminmax(part, dim=0)
        largest = torch.maximum(largest, torch.maximum(-low, high))
        own = (w / size) @ part
        step, joint = own - mean, total + size
        squares = squares + w @ (part - own).square_() + step.square() * (total * size / joint)
        mean, total = mean + step * (size / joint), joint
    if rows.all_here:
        return mean, (squares / total).sqrt(), largest
    everything, sums = rows.total(total, total * mean)
    centre = sums / everything
    (squares,) = rows.total(squares + total * (mean - centre).square())
    return centre, (squares / everything).sqrt(), rows.processes.all_gather(largest).amax(0)


def sorted_rows(weights: Tensor) -> Tensor:
    """The rows from which ranks and mean distances are learnt, by number among all."""
    present = (weights > 0).nonzero().squeeze(1)
    if len(present) <= SORTED:
        return present
    order = torch.randperm(len(present), generator=torch.Generator().manual_seed(0))
    return present[order[:SORTED].sort().values]


def _varying(deviation: Tensor, least: Tensor) -> Tensor:
    """Indices of the columns that vary, or ``ValueError`` if there is none."""
    keep = torch.nonzero(deviation > least)[:, 0]
    if len(keep) == 0:
        raise ValueError("every column of X is constant; there is nothing to learn from")
    return keep


def _learn_sparse(cls: type[ColumnScales], X: Any, share: Tensor) -> ColumnScales:
    """Root mean squares of sparse columns. Constant: the variance is lost in rounding."""
    unit = units(torch.from_numpy(abs(X).max(axis=0).toarray().reshape(-1)))
    if unit is not None:
        X = X.copy()
        X.data = X.data / unit.numpy()[X.indices]
    square = torch.from_numpy(X.multiply(X).T @ share.numpy())
    mean = torch.from_numpy(X.T @ share.numpy())
    variance = square - mean.square()
    keep = _varying(variance, CONSTANT * square)
    none = torch.zeros(len(keep), dtype=torch.float64)
    scale = square[keep].sqrt()
    scale = scale if unit is None else scale * unit[keep]
    return cls(X.shape[1], keep, none, scale, sparse=True)


def _knots(columns: Tensor, share: Tensor) -> Tensor:
    """Distinct values and the normal scores Φ⁻¹(mid-rank) of their weighted mid-ranks, (2, k, u).

    ``columns`` are given as rows, shape (k, n). The last knot of a column is repeated.
    """
    tables = []
    for some in torch.split(columns, max(1, NUMBERS // columns.shape[1])):
        values, middle, counts = _mid_ranks(some.double().contiguous(), share)
        if int(counts.max()) > KNOTS:
            parts = zip(values, middle, counts.tolist(), strict=True)
            tables.append(_padded([_thinned(x[:u], rank[:u]) for x, rank, u in parts]))
        else:
            index = torch.arange(values.shape[1], device=values.device)
            last = torch.minimum(index, counts.unsqueeze(1) - 1)
            both = torch.stack((values, torch.special.ndtri(middle)))
            tables.append(both.gather(2, last.expand(2, -1, -1)))
    longest = max(2, *(one.shape[2] for one in tables))
    return torch.cat([_extended(one, longest) for one in tables], 1)


def _mid_ranks(x: Tensor, share: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Distinct values of each row of (k, n), their weighted mid-ranks, and their numbers u_k.

    The first two have shape (k, u). What follows the first u_k numbers of a row means nothing.
    """
    ordered, order = x.sort(dim=1, stable=True)
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    index = first.cumsum(1) - 1
    counts = index[:, -1] + 1
    mass = ordered.new_zeros(len(x), int(counts.max())).scatter_add_(1, index, share[order])
    values = torch.zeros_like(mass)
    values[first.nonzero()[:, 0], index[first]] = ordered[first]
    return values, mass.cumsum(1) - mass / 2, counts


def _thinned(values: Tensor, middle: Tensor) -> Tensor:
    """The knots of one column, (2, u): evenly spaced ranks if there are too many values."""
    if len(values) > KNOTS:
        even = torch.linspace(0, 1, KNOTS, dtype=middle.dtype, device=middle.device)
        some = torch.unique(torch.searchsorted(middle, even).clamp_max(len(values) - 1))
        values, middle = values[some], middle[some]
    return torch.stack((values, torch.special.ndtri(middle)))


def _extended(knots: Tensor, longest: int) -> Tensor:
    """Repeat the last knot of every column up to a given number."""
    more = knots[:, :, -1:].expand(-1, -1, longest - knots.shape[2])
    return torch.cat((knots, more), 2)


def _padded(knots: Sequence[Tensor]) -> Tensor:
    """Knots of all columns, (2, k, u), from those of each, (2, u_k): the last one is repeated."""
    longest = max(2, *(one.shape[1] for one in knots))
    table = knots[0].new_empty(2, len(knots), longest)
    for row, one in zip(table.unbind(1), knots, strict=True):
        row[:, : one.shape[1]], row[:, one.shape[1] :] = one, one[:, -1:]
    return table


def _counts(knots: Tensor) -> Tensor:
    """How many distinct values each column has, shape (k,)."""
    return (knots[0] < knots[0, :, -1:]).sum(1) + 1


def _interpolate(knots: Tensor, x: Tensor) -> Tensor:
    """Scores of values of shape (k, b), linear between the knots and constant beyond them."""
    values, scores = knots
    right = torch.searchsorted(values, x).clamp_(1, values.shape[1] - 1)
    left = right - 1
    low = values.gather(1, left)
    t = ((x - low) / (values.gather(1, right) - low)).clamp_(0, 1)
    return torch.lerp(scores.gather(1, left), scores.gather(1, right), t)
