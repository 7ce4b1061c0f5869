"""The nearest centroid, from which a row is taken away."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import softmax

from decoupled_descent.evaluation.families.interface import Family, LeftOut, NoFormulaError
from decoupled_descent.evaluation.kinds import PROBABILITIES
from decoupled_descent.evaluation.task import Task


class NearestCentroid(Family):
    """Euclidean distances to the means of classes."""

    def leave_out(self, model: Any, task: Task) -> LeftOut:
        """Predict every row from the means and the pooled variance without it."""
        if model.metric != "euclidean" or model.shrink_threshold or task.groups is not None:
            raise NoFormulaError("medians, shrunk centroids and whole groups are left to folds")
        X, one_hot = task.matrix, task.one_hot()
        counts = one_hot.sum(0)
        if counts.min() < 2:
            raise NoFormulaError("a class has a single row")
        means = one_hot.T @ X / counts[:, None]
        if not np.allclose(means, model.centroids_):
            raise ValueError("X and y are not the rows that the model was fitted to; pass the same")
        own = counts[task.labels]
        centred = X - means[task.labels]
        factor = (own / (own - 1))[:, None]
        lost = np.square(centred).sum(0) - factor * np.square(centred)
        spread = np.sqrt(np.maximum(lost, 0) / (task.n - 1 - len(counts)))
        spread = np.where(spread > 0, spread, 1.0)  # as scikit-learn does
        scores = np.empty((task.n, len(counts)))
        plain = np.empty_like(scores)
        for label, mean in enumerate(means):
            mine = (task.labels == label)[:, None]
            far = np.where(mine, factor * centred, X - mean)
            plain[:, label] = -np.square(far).sum(1)
            scores[:, label] = -np.square(far / spread).sum(1)
        left = np.log(model.class_prior_)[None]
        if isinstance(model.priors, str) and model.priors == "empirical":
            left = np.log((counts - one_hot) / (task.n - 1))
        said = softmax(scores + 2 * left, 1) if task.kind == PROBABILITIES else plain.argmax(1)
        return LeftOut(said, "centroids without the row", is_exact=True)
