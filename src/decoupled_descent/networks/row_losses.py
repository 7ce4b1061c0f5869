"""The loss of each row by any criterion of PyTorch's kind."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from decoupled_descent.objective.losses import Loss, get_loss

Criterion = str | Loss | Callable[[Tensor, Tensor], Tensor]
#: How far the mean over rows may be from the criterion's own value: rounding of float32.
ROUNDING = 1e-4


class RowLosses:
    """Losses row by row, shape (B,), from a criterion that is a mean over rows.

    A module with ``reduction="mean"`` is asked with ``reduction="none"``. A function that returns
    one number is called for every row alone. A function that returns a number for each row is
    used as it is. Numbers of one row (outputs, tokens, pixels) are averaged.

    Example:
        >>> losses = RowLosses(nn.MSELoss())
        >>> losses(torch.tensor([[1.0], [3.0]]), torch.zeros(2, 1))
        tensor([1., 9.])
    """

    def __init__(self, criterion: Criterion) -> None:
        if isinstance(criterion, str | Loss):
            criterion = (get_loss(criterion) if isinstance(criterion, str) else criterion).of
        if isinstance(criterion, type) or not callable(criterion):
            raise ValueError(
                f"criterion={criterion!r} must be a function of outputs and labels, such as "
                "torch.nn.CrossEntropyLoss()"
            )
        self.criterion = criterion
        self._rows = criterion
        reduction = getattr(criterion, "reduction", None)
        if reduction == "sum":
            raise ValueError(
                f"criterion={criterion!r} is a sum; use reduction='mean', and a larger lr if needed"
            )
        if reduction is not None and getattr(criterion, "weight", None) is not None:
            raise ValueError(
                "criterion has weight=…, which makes it no mean over rows; give class weights as "
                "sample_weight=weight[y]"
            )
        if isinstance(criterion, nn.Module) and reduction == "mean":
            self._rows = copy.copy(criterion)
            setattr(self._rows, "reduction", "none")  # noqa: B010 - no module declares it

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Losses of rows."""
        outputs = like_labels(outputs, y)
        result = self._rows(outputs, y)
        if result.ndim == 0:
            single = lambda row, label: self.criterion(row.unsqueeze(0), label.unsqueeze(0))  # noqa: E731
            result = torch.vmap(single, randomness="different")(outputs, y)
        if len(result) != len(y):
            raise ValueError(
                f"criterion returned shape {tuple(result.shape)} for {len(y)} rows; it must return "
                "their mean, or one number for each"
            )
        return result.flatten(1).mean(1) if result.ndim > 1 else result

    def check(self, outputs: Tensor, y: Tensor) -> None:
        """Raise ``ValueError`` where the criterion is no mean over rows."""
        with torch.no_grad():
            outputs = like_labels(outputs, y)
            value: Any = self.criterion(outputs, y)
            rows = self(outputs, y).mean()
        close = torch.isclose(value, rows, rtol=ROUNDING, atol=ROUNDING, equal_nan=True)
        if value.ndim == 0 and not close:
            raise ValueError(
                f"criterion is {float(value):.6g} for rows whose mean loss is {float(rows):.6g}; "
                f"it must be a mean over rows; y has shape {tuple(y.shape)} and {y.dtype} (for "
                "ignored labels, give sample_weight=0)"
            )


def like_labels(outputs: Tensor, y: Tensor) -> Tensor:
    """Give outputs of shape (n, 1) the shape (n,) of labels that are numbers.

    Without this, a squared loss would compare every output with every label.
    """
    if outputs.ndim == y.ndim + 1 and outputs.shape[-1] == 1 and y.is_floating_point():
        return outputs.squeeze(-1)
    return outputs
