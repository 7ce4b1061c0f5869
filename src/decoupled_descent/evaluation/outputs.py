"""Outputs of networks with the labels of their rows, as an evaluation."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from decoupled_descent.evaluation.evaluation import Evaluation
from decoupled_descent.evaluation.output_scale import OutputScale

#: Losses agree with the loss of the kind of predictions to this part, in float32.
AGREEMENT = 1e-4


class Labels(NamedTuple):
    """The labels of the rows whose outputs a run has."""

    y: Tensor
    scale: OutputScale
    weights: Tensor | None = None
    groups: Tensor | None = None

    def evaluation(
        self, outputs: Tensor, losses: Tensor | None = None, **others: Any
    ) -> Evaluation:
        """The evaluation of outputs for these rows.

        Args:
            outputs: Outputs of each row by a model that did not see it, shape (n,) or (n, K).
            losses: The losses of these outputs, shape (n,), if they are those of a criterion of
                one's own.
            others: Further attributes of the evaluation.
        """
        predictions, kind = self.scale.predictions(outputs, self.y)
        labels = as_labels(self.y, self.scale)
        if losses is not None:
            own = np.asarray(losses.detach().cpu().double())
            usual = kind.losses(labels, predictions) if np.ndim(labels) == np.ndim(self.y) else own
            same = np.allclose(own, usual, AGREEMENT, AGREEMENT * max(1e-3, abs(usual).mean()))
            others |= {"losses": own, "loss": kind.metric if same else ""}
        if self.weights is not None:
            others["weights"] = np.asarray(self.weights.cpu().double())
        if self.groups is not None:
            codes = np.unique(np.asarray(self.groups.cpu()), return_inverse=True)[1]
            others["groups"] = codes.reshape(-1)
        return Evaluation.of(labels, predictions, kind, **others)


def as_labels(y: Tensor, scale: OutputScale) -> Any:
    """Labels as an array, classes as integers."""
    result = np.asarray(y.detach().cpu())
    result = result[:, 0] if result.ndim == 2 and result.shape[1] == 1 else result
    whole = scale.classifies and np.array_equal(result, np.round(result))
    return result.astype(np.int64) if whole else result.astype(np.float64)
