"""Outputs and labels as evaluations."""

from __future__ import annotations

import numpy as np

from decoupled_descent.evaluation.evaluation import Evaluation
from decoupled_descent.evaluation.kinds import NUMBERS
from decoupled_descent.evaluation.output_scale import OutputScale
from decoupled_descent.evaluation.outputs import Labels


def evaluation(y, outputs, scale="logits", *, sample_weight=None, groups=None, folds=None):
    """Standard errors are those of the losses that occurred."""
    models = None if folds is None else np.asarray(folds)
    labels = Labels(y, OutputScale(scale), sample_weight, groups)
    return labels.evaluation(outputs, variance=0.0, models=models)


def estimate(metric, y, outputs, scale="logits", *, blocks=200, **options):
    return evaluation(y, outputs, scale, **options).estimate(metric, blocks)


def quiet(n=100, **options):
    """An evaluation in which no check finds a problem, with a standard error of 0.03."""
    values = np.linspace(0, 1, n)
    losses = 0.5 + 0.03 * np.sqrt(n) * (values - values.mean()) / values.std(ddof=1)
    given = {"losses": losses, "variance": 0.0} | options
    return Evaluation.of(values, values, NUMBERS, **given)


__all__ = ["estimate", "evaluation", "quiet"]
