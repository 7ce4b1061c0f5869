r"""What goes wrong in a training loop with :class:`Decoupling`, noticed from its batches.

The corrections of the paper hold for noise that is uncorrelated between columns. Without the few
directions of largest variance, which may be signal, the eigenvalues e of the covariance of n rows
with d columns then have

.. math:: d\,\frac{\sum e^2}{(\sum e)^2} - \frac dn = 1

on average. Five real data sets have 1.3 to 4.6, four mixtures with a strong signal 0.99 to 1.
"""

from __future__ import annotations

import copy
import math
import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from decoupled_descent.checks import outside
from decoupled_descent.objective.kinks import KinkWarning, has_kinked_module, jumps

#: The covariance is measured with so many rows at most, and not with fewer than these.
MOST, FEWEST = 500, 50
#: Directions that may be signal, and the largest spread of the other variances; 1 is white noise.
SIGNAL, SPREAD = 4, 1.25
#: The largest factor between the variance that is stated and the one that is measured.
FACTOR = 4.0
#: A row is the same if its inputs, projected, differ by less than this share of their length.
SAME = 0.02
#: After so many visits of all other rows, rows that never came are missing.
VISITS = 3
#: What works for real features, and for layers that mix rows or draw random numbers.
INSTEAD = "use CrossFit in your loop, or fit(X, y, model, loss=…)"


class LoopChecks:
    """Looks at the model once, and at the batches as they come.

    Args:
        model: The model.
        layer: Its first layer.
        head: What follows.
        n: Rows in the data set.
        variance: Of the noise in each entry, as stated.
        covariance: Whether to refuse rows whose columns are correlated.
    """

    def __init__(
        self,
        model: nn.Module,
        layer: nn.Linear,
        head: nn.Module,
        n: int,
        variance: float,
        covariance: bool = True,
    ) -> None:
        self.n, self.columns, self.variance = n, layer.in_features, variance
        self._model = model
        self._wanted = min(n, MOST) if covariance and n >= FEWEST else 0
        self._rows: list[Tensor] = []  # inputs of rows, until there are enough of them
        self._marks = torch.full((n,), math.nan, dtype=torch.float64)
        self._visits = torch.zeros(n, dtype=torch.int64)
        self._first = True
        _check_modules(model, head, layer.out_features)

    def before(self) -> Tensor | None:
        """Check dropout before a batch; return the state of random numbers at the first one."""
        if any(_draws(part) for part in self._model.modules()):
            raise ValueError(f"the model has dropout, which is random; {INSTEAD}")
        return torch.get_rng_state() if self._first else None

    def after(self, before: Tensor | None, outputs: Tensor, y: Any, loss: Tensor, of: Any) -> None:
        """At the first batch, check that nothing is random and that the loss is a mean."""
        self._first = False
        if before is None:
            return
        if not torch.equal(before, torch.get_rng_state()):
            raise ValueError(f"the model draws random numbers (dropout?); {INSTEAD}")
        _check_mean(outputs, y, loss, of)

    @torch.no_grad()
    def batch(self, x: Tensor, rows: Tensor) -> None:
        """Check that rows are the same as before, and the covariance once there are enough."""
        x, rows = x.detach().cpu().double(), rows.cpu()
        direction = torch.linspace(0, 3 * self.columns, self.columns, dtype=torch.float64).sin()
        marks, before = x @ direction, self._marks[rows]
        length = x.norm(dim=1).max() * direction.norm() / math.sqrt(self.columns)
        if bool(((marks - before).abs() > SAME * length).any()):
            raise ValueError(
                "rows names a row that had other inputs before; give the numbers of the rows in "
                "the data set, not in the batch, and do not change inputs from epoch to epoch "
                "(augmentation)"
            )
        if self._wanted:
            self._rows.append(x[before.isnan()])
            if sum(map(len, self._rows)) >= self._wanted:
                self._wanted, stacked, self._rows = 0, torch.cat(self._rows), []
                check_white(stacked, self.variance)
        self._marks[rows] = marks
        self._visits[rows] += 1

    def check_n(self) -> None:
        """Raise ``ValueError`` if the last rows never come, while all others come often."""
        seen = int((self._visits > 0).nonzero().max()) + 1
        if seen < self.n and int(self._visits[:seen].min()) >= VISITS:
            raise ValueError(
                f"n={self.n}, but only rows 0 to {seen - 1} have come, each of them at least "
                f"{VISITS} times; pass n={seen}"
            )


