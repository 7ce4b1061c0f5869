"""A metric of torchmetrics that has a standard error."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from decoupled_descent.evaluation.estimate import Metric as MetricOf
from decoupled_descent.evaluation.output_scale import OutputScale
from decoupled_descent.evaluation.outputs import Labels


class WithStandardError(Metric):
    """A metric of all batches together, and its jackknife standard error over rows.

    Update it with outputs for rows that the model was not trained with. It is used as every metric
    of torchmetrics is: ``self.log_dict(metric)`` in Lightning, ``MetricCollection``, several
    processes.

    Args:
        metric: "accuracy", "auc", "brier", …, a metric of torchmetrics, or a function of labels and
            predictions; see :meth:`CrossFitRun.estimate`.
        scale: What the outputs are: "logits", "log_probabilities", "probabilities" or "values".
        **options: Options of ``torchmetrics.Metric``.

    Example:
        >>> metric = WithStandardError("accuracy")
        >>> metric.update(torch.tensor([-1.0, 2.0]), torch.tensor([0, 1]))
        >>> metric.update(torch.tensor([-1.0, -3.0]), torch.tensor([1, 0]))
        >>> metric.compute()
        {'accuracy': tensor(0.7500), 'accuracy_stderr': tensor(0.1712)}
    """

    full_state_update = False

    def __init__(self, metric: MetricOf = "accuracy", scale: str = "logits", **options: Any):
        super().__init__(**options)
        self.metric, self.scale = metric, scale
        self.add_state("outputs", default=[], dist_reduce_fx="cat")
        self.add_state("labels", default=[], dist_reduce_fx="cat")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Take the outputs and labels of a batch."""
        self.outputs.append(preds.detach())
        self.labels.append(target.detach())

    def compute(self) -> dict[str, Tensor]:
        """Return the value and its standard error, by names such as "accuracy_stderr"."""
        outputs, labels = dim_zero_cat(self.outputs), dim_zero_cat(self.labels)
        rows = Labels(labels, OutputScale(self.scale))
        result = rows.evaluation(outputs).estimate(self.metric)
        return {
            result.metric: torch.tensor(result.value, device=labels.device),
            f"{result.metric}_stderr": torch.tensor(result.stderr, device=labels.device),
        }
