"""Losses, one value per row, with the derivatives and label checks that go with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

RowLoss = Callable[[Tensor, Tensor], Tensor]

#: Predicted probabilities below this count as this.
LEAST = 2.220446049250313e-16


class Expansion(NamedTuple):
    r"""A loss to second order in its outputs, feature by feature: all but ``value`` are (K, n)."""

    value: Tensor  # ℓ(u, y), shape (n,)
    slope: Tensor  # ∂ℓ/∂u
    diagonal: Tensor  # b in the Hessian ∂²ℓ/∂u² = diag(b) − c cᵀ
    rank_one: Tensor | None = None  # c, or None where the Hessian is diagonal


class Loss(NamedTuple):
    """A loss ℓ(u, y) of the head's outputs u (n, K) and the labels y, row by row."""

    name: str
    value: RowLoss  # (u, y) ↦ ℓ, shape (n,)
    expand: Callable[[Tensor, Tensor], Expansion] | None = None  # (uᵀ, yᵀ) ↦ ℓ to second order
    categorical: bool = False  # labels are class indices (n,), not shaped like the outputs
    smooth: bool = True  # no kinks
    binary: bool = False  # labels are probabilities of the second of two classes
    quadratic: bool = False  # a parabola, so that one Newton step reaches the minimum

    @property
    def has_classes(self) -> bool:
        """Whether outputs are logits of classes; otherwise they predict the labels themselves."""
        return self.categorical or self.binary

    @property
    def builtin(self) -> bool:
        """Whether this is one of the named losses, called with (n, K) outputs."""
        return LOSSES.get(self.name) == self  # not `is`: a copy from another process is equal

    def of(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Evaluate ℓ row by row at outputs (n,) or (n, K), for labels as the user gave them."""
        if not self.builtin:
            return self.value(outputs, y)
        outputs = outputs.unsqueeze(1) if outputs.ndim == 1 else outputs
        return self.value(outputs, self._labels(y, outputs.dtype))

    def expansion(self, outputs: Tensor, y: Tensor) -> Expansion:
        """Expand ℓ at outputs of shape (K, n), for labels as the user gave them."""
        assert self.expand is not None
        labels = self._labels(y, outputs.dtype)
        return self.expand(outputs, labels if self.categorical else labels.T)

    def classes(self, y: Tensor) -> Tensor | None:
        """The class of each row, shape (n,); None if labels are numbers or probabilities."""
        if self.categorical:
            return y.long()
        single = self.binary and y.numel() == len(y)
        if not single or not bool(((y == 0) | (y == 1)).all()):
            return None
        return y.reshape(-1).long()

    def probabilities(self, outputs: Tensor) -> Tensor:
        """Probabilities of all classes, (n, C), for logits; otherwise the outputs (n, K)."""
        if not self.has_classes:
            return outputs
        if self.binary:
            outputs = torch.cat([torch.zeros_like(outputs), outputs], 1)
        return torch.softmax(outputs, 1)

    def of_predictions(self, predictions: Tensor, y: Tensor) -> Tensor:
        """Losses of predictions row by row, (n,): −log p of the class, or ℓ of the numbers.

        Probabilities have the shape (n, C) and are at least ``LEAST``.
        """
        if not self.has_classes:
            return self.of(predictions, y.to(predictions))
        return log_losses(predictions, y)

    def regression_targets(self, y: Tensor, outputs: int) -> Tensor:
        """Labels as targets of a least squares regression, (n, K): classes are one-hot."""
        if self.categorical:
            return functional.one_hot(y.long(), outputs).double()
        return y.double().reshape(len(y), -1)

    def _labels(self, y: Tensor, dtype: torch.dtype) -> Tensor:
        """Labels as a named loss takes them: class indices (n,), or numbers (n, K)."""
        if self.categorical:
            return y.long()
        y = y if y.is_floating_point() else y.to(dtype)
        return y.unsqueeze(1) if y.ndim == 1 else y


def log_losses(probabilities: Tensor, y: Tensor) -> Tensor:
    """−log p of the class of each row, shape (n,), from probabilities of shape (n, C).

    Probabilities below ``LEAST`` count as ``LEAST``, as in scikit-learn.

    Example:
        >>> log_losses(torch.tensor([[0.5, 0.5]]), torch.tensor([1]))
        tensor([0.6931])
    """
    own = probabilities.gather(1, y.long().reshape(-1, 1)).squeeze(1)
    return -own.clamp_min(LEAST).log()


def _total(losses: Tensor) -> Tensor:
    """Sum over outputs, (K, n) to (n,); a view for a single output."""
    return losses[0] if losses.shape[0] == 1 else losses.sum(0)


def _squared(outputs: Tensor, labels: Tensor) -> Tensor:
    return (outputs - labels).square().sum(1).mul(0.5)


def _expand_squared(outputs: Tensor, labels: Tensor) -> Expansion:
    """ℓ' = u − y and ℓ'' = 1."""
    residual = outputs - labels
    return Expansion(_total(residual.square() * 0.5), residual, torch.ones_like(residual))


def _absolute(outputs: Tensor, labels: Tensor) -> Tensor:
    return (outputs - labels).abs().sum(1)


def _logistic(outputs: Tensor, labels: Tensor) -> Tensor:
    losses = functional.binary_cross_entropy_with_logits(outputs, labels, reduction="none")
    return losses.squeeze(1) if losses.shape[1] == 1 else losses.sum(1)


def _expand_logistic(outputs: Tensor, labels: Tensor) -> Expansion:
    """With p = 1/(1 + e^{−u}): ℓ' = p − y and ℓ'' = p (1 − p)."""
    probability = torch.sigmoid(outputs)
    softplus = functional.softplus(outputs, threshold=40)  # torch's default is off by 2e-9
    losses = torch.addcmul(softplus, labels, outputs, value=-1)
    diagonal = torch.addcmul(probability, probability, probability, value=-1)
    return Expansion(_total(losses), probability - labels, diagonal)


def _cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(outputs, labels, reduction="none")


def _expand_cross_entropy(outputs: Tensor, labels: Tensor) -> Expansion:
    """With p = softmax(u): ∂ℓ/∂u = p − e_y and ∂²ℓ/∂u² = diag(p) − p pᵀ."""
    logarithm = torch.log_softmax(outputs, 0)
    probability, chosen = logarithm.exp(), labels.unsqueeze(0)
    slope = probability.scatter_add(0, chosen, -torch.ones_like(outputs[:1]))
    return Expansion(-logarithm.gather(0, chosen)[0], slope, probability, probability)


LOSSES = {
    "squared": Loss("squared", _squared, _expand_squared, quadratic=True),
    "absolute": Loss("absolute", _absolute, smooth=False),
    "logistic": Loss("logistic", _logistic, _expand_logistic, binary=True),
    "cross_entropy": Loss("cross_entropy", _cross_entropy, _expand_cross_entropy, categorical=True),
}


def class_loss(count: int) -> tuple[str, int]:
    """The loss of a number of classes, and the outputs that it takes."""
    return ("logistic", 1) if count == 2 else ("cross_entropy", count)


def get_loss(loss: str | RowLoss | Loss) -> Loss:
    r"""Look a loss up by name, or wrap a callable.

    ========================  =====================================  ========================
    name                      ℓ(u, y)                                labels
    ========================  =====================================  ========================
    ``"squared"``             ½ (u − y)²                             real
    ``"absolute"``            \|u − y\|                              real
    ``"logistic"``            log(1 + eᵘ) − y u, u a logit           in [0, 1]
    ``"cross_entropy"``       log Σₖ e^{uₖ} − u_y                    class index 0 … K − 1
    ========================  =====================================  ========================

    The first three sum over outputs when the head has several. The squared loss is half of what
    ``F.mse_loss`` reports for one output.

    Args:
        loss: One of the names above, or ``loss(outputs, y)`` returning one value per row; a
            :class:`Loss` is returned as it is.

    Example:
        >>> import torch
        >>> get_loss("squared").value(torch.tensor([[2.0]]), torch.tensor([[0.0]]))
        tensor([2.])
    """
    if isinstance(loss, Loss):
        return loss
    if callable(loss):
        return Loss(getattr(loss, "__name__", type(loss).__name__), loss)
    if loss not in LOSSES:
        raise ValueError(f"loss={loss!r} is unknown; use one of {', '.join(LOSSES)} or a callable")
    return LOSSES[loss]


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
    if loss.name == "logistic" and not ((labels >= 0) & (labels <= 1)).all():
        worst = labels[(labels < 0) | (labels > 1)][0].item()
        raise ValueError(
            f"y contains {worst:g}, but loss 'logistic' needs labels between 0 and 1; "
            "map labels -1/+1 with (y + 1) / 2"
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