def check_white(x: Tensor, variance: float) -> None:
    """Raise ``ValueError`` for rows whose columns are correlated or have another variance.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> check_white(torch.randn(200, 30, generator=generator), 1.0)
    """
    n, d = x.shape
    result = variances(x)
    mean = float(result.sum()) / d
    if not variance / FACTOR <= mean <= variance * FACTOR:
        raise ValueError(
            f"variance={variance:g}, but the columns of x have variance {mean:.3g} on average; "
            f"standardise them, or pass variance={mean:.3g}"
        )
    rest = result[min(SIGNAL, d // 4) :]
    spread = len(rest) * float(rest.square().sum() / rest.sum() ** 2) - len(rest) / n
    if spread > SPREAD:
        raise ValueError(
            f"the columns of x are correlated (spread of variances {spread:.2g}, white noise has "
            f"1), and Decoupling is right for uncorrelated ones only; {INSTEAD}"
        )


def variances(x: Tensor) -> Tensor:
    """Variances along principal directions, the largest first, shape (d,)."""
    n, d = x.shape
    centred = x - x.mean(0)
    product = centred.T @ centred if d <= n else centred @ centred.T
    result = torch.linalg.eigvalsh(product / (n - 1)).flip(0).clamp_min(0)
    return torch.cat([result, result.new_zeros(d - len(result))])


def _check_modules(model: nn.Module, head: nn.Module, width: int) -> None:
    """Refuse batch normalisation; warn of kinks, also of those in functions such as F.relu."""
    if any(isinstance(module, _BatchNorm) for module in model.modules()):
        raise ValueError(
            "the model has batch normalisation, which mixes rows; use nn.LayerNorm, or none, or "
            f"{INSTEAD}"
        )
    if has_kinked_module(model) or _has_kinks(head, width):
        warnings.warn(
            "the model has kinks (ReLU?), and second derivatives miss their curvature: the "
            "loss will be a little too low. Use a smooth activation, or dd.fit, which detects "
            "kinks",
            KinkWarning,
            stacklevel=outside(),
        )


def _has_kinks(head: nn.Module, width: int) -> bool:
    """Probe the derivative of the outputs; a head that fails on the probe counts as smooth."""
    module = copy.deepcopy(head).eval().double()

    def slope(h: Tensor, _: Tensor) -> Tensor:
        with torch.enable_grad():
            h = h.detach().requires_grad_()
            return torch.autograd.grad(module(h).square().sum(), h)[0]

    try:
        return jumps(slope, width, torch.zeros(8, dtype=torch.float64))
    except (RuntimeError, ValueError):
        return False


@torch.no_grad()
def _check_mean(outputs: Tensor, y: Any, loss: Tensor, criterion: Any) -> None:
    """Raise ``ValueError`` if the loss of all rows twice is twice as much: a sum, not a mean."""
    if not isinstance(outputs, Tensor) or not isinstance(y, Tensor) or loss.ndim:
        return
    once, twice = float(loss), float(criterion(torch.cat([outputs] * 2), torch.cat([y] * 2)))
    if abs(twice - 2 * once) < 0.1 * abs(once):
        raise ValueError(
            f"criterion is a sum over rows ({once:.4g}, and {twice:.4g} for the same rows twice); "
            "it must be a mean: reduction='mean'"
        )


def _draws(part: nn.Module) -> bool:
    return isinstance(part, _DropoutNd) and part.training and part.p > 0
