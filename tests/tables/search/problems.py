"""The evaluation of a search on its own scale, as estimators make it in their units."""

import numpy as np

from decoupled_descent.evaluation import Evaluation
from decoupled_descent.evaluation.kinds import NUMBERS, PROBABILITIES


def evaluated(result):
    """Cross-fitted predictions of the rows with their losses."""
    rows, loss = result.best.rows, result.objective.loss
    weights = None if rows.weights is None else rows.weights.numpy()
    groups = None if rows.groups is None else rows.groups.numpy()
    classes = loss.classes(rows.y)
    labels = rows.y.numpy() if classes is None else classes.numpy()
    predictions = np.asarray(result.predictions)
    predictions = predictions[:, 0] if classes is None and labels.ndim == 1 else predictions
    return Evaluation.of(
        labels, predictions, NUMBERS if classes is None else PROBABILITIES,
        losses=result.losses.numpy(), weights=weights, groups=groups, pairs=result.pairs,
    )  # fmt: skip
