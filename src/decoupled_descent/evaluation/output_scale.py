"""What the outputs of a network are: logits, probabilities, their logarithms, or values."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from decoupled_descent.evaluation.kinds import ANSWERS, NUMBERS, PROBABILITIES, Kind
from decoupled_descent.objective.losses import LOSSES, Loss

Floats = NDArray[np.float64]

#: Criteria whose outputs are no plain values.
LOGITS = (nn.CrossEntropyLoss, nn.BCEWithLogitsLoss, nn.SoftMarginLoss)
LOGIT_FUNCTIONS = (F.cross_entropy, F.binary_cross_entropy_with_logits, F.soft_margin_loss)


class OutputScale(Enum):
    """What the outputs of a network are."""

    LOGITS = "logits"
    LOG_PROBABILITIES = "log_probabilities"
    PROBABILITIES = "probabilities"
    VALUES = "values"

    @classmethod
    def of(cls, criterion: Any, y: Tensor) -> OutputScale:
        """Return the scale that a criterion takes; labels that are integers mean logits.

        Args:
            criterion: A name, a :class:`Loss`, or a criterion of PyTorch.
            y: The labels.
        """
        if isinstance(criterion, str) and criterion in LOSSES:
            criterion = LOSSES[criterion]
        if isinstance(criterion, Loss):
            if criterion.builtin:
                return cls.LOGITS if criterion.binary or criterion.categorical else cls.VALUES
            criterion = criterion.value
        if isinstance(criterion, LOGITS) or criterion in LOGIT_FUNCTIONS:
            return cls.LOGITS
        if isinstance(criterion, nn.NLLLoss) or criterion is F.nll_loss:
            return cls.LOG_PROBABILITIES
        if isinstance(criterion, nn.BCELoss) or criterion is F.binary_cross_entropy:
            return cls.PROBABILITIES
        return cls.VALUES if y.is_floating_point() else cls.LOGITS

    @property
    def classifies(self) -> bool:
        """Whether outputs are probabilities of classes in some form."""
        return self is not OutputScale.VALUES

    def predictions(self, outputs: Tensor, y: Tensor) -> tuple[Floats, Kind]:
        """Probabilities of all classes (n, K), of several answers (n, m), or numbers, in float64.

        Returns:
            The predictions, and what they are.
        """
        result = outputs.detach().cpu().double()
        result = result.squeeze(-1) if result.ndim > 1 and result.shape[-1] == 1 else result
        answers = y.ndim == result.ndim and result.ndim > 1  # several for each row
        result = _PROBABILITIES[self](result, answers)
        if not self.classifies:
            return np.asarray(result), NUMBERS
        if answers:
            return np.asarray(result), ANSWERS
        if result.ndim == 1:
            result = torch.stack([1 - result, result], 1)
        return np.asarray(result), PROBABILITIES


def _of_logits(outputs: Tensor, apart: bool) -> Tensor:
    return torch.sigmoid(outputs) if apart or outputs.ndim == 1 else torch.softmax(outputs, 1)


_PROBABILITIES: dict[OutputScale, Callable[[Tensor, bool], Tensor]] = {
    OutputScale.LOGITS: _of_logits,
    OutputScale.LOG_PROBABILITIES: lambda outputs, _: outputs.exp(),
    OutputScale.PROBABILITIES: lambda outputs, _: outputs,
    OutputScale.VALUES: lambda outputs, _: outputs,
}
