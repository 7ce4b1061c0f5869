"""Losses that models minimise: derivatives by the outputs, and predictions from outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

Floats = NDArray[np.float64]


class FamilyLoss(ABC):
    """A loss of outputs (n, K) and labels.

    Attributes:
        is_joint: Whether outputs that all rise by the same number predict the same.
    """

    is_joint: ClassVar[bool] = False

    @abstractmethod
    def gradients(self, outputs: Floats, labels: Any) -> Floats:
        """First derivatives, shape (n, K)."""

    @abstractmethod
    def curvatures(self, outputs: Floats, labels: Any) -> Floats:
        """Second derivatives, shape (n,) or (n, K, K)."""

    @abstractmethod
    def predictions(self, outputs: Floats) -> Any:
        """What the model predicts."""

    def slopes(self, outputs: Floats, labels: Any) -> Floats | None:
        """Derivatives of the loss by which the predictions are evaluated; None if it has jumps."""
        return self.gradients(outputs, labels)


class Squared(FamilyLoss):
    """Half of the squared error."""

    def gradients(self, outputs: Floats, labels: Any) -> Floats:
        """The residuals."""
        return np.asarray(outputs - np.asarray(labels).reshape(outputs.shape))

    def curvatures(self, outputs: Floats, labels: Any) -> Floats:
        """One."""
        return np.ones(len(outputs))

    def predictions(self, outputs: Floats) -> Any:
        """The outputs."""
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def slopes(self, outputs: Floats, labels: Any) -> Floats | None:
        """Those of the mean squared error over the outputs."""
        return np.asarray(2 * self.gradients(outputs, labels) / outputs.shape[1])


class SquaredScores(Squared):
    """Half of the squared error of scores −1 and 1 for classes."""

    def gradients(self, outputs: Floats, labels: Any) -> Floats:
        """The residuals."""
        width = outputs.shape[1]
        classes = np.arange(width) if width > 1 else np.ones(1)
        return np.asarray(outputs - np.where(labels[:, None] == classes, 1.0, -1.0))

    def predictions(self, outputs: Floats) -> Any:
        """The class of the highest score."""
        return decided(outputs)

    def slopes(self, outputs: Floats, labels: Any) -> Floats | None:
        """Decisions have jumps."""
        return None


class Logistic(FamilyLoss):
    """The logistic loss of two classes; probabilities are of both."""

    def gradients(self, outputs: Floats, labels: Any) -> Floats:
        """Probabilities minus labels."""
        return np.asarray(expit(outputs) - (labels == 1)[:, None])

    def curvatures(self, outputs: Floats, labels: Any) -> Floats:
        """P (1 − p)."""
        return np.asarray(expit(outputs) * expit(-outputs))[:, 0]

    def predictions(self, outputs: Floats) -> Any:
        """Probabilities of both classes."""
        return expit(np.concatenate([-outputs, outputs], 1))


class Softmax(FamilyLoss):
    """The log loss of several classes."""

    is_joint = True

    def gradients(self, outputs: Floats, labels: Any) -> Floats:
        """Probabilities minus labels."""
        return np.asarray(softmax(outputs, 1) - (labels[:, None] == np.arange(outputs.shape[1])))

    def curvatures(self, outputs: Floats, labels: Any) -> Floats:
        """diag(p) − p pᵀ."""
        p = softmax(outputs, 1)
        return np.asarray(p[:, :, None] * np.eye(p.shape[1]) - p[:, :, None] * p[:, None, :])

    def predictions(self, outputs: Floats) -> Any:
        """Probabilities."""
        return softmax(outputs, 1)


@dataclass(frozen=True)
class HalfTweedie(FamilyLoss):
    """Half of the deviance of a Tweedie law: normal 0, Poisson 1, Gamma 2, inverse Gaussian 3."""

    power: float
    has_log_link: bool = True

    def gradients(self, outputs: Floats, labels: Any) -> Floats:
        """(μ − y) μ^(−p) μ'."""
        mean, y = self._mean(outputs), labels[:, None]
        return np.asarray((mean - y) * mean ** ((1 if self.has_log_link else 0) - self.power))

    def curvatures(self, outputs: Floats, labels: Any) -> Floats:
        """By the output, exactly."""
        mean, y, p = self._mean(outputs), labels[:, None], self.power
        if self.has_log_link:
            return np.asarray((2 - p) * mean ** (2 - p) - (1 - p) * y * mean ** (1 - p))[:, 0]
        return np.asarray(mean**-p - p * (mean - y) * mean ** (-p - 1))[:, 0]

    def predictions(self, outputs: Floats) -> Any:
        """The expected value."""
        return self._mean(outputs)[:, 0]

    def slopes(self, outputs: Floats, labels: Any) -> Floats | None:
        """Those of the squared error."""
        mean = self._mean(outputs)
        return np.asarray(2 * (mean - labels[:, None]) * (mean if self.has_log_link else 1.0))

    def _mean(self, outputs: Floats) -> Floats:
        return np.exp(np.minimum(outputs, 700)) if self.has_log_link else outputs


@dataclass(frozen=True)
class ScaledHuber(FamilyLoss):
    """σ + σ H_ε((y − o)/σ) of an output o and a common scale σ, the second output."""

    epsilon: float

    def gradients(self, outputs: Floats, labels: Any) -> Floats:
        """By o and by σ."""
        z = (labels - outputs[:, 0]) / outputs[:, 1]
        inside, e = abs(z) <= self.epsilon, self.epsilon
        by_output = np.where(inside, -2 * z, -2 * e * np.sign(z))
        return np.stack([by_output, 1 - np.where(inside, z**2, e**2)], 1)

    def curvatures(self, outputs: Floats, labels: Any) -> Floats:
        """Zero beyond ε."""
        z = (labels - outputs[:, 0]) / outputs[:, 1]
        own = np.where(abs(z) <= self.epsilon, 2 / outputs[:, 1], 0.0)
        matrix = np.stack([own, own * z, own * z, own * z**2], 1)
        return matrix.reshape(-1, 2, 2)

    def predictions(self, outputs: Floats) -> Any:
        """The first output."""
        return outputs[:, 0]

    def slopes(self, outputs: Floats, labels: Any) -> Floats | None:
        """Those of the squared error."""
        errors = 2 * (outputs[:, 0] - labels)
        return np.stack([errors, np.zeros_like(errors)], 1)


def decided(outputs: Floats) -> Any:
    """The class of the highest score; of one score, class 1 above zero."""
    if outputs.shape[1] == 1:
        return np.asarray(outputs[:, 0] > 0, np.int64)
    return np.asarray(outputs.argmax(1), np.int64)


def doubt(outputs: Floats, left: Floats) -> Floats:
    """How likely another decision is if a move of outputs is known to a half of it, (n,)."""
    if outputs.shape[1] == 1:
        margin, moved = np.abs(left[:, 0]), np.abs(left - outputs)[:, 0]
    else:
        best = np.sort(left, 1)
        margin, moved = best[:, -1] - best[:, -2], 2 * np.abs(left - outputs).max(1)
    return np.asarray(moved**2 / np.maximum(moved**2 + 4 * margin**2, 1e-300))
