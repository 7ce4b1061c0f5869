"""The loss of each row by any criterion of PyTorch's kind."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from decoupled_descent.objective.losses import Loss, get_loss

Criterion = str | Loss | Callable[[Tensor, Tensor], Tensor]
#: How far the mean over rows may be from the criterion's own value: rounding of float32.
ROUNDING = 1e-4


class RowLosses:
    """Losses row by row, shape (B,), from a criterion that is a mean over rows.

    A module with ``reduction="mean"`` is asked with ``reduction="none"``, and so is a function with
    this option. Another function that returns one number is called for every row alone. A function
    that returns a number for each row is used as it is. Numbers of one row (outputs, tokens,
    pixels) are averaged. With ``sums``, a criterion with ``reduction="sum"`` is taken, too; it adds
    them.

    Example:
        >>> losses = RowLosses(nn.MSELoss())
        >>> losses(torch.tensor([[1.0], [3.0]]), torch.zeros(2, 1))
        tensor([1., 9.])
    """

    def __init__(self, criterion: Criterion, sums: bool = False) -> None:
        name = getattr(criterion, "name", getattr(criterion, "__name__", type(criterion).__name__))
        if isinstance(criterion, str | Loss):
            name = criterion if isinstance(criterion, str) else name
            criterion = (get_loss(criterion) if isinstance(criterion, str) else criterion).of
        if isinstance(criterion, type) or not callable(criterion):
            raise ValueError(
                f"criterion={criterion!r} must be a function of outputs and labels, such as "
                "torch.nn.CrossEntropyLoss()"
            )
        self.criterion, self._name = criterion, name
        self._rows: Callable[..., Tensor] = criterion
        reduction = getattr(criterion, "reduction", None)
        if reduction == "sum" and not sums:
            raise ValueError(
                f"criterion={criterion!r} is a sum; use reduction='mean', and a larger lr if needed"
            )
        if reduction == "mean" and getattr(criterion, "weight", None) is not None:
            raise ValueError(
                f"{criterion} divides by the weights of the classes in a batch, so that its value "
                "for a row depends on the other rows; leave weight out, and give weights of rows, "
                "weight[y]"
            )
        self._sums = reduction == "sum"
        if isinstance(criterion, nn.Module) and reduction in ("mean", "sum"):
            self._rows = copy.copy(criterion)
            setattr(self._rows, "reduction", "none")  # noqa: B010 - no module declares it
        elif _averages(criterion):
            self._rows = functools.partial(cast(Any, criterion), reduction="none")

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
        if result.ndim == 1:
            return result
        result = result.flatten(1)
        return result.sum(1) if self._sums else result.mean(1)

    def slopes(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The slopes of the losses in the outputs, shape (B, K)."""
        leaf = outputs.detach().clone().requires_grad_()
        with torch.enable_grad():
            (result,) = torch.autograd.grad(self(leaf, y).sum(), leaf)
        return result.reshape(len(y), -1)

    def roots(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The root of the mean second derivative of each loss in its outputs, shape (B,)."""
        leaf = outputs.detach().clone().requires_grad_()
        with torch.enable_grad():
            (first,) = torch.autograd.grad(self(leaf, y).sum(), leaf, create_graph=True)
            second = torch.zeros_like(leaf)
            if first.requires_grad:
                signs = torch.where(torch.arange(leaf.numel()).reshape(leaf.shape) % 2 > 0, -1, 1)
                signs = signs.to(leaf)
                (second,) = torch.autograd.grad((first * signs).sum(), leaf)
                second = second * signs
        return second.reshape(len(y), -1).mean(1).clamp_min(0).sqrt()

    def check(self, outputs: Tensor, y: Tensor) -> None:
        """Raise ``ValueError`` where the criterion is no mean over rows."""
        with torch.no_grad():
            outputs = like_labels(outputs, y)
            try:
                value: Any = self.criterion(outputs, y)
            except (RuntimeError, IndexError, ValueError) as error:
                hint = ""
                if outputs.ndim == 3 and y.shape == outputs.shape[:2]:
                    hint = "; classes are the second dimension: let the model return outputs.mT"
                raise ValueError(
                    f"criterion {self._name} fails for outputs of shape "
                    f"{tuple(outputs.shape)} and y of shape {tuple(y.shape)}: {error}{hint}"
                ) from error
            rows = self(outputs, y).mean()
        rounding = max(ROUNDING, 4 * torch.finfo(outputs.dtype).eps)
        close = torch.isclose(value, rows, rtol=rounding, atol=rounding, equal_nan=True)
        if value.ndim == 0 and not close:
            raise ValueError(
                f"criterion is {float(value):.6g} for rows whose mean loss is {float(rows):.6g}; "
                f"it must be a mean over rows; y has shape {tuple(y.shape)} and {y.dtype} (for "
                "ignored labels, give sample_weight=0)"
            )


def by_rows(loss: Loss, outputs: Tensor, y: Tensor) -> Loss:
    """The loss itself, or row by row if it is a mean over rows, tried on a few of them."""
    with torch.no_grad():
        try:
            mean = not loss.builtin and loss.of(outputs, y).ndim == 0
        except Exception:
            return loss
    if not mean:
        return loss
    rows = RowLosses(loss.value)
    rows.check(outputs, y)
    return loss._replace(value=rows)


def _averages(criterion: Any) -> bool:
    """Whether a function has the option to average over rows, and does so by default."""
    try:
        option = inspect.signature(criterion).parameters.get("reduction")
    except (TypeError, ValueError):  # a function of C has no signature
        return False
    return option is not None and option.default == "mean"


def check_ignored(criterion: Any, y: Tensor) -> None:
    """Raise ``ValueError`` where a criterion ignores whole rows: they have no loss."""
    ignored = getattr(criterion, "ignore_index", None)
    if ignored is None or y.ndim != 1 or y.is_floating_point():
        return
    count = int((y == ignored).sum())
    if count:
        raise ValueError(
            f"y has the label {ignored} in {count} rows, which {criterion} ignores; leave these "
            f"rows out: keep = y != {ignored}, then X[keep] and y[keep]"
        )


def like_labels(outputs: Tensor, y: Tensor) -> Tensor:
    """Give outputs of shape (n, 1) the shape (n,) of labels that are numbers.

    Without this, a squared loss would compare every output with every label.
    """
    if outputs.ndim == y.ndim + 1 and outputs.shape[-1] == 1 and y.is_floating_point():
        return outputs.squeeze(-1)
    return outputs
