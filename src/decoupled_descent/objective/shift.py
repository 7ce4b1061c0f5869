"""Training for a shift of the label frequencies."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from decoupled_descent.objective.objective import Objective


class LabelWeighted:
    """A loss times a weight that depends on the label."""

    def __init__(self, objective: Objective, weights: Mapping[float, float]) -> None:
        self.loss, self.weights = objective.loss, dict(weights)

    def __repr__(self) -> str:
        """Name the loss and the weights."""
        return f"LabelWeighted({self.loss.name!r}, {self.weights})"

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return w(y) ℓ(u, y), row by row; a label without w has the w of the nearest one."""
        labels, weights = (
            torch.tensor(list(part), dtype=outputs.dtype, device=outputs.device)
            for part in (self.weights.keys(), self.weights.values())
        )
        nearest = (y.to(labels).unsqueeze(-1) - labels).abs().argmin(-1)
        return weights[nearest] * self.loss.of(outputs, y)


def label_shift(
    objective: Objective, before: Mapping[float, float], after: Mapping[float, float]
) -> Objective:
    r"""Weight rows so that errors are those under other frequencies of the labels.

    .. math:: \Psi_w(h, y, a) = \frac{p_{\text{after}}(y)}{p_{\text{before}}(y)}\,\Psi(h, y, a)

    If the distribution of rows given their label stays the same and only the frequencies of the
    labels change, then the mean of Ψ_w before the shift is the mean of Ψ after it. Ψ_w is a
    function of single rows, so the train error of decoupled descent with Ψ_w estimates the test
    error after the shift.

    Args:
        objective: Ψ.
        before: The frequency of every label among the training rows, by label.
        after: The frequency of every label where the model will be used.

    Returns:
        Ψ_w, for :func:`fit` and everything else that takes an objective.

    Example:
        >>> import decoupled_descent as dd
        >>> objective = dd.Objective(dd.heads.Linear(), "logistic")
        >>> shifted = dd.objective.label_shift(
        ...     objective, {0.0: 0.5, 1.0: 0.5}, {0.0: 0.9, 1.0: 0.1}
        ... )
        >>> shifted.losses(torch.zeros(2, 1), torch.tensor([0.0, 1.0]), {})
        tensor([1.2477, 0.1386])
    """
    if before.keys() != after.keys() or not before:
        raise ValueError(
            f"before has labels {sorted(before)} and after {sorted(after)}; they must be the same"
        )
    for name, shares in (("before", before), ("after", after)):
        total = sum(shares.values())
        if min(shares.values()) < 0 or abs(total - 1) > 1e-6:
            raise ValueError(f"{name} sums to {total:g}; it must be frequencies that sum to 1")
    if min(before.values()) <= 0:
        raise ValueError("a label of frequency 0 in before cannot be weighted; collect rows of it")
    weights = {label: after[label] / share for label, share in before.items()}
    return Objective(
        objective.head,
        LabelWeighted(objective, weights),
        width=objective.declared_width,
        curvature="auto" if objective.curvature == "structured" else objective.curvature,
    )
