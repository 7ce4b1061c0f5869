"""Metrics of torchmetrics as functions of labels and predictions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch


def as_function(metric: Any) -> tuple[str, Callable[..., float]] | None:
    """The name of a metric of torchmetrics, and a function of labels and predictions.

    Both classes and functions of the library are taken. For anything else, return None. The library
    is not imported: who has a metric of it has imported it.
    """
    library = sys.modules.get("torchmetrics")
    if library is None:
        return None
    if isinstance(metric, type) and issubclass(metric, library.Metric):
        raise ValueError(f"metric={metric.__name__} is a class; give {metric.__name__}(…)")
    if isinstance(metric, library.Metric):
        return type(metric).__name__, lambda y, p, **named: _of_object(metric, y, p, **named)
    if (getattr(metric, "__module__", None) or "").startswith("torchmetrics.functional"):
        name = metric.__name__
        several = name.startswith("multiclass")
        return name, lambda y, p, **named: _number(
            name, metric(*_tensors(name, y, p, named, several))
        )
    return None


def _of_object(metric: Any, labels: Any, predictions: Any, **named: Any) -> float:
    """Compute a metric without changing what the user's object has collected."""
    name, own = type(metric).__name__, metric.clone()
    own.reset()
    several = getattr(metric, "num_classes", None) is not None
    own.update(*_tensors(name, labels, predictions, named, several))
    return _number(name, own.compute())


def _tensors(
    name: str, labels: Any, predictions: Any, named: Any, several: bool
) -> tuple[Any, Any]:
    """Predictions and labels; of two classes both probabilities (``several``), or the second."""
    if named:
        raise ValueError(
            f"metric={name} of torchmetrics takes no weights of rows, which this run has; give a "
            "name such as 'accuracy', or a function of sklearn.metrics"
        )
    two = predictions.ndim == 2 and labels.ndim == 1 and predictions.shape[1] == 2
    given = predictions[:, 1] if two and not several else predictions
    return torch.as_tensor(given), torch.as_tensor(labels)


def _number(name: str, value: Any) -> float:
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        kind = tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
        raise ValueError(
            f"metric={name} returned {kind}; it must return one number (average='macro'?)"
        )
    return float(value)
