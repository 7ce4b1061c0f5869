"""Losses, one value per row, with the derivatives and label checks that go with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from decoupled_descent.objective.links import LEAST, POISSON, PROPORTION, Link

RowLoss = Callable[[Tensor, Tensor], Tensor]


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
    link: Link | None = None  # how outputs become means of numbers, if they are not the means

    def __reduce__(self) -> Any:
        """A copy from another process of a loss with a name is that loss."""
        return (get_loss, (self.name,)) if self.builtin else (Loss, tuple(self))

    @property
    def has_classes(self) -> bool:
        """Whether outputs are logits of classes; otherwise they predict the labels themselves."""
        return self.categorical or self.binary

    @property
    def builtin(self) -> bool:
        """Whether this is one of the named losses, called with (n, K) outputs."""
        return LOSSES.get(self.name) is self

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

    def predictions(self, outputs: Tensor) -> Tensor:
        """Probabilities of all classes, (n, C), for logits; otherwise numbers, (n, K)."""
        if not self.has_classes:
            return outputs if self.link is None else self.link.mean(outputs)
        if self.binary:
            outputs = torch.cat([torch.zeros_like(outputs), outputs], 1)
        return torch.softmax(outputs, 1)

    def of_predictions(self, predictions: Tensor, y: Tensor) -> Tensor:
        """Losses of predictions row by row, (n,): −log p of the class, or ℓ of the numbers.

        Probabilities have the shape (n, C) and are at least ``LEAST``.
        """
        if self.has_classes:
            return log_losses(predictions, y)
        if self.link is None:
            return self.of(predictions, y.to(predictions))
        return self.link.half_deviance(predictions, self._labels(y, predictions.dtype)).sum(1)

    def smoothed(self, predictions: Tensor, count: float) -> Tensor:
        """Predictions away from the ends of their range; numbers without a link as they are.

        A sample of n rows cannot show that the probability of a class is below about 1/n. So one
        row is added that belongs to each of K classes with probability 1/K: (n p + 1/K) / (n + 1).
        """
        if self.has_classes:
            return (count * predictions + 1 / predictions.shape[1]) / (count + 1)
        return predictions if self.link is None else self.link.smoothed(predictions, count)

    def variance(self, predictions: Tensor) -> Tensor:
        """The variance of numbers around their predictions, up to a factor: 1 without a link."""
        return (
            torch.ones_like(predictions) if self.link is None else self.link.variance(predictions)
        )

    def regression_targets(self, y: Tensor, outputs: int) -> Tensor:
        """Labels as targets of a least squares regression, (n, K): classes are one-hot."""
        if self.categorical:
            return functional.one_hot(y.long(), outputs).double()
        targets = y.double().reshape(len(y), -1)
        return targets if self.link is None else self.link.stable(targets)

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


def _linked(name: str, link: Link) -> Loss:
    """The loss of a link, which has its derivatives."""

    def expand(outputs: Tensor, labels: Tensor) -> Expansion:
        mean = link.mean(outputs)
        return Expansion(_total(link.value(outputs, labels)), mean - labels, link.variance(mean))

    return Loss(name, lambda outputs, y: link.value(outputs, y).sum(1), expand, link=link)


LOSSES = {
    "squared": Loss("squared", _squared, _expand_squared, quadratic=True),
    "absolute": Loss("absolute", _absolute, smooth=False),
    "logistic": Loss("logistic", _logistic, _expand_logistic, binary=True),
    "cross_entropy": Loss("cross_entropy", _cross_entropy, _expand_cross_entropy, categorical=True),
    "poisson": _linked("poisson", POISSON),
    "proportion": _linked("proportion", PROPORTION),
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
    ``"poisson"``             eᵘ − y u, plus a constant of y         counts, 0 or more
    ``"proportion"``          log(1 + eᵘ) − y u, plus a constant     in [0, 1], not classes
    ========================  =====================================  ========================

    All but the cross-entropy sum over outputs when the head has several. The last two are half of
    the deviance (:mod:`decoupled_descent.objective.links`). The squared loss is half of what
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
