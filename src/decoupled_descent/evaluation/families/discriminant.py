r"""Linear and quadratic discriminant analysis, with moments from which a row is taken away.

Without row i of class c, with :math:`d = x_i - m_c`, the scatter S of the class loses
:math:`\frac{n_c}{n_c - 1} d d^\top`, and :math:`x_i - m_c` becomes :math:`\frac{n_c}{n_c - 1} d`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from decoupled_descent.evaluation.families.interface import Family, LeftOut, NoFormulaError
from decoupled_descent.evaluation.task import Task

Floats = NDArray[np.float64]


class Discriminant(Family):
    """What both have in common."""

    def leave_out(self, model: Any, task: Task) -> LeftOut:
        """Predict every row from the moments without it."""
        if task.groups is not None:
            raise NoFormulaError("moments without whole groups are left to folds")
        task = task.with_rows(task.matrix)
        counts = task.one_hot().sum(0)
        if counts.min() < 3:
            raise NoFormulaError("a class has fewer than three rows")
        means = task.one_hot().T @ task.X / counts[:, None]
        if not np.allclose(means, model.means_, atol=1e-6 * max(1e-300, np.abs(means).max())):
            raise ValueError(
                "X and y are not the rows that the model was fitted to: the means of the classes "
                "are others; pass the same rows"
            )
        scores = self.scores(model, task, means, counts)
        if not np.isfinite(scores).all():
            raise NoFormulaError("without some row, a covariance has no inverse")
        shares = counts / task.n
        given = model.priors is not None
        left = np.log((counts - np.eye(len(counts))[task.labels]) / (task.n - 1))
        priors = np.log(np.asarray(model.priors_)) if given else left
        kept = softmax(scores + np.log(model.priors_ if given else shares), 1)
        return LeftOut(
            softmax(scores + priors, 1), "moments without the row", kept=kept, is_exact=True
        )

    @abstractmethod
    def scores(self, model: Any, task: Task, means: Floats, counts: Floats) -> Floats:
        """The log density of each row for each class, without the row, shape (n, K)."""


class LinearDiscriminant(Discriminant):
    """One covariance for all classes."""

    def scores(self, model: Any, task: Task, means: Floats, counts: Floats) -> Floats:
        """Minus half of the squared distance, by the covariance without the row."""
        shrinkage = _shrinkage(model)
        centred = task.X - means[task.labels]
        values, vectors = np.linalg.eigh(centred.T @ centred)
        if values.min() < 1e-10 * values.max() and not shrinkage:
            raise NoFormulaError("the covariance has no inverse")
        own = counts[task.labels]
        factor = own / (own - 1)
        degrees = task.n - 1 - _lost_degrees(model, means, vectors, values, task.n)
        trace = values.sum() - factor * np.square(centred).sum(1)
        added = shrinkage * trace / len(values)  # to each eigenvalue, by row
        scaled = ((1 - shrinkage) * values + added[:, None]) / degrees  # (n, d)
        lost = (1 - shrinkage) * factor / degrees
        d = centred @ vectors
        inner = np.square(d) / scaled
        below = 1 - lost * inner.sum(1)
        result = np.empty((task.n, len(counts)))
        for label, mean in enumerate(means):
            mine = task.labels == label
            far = np.where(mine[:, None], factor[:, None] * d, (task.X - mean) @ vectors)
            cross = (far * d / scaled).sum(1)
            result[:, label] = (np.square(far) / scaled).sum(1) + lost * cross**2 / below
        return np.where(below[:, None] > 1e-12, -result / 2, np.nan)


class QuadraticDiscriminant(Discriminant):
    """A covariance for each class."""

    def scores(self, model: Any, task: Task, means: Floats, counts: Floats) -> Floats:
        """The log density, by the covariance without the row if it is of the class."""
        if model.scalings_[0].shape != (task.X.shape[1],) or getattr(model, "shrinkage", None):
            raise NoFormulaError("its covariances are not those of the classes")
        result, ridge = np.empty((task.n, len(counts))), model.reg_param
        for label, mean in enumerate(means):
            mine, count = task.labels == label, counts[label]
            centred = task.X[mine] - mean
            values, vectors = np.linalg.eigh(centred.T @ centred)
            whole = (1 - ridge) * values.sum() / (model.scalings_[label] - ridge).sum()
            divisor = count if ridge == 1 else round(whole)  # n or n − 1, by version
            for own, degrees in ((True, divisor - 1), (False, divisor)):
                rows = mine if own else ~mine
                scaled = (1 - ridge) * values / degrees + ridge
                if scaled.min() < 1e-10 * scaled.max():
                    raise NoFormulaError("a covariance has no inverse")
                far = (task.X[rows] - mean) @ vectors
                inner = (np.square(far) / scaled).sum(1)
                logs = np.log(scaled).sum()
                if own:
                    factor = count / (count - 1)
                    below = 1 - (1 - ridge) * factor / degrees * inner
                    with np.errstate(invalid="ignore", divide="ignore"):
                        inner, logs = factor**2 * inner / below, logs + np.log(below)
                result[rows, label] = -(inner + logs) / 2
        return result


def _lost_degrees(model: Any, means: Floats, vectors: Floats, values: Floats, n: int) -> float:
    """What the divisor of the covariance is less than n: by solver and version 0 or K."""
    if model.solver != "svd":
        return 0.0
    coefficients = (means - model.priors_ @ means) @ vectors / values @ vectors.T
    if len(means) == 2:
        coefficients = coefficients[1:] - coefficients[:1]
    divisor = (coefficients * model.coef_).sum() / np.square(coefficients).sum()
    return float(n - round(divisor))


def _shrinkage(model: Any) -> float:
    """The share of the covariance that is replaced by a multiple of the identity."""
    if model.covariance_estimator is not None or isinstance(model.shrinkage, str):
        raise NoFormulaError("its shrinkage is estimated")
    if model.solver != "svd" and model.priors is not None:
        raise NoFormulaError("its covariance depends on given priors")
    return float(model.shrinkage or 0.0)
