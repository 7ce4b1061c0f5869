r"""Linear models with an L1 penalty, along a path of penalties, with and without folds of rows.

.. math:: \sum_i w_i\, \ell(o_i, y_i) + \lambda \sum_i w_i\, \bigl(\|\theta\|_1 + \tfrac12
   \epsilon \|\theta\|^2\bigr), \qquad o_i = \theta^\top x_i + b

Steps are those of glmnet (Friedman, Hastie and Tibshirani, 2010): the loss is replaced by a
parabola at the present outputs, and scikit-learn's coordinate descent minimises it, for one output
after the other. Only columns that may have a coefficient take part (the strong rule of Tibshirani
and others, 2012); the gradient at the end tells whether one was missed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import enet_path

from decoupled_descent.tables.members.interface import Floats

#: Each penalty is this share of the last one.
RATIO = 0.6
#: The most penalties, the last of which is RATIO^MOST of the one that makes all coefficients 0.
MOST = 12
#: ε, the share of a squared penalty: of equal columns, all get the same coefficient.
RIDGE = 0.01
#: The most parabolas per penalty, and the change of outputs at which they end. The next penalty
#: starts there, so that errors do not add up. Fits with and without a fold stop alike: what is left
#: changes the model a little, and not the honesty of its error.
PARABOLAS, SETTLED = 5, 0.02
#: The tolerance of coordinate descent, as scikit-learn takes it.
TOLERANCE = 1e-3
#: The least curvature of a class; smaller ones make steps too long.
LEAST = 0.05


class Coefficients(NamedTuple):
    """A sparse linear model."""

    theta: Floats  # shape (d, K); most are 0
    bias: Floats  # shape (K,)

    def outputs(self, X: Floats) -> Floats:
        """Outputs of rows, shape (m, K)."""
        used = np.flatnonzero(self.theta.any(1))
        result: Floats = X[:, used] @ self.theta[used] + self.bias
        return result


@dataclass(frozen=True)
class SparseProblem:
    """What is minimised: rows, targets and weights."""

    X: Floats  # scaled columns, shape (n, d), in Fortran order
    Y: Floats  # targets (n, K): numbers, 0 and 1 for two classes, one-hot for more
    weights: Floats  # of the rows, shape (n,), with sum 1; 0 for rows that are left out
    classes: bool  # whether outputs are logits

    def means(self, outputs: Floats) -> Floats:
        """What the targets are compared with: the outputs, or probabilities of classes."""
        if not self.classes:
            return outputs
        if outputs.shape[1] == 1:
            return 1 / (1 + np.exp(-np.clip(outputs, -30, 30)))
        shifted = np.exp(outputs - outputs.max(1, keepdims=True))
        shares: Floats = shifted / shifted.sum(1, keepdims=True)
        return shares

    def null(self) -> Coefficients:
        """The best model without columns."""
        mean = self.weights @ self.Y
        if self.classes:
            mean = np.clip(mean, 1e-6, 1 - 1e-6)
            mean = np.log(mean / (1 - mean)) if len(mean) == 1 else np.log(mean)
        return Coefficients(np.zeros((self.X.shape[1], len(mean))), mean)

    def gradient(self, at: Coefficients) -> Floats:
        """How much each coefficient would lower the loss, shape (d, K)."""
        missing = self.Y - self.means(at.outputs(self.X))
        result: Floats = self.X.T @ (self.weights[:, None] * missing)
        return result

    def minimise(self, penalty: float, last: float, start: Coefficients) -> Coefficients:
        """The minimum for a penalty, from the one for the last penalty."""
        steep = np.abs(self.gradient(start)).max(1)
        tried = start.theta.any(1) | (steep >= 2 * penalty - last)
        for _ in range(self.X.shape[1]):
            start = self._on_columns(np.flatnonzero(tried), penalty, start)
            steep = np.abs(self.gradient(start)).max(1)
            missed = ~tried & (steep > penalty * 1.01)
            if not missed.any():
                break
            tried |= missed
        return start

    def _on_columns(
        self, columns: NDArray[np.intp], penalty: float, start: Coefficients
    ) -> Coefficients:
        """The minimum if only some columns may have coefficients."""
        theta, bias = start.theta[columns].copy(), start.bias.copy()
        X = np.asfortranarray(self.X[:, columns])
        used = np.flatnonzero(self.weights)
        X, Y, weights = X[used], self.Y[used], self.weights[used]
        outputs = X @ theta + bias
        for _ in range(PARABOLAS if self.classes else 1):
            before = outputs.copy()
            for k in range(Y.shape[1]):
                mean = self.means(outputs)[:, k]
                bend = np.maximum(mean * (1 - mean), LEAST) if self.classes else np.ones(len(mean))
                target = outputs[:, k] + (Y[:, k] - mean) / bend
                own = weights * bend
                theta[:, k], bias[k] = _coordinate_descent(X, target, own, penalty, theta[:, k])
                outputs[:, k] = X @ theta[:, k] + bias[k]
            if np.abs(outputs - before).max() < SETTLED:
                break
        full = np.zeros_like(start.theta)
        full[columns] = theta
        return Coefficients(full, bias)


def _coordinate_descent(
    X: Floats, target: Floats, weights: Floats, penalty: float, start: Floats
) -> tuple[Floats, float]:
    """Minimise ½ Σ w (t − Xθ − b)² + penalty (‖θ‖₁ + ½ ε ‖θ‖²)."""
    total = weights.sum()
    shift, mean = weights @ X / total, float(weights @ target / total)
    if not X.shape[1]:
        return np.zeros(0), mean
    root = np.sqrt(weights)
    scaled = np.asfortranarray((X - shift) * root[:, None])
    share = 1 / (1 + RIDGE)
    alpha = penalty / share / len(X)  # scikit-learn's loss is a mean over rows
    _, path, _ = enet_path(
        scaled, (target - mean) * root, l1_ratio=share, alphas=[alpha], coef_init=start,
        check_input=False, tol=TOLERANCE, max_iter=200, precompute=False,
    )  # fmt: skip
    theta: Floats = path[:, 0]
    return theta, mean - float(shift @ theta)


def steepest(problem: SparseProblem) -> float:
    """The lowest penalty at which all coefficients are 0."""
    return float(np.abs(problem.gradient(problem.null())).max())
