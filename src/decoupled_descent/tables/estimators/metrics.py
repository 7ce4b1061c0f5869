"""Any metric of the leave-one-out predictions of an estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.evaluation.estimate import Estimate, Metric
from decoupled_descent.evaluation.evaluation import Evaluation
from decoupled_descent.evaluation.kinds import NUMBERS, PROBABILITIES
from decoupled_descent.evaluation.output_scale import OutputScale


def estimate_metric(
    metric: Metric,
    labels: NDArray[Any],
    predictions: NDArray[np.floating[Any]],
    scale: OutputScale,
    sample_weight: Any = None,
    groups: Any = None,
    folds: NDArray[np.int64] | None = None,
) -> Estimate:
    """Compute a metric of out-of-sample predictions, with a jackknife standard error.

    Args:
        metric: A name or a function, see :func:`~decoupled_descent.evaluation.estimate.estimate`.
        labels: Class indices, or numbers, shape (n,).
        predictions: Probabilities of all classes, (n, K), or numbers, (n,).
        scale: Which of the two.
        sample_weight: Weights of ``fit``.
        groups: Groups of ``fit``.
        folds: Rows that were predicted by the same mixture have the same number.
    """
    if len(labels) != len(predictions):
        raise ValueError(
            f"y has {len(labels)} labels but the model was trained on {len(predictions)} rows; "
            "pass the labels of fit"
        )
    if scale.classifies and predictions.ndim == 2 and predictions.shape[1] == 2:
        predictions = predictions[:, 1]
    if scale.classifies and predictions.ndim == 1:
        predictions = np.stack([1 - predictions, predictions], 1)
    codes = None if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    return Evaluation.of(
        np.asarray(labels),
        np.asarray(predictions, np.float64),
        PROBABILITIES if scale.classifies else NUMBERS,
        weights=None if sample_weight is None else np.asarray(sample_weight, np.float64),
        groups=None if codes is None else codes.reshape(-1),
        models=folds,
        variance=0.0,
    ).estimate(metric)
