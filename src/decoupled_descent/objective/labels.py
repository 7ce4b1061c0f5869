"""Labels and losses that do not belong together, and losses that mix rows."""

from __future__ import annotations

import torch
from torch import Tensor

from decoupled_descent.objective.losses import Loss


def check_labels(loss: Loss, labels: Tensor, outputs: int) -> None:
    """Raise ``ValueError`` when the labels cannot belong to a named loss with K outputs."""
    if loss.categorical:
        _check_classes(labels, outputs)
        return
    columns = labels.shape[1] if labels.ndim == 2 else 1
    if columns != outputs:
        raise ValueError(
            f"the head has {outputs} output(s) but y has {columns} column(s); loss "
            f"{loss.name!r} compares them one by one (for class labels use 'cross_entropy')"
        )
    low, high = (0.0, 1.0) if loss.binary else (-torch.inf, torch.inf)
    low, high = (low, high) if loss.link is None else (loss.link.low, loss.link.high)
    if not ((labels >= low) & (labels <= high)).all():
        worst = labels[(labels < low) | (labels > high)][0].item()
        remedy = "; map labels -1/+1 with (y + 1) / 2" if loss.binary else ""
        limits = f"between {low:g} and {high:g}" if high < torch.inf else f"of {low:g} or more"
        raise ValueError(
            f"y contains {worst:g}, but loss {loss.name!r} needs labels {limits}{remedy}"
        )


@torch.no_grad()
def check_rows_one_by_one(loss: Loss, outputs: Tensor, y: Tensor) -> None:
    """Raise ``ValueError`` unless a user's loss treats rows one by one, tried on a few rows."""
    rows = varied_rows(y, len(outputs))
    outputs = outputs[: len(rows)]
    losses, count = _try(loss, outputs, y[rows]), len(rows)
    shapes = (str(tuple(t.shape)).replace(str(len(t)), "n", 1) for t in (outputs, y))
    given = "(it is given outputs of shape {} and y of shape {})".format(*shapes)
    if losses.shape != (count,):
        raise ValueError(
            f"loss {loss.name!r} returned shape {tuple(losses.shape)} for {count} rows; "
            f"it must return one value per row, without averaging {given}"
        )
    pairs = [(outputs[[k, k]], y[rows[[k, k]]]) for k in range(count)]
    alone = torch.stack([_try(loss, *pair)[0] for pair in pairs]).double()
    losses = losses.double()
    size = float(losses.abs().nan_to_num(0.0, 0.0).max())
    if not torch.allclose(alone, losses, rtol=1e-3, atol=1e-5 * size, equal_nan=True):
        raise ValueError(
            f"loss {loss.name!r} mixes rows or is random: a row has another loss beside "
            f"other rows {given}. Check how shapes broadcast (u.squeeze(1) turns (n, 1) into "
            "(n,)), and take no means over rows"
        )


def _try(loss: Loss, outputs: Tensor, y: Tensor) -> Tensor:
    try:
        return loss.value(outputs.clone(), y)
    except Exception as error:
        raise ValueError(
            f"loss {loss.name!r} fails for outputs of shape {tuple(outputs.shape)} and y "
            f"of shape {tuple(y.shape)}: {error}. A loss is given some of the rows at a time; "
            "weights of rows are passed as weights="
        ) from error


def _check_classes(labels: Tensor, outputs: int) -> None:
    if outputs < 2:
        raise ValueError(
            f"loss 'cross_entropy' needs a head with one output per class, but this head has "
            f"{outputs}; give the head at least 2 outputs or use loss 'logistic'"
        )
    if labels.ndim != 1:
        raise ValueError(
            f"y has shape {tuple(labels.shape)}, but loss 'cross_entropy' needs class indices of "
            "shape (n,); use y.argmax(1) for one-hot labels"
        )
    fractional = labels.is_floating_point() and bool((labels != labels.round()).any())
    if fractional or labels.min() < 0 or labels.max() >= outputs:
        raise ValueError(
            f"y runs from {labels.min().item():g} to {labels.max().item():g}, but loss "
            f"'cross_entropy' with {outputs} outputs needs class indices 0 … {outputs - 1}; "
            "encode the classes as 0, 1, 2, … or give the head more outputs"
        )


def varied_rows(labels: Tensor, count: int) -> Tensor:
    """Return indices of at most ``count`` rows whose labels differ, rare classes and extremes too.

    They are spread evenly over the distinct values of every column of y. If there are few values,
    some rows are repeated.

    Example:
        >>> varied_rows(torch.tensor([0, 0, 0, 1, 0, 0]), 4)
        tensor([0, 0, 3, 3])
    """
    columns = labels.reshape(len(labels), -1).T[: max(1, count // 2)]
    picked = []
    for column in columns:
        values, order = column.sort(stable=True)
        fresh = torch.ones_like(values, dtype=torch.bool)
        fresh[1:] = values[1:] != values[:-1]
        firsts = order[fresh]
        ranks = torch.linspace(0, len(firsts) - 1, count // len(columns), device=labels.device)
        picked.append(firsts[ranks.round().long()])
    return torch.cat(picked)
