r"""Out-of-fold errors of all epochs, and the outputs at the epoch that the *other* folds choose.

The epoch with the lowest out-of-fold error is chosen, and the lowest of several noisy errors is a
little too low. Therefore the rows of fold k are evaluated at the epoch

.. math:: t_k = \arg\min_t \sum_{i \notin \text{fold } k} w_i \ell_i(t) ,

which their own losses did not choose. Errors and metrics of a run are those of these outputs. No
outputs of past epochs are needed: when an epoch is the best so far without fold k, the outputs of
fold k are replaced.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from decoupled_descent.evaluation.folds import FoldAssignment
from decoupled_descent.evaluation.means import mean_with_stderr


@dataclass(frozen=True, slots=True)
class Epoch:
    """What a callback is called with after an epoch.

    Attributes:
        index: How many evaluations came before; 0 is the start where :meth:`CrossFit.fit` trains.
        error: The out-of-fold error.
        stderr: Its standard error.
        fitted_error: The error of the copy that sees all rows, on these rows; not an estimate.
        test_error: Its error on the test set, or None without one.
    """

    index: int
    error: float
    stderr: float
    fitted_error: float
    test_error: float | None = None

    @property
    def train_error(self) -> float:
        """The out-of-fold error, by the name that :class:`EarlyStopping` reads."""
        return self.error

    @property
    def train_error_stderr(self) -> float:
        """The standard error, by the name that :class:`EarlyStopping` reads."""
        return self.stderr

    def __str__(self) -> str:
        return f"out-of-fold error {self.error:.4g} ± {self.stderr:.2g}"


@dataclass
class FoldRecord:
    """The epochs of a training, and the outputs that its error is computed from.

    Attributes:
        assignment: The folds.
        weights: Weights of the rows, shape (n,), or None.
        groups: Numbers of the groups, shape (n,), or None.
        epochs: One entry per evaluation.
        best: The index of the epoch with the lowest error.
        outputs: Outputs of each row by a copy that did not see it, at the epoch that the other
            folds choose, shape (n, …); zeros for rows that are never evaluated.
        losses: Their losses, shape (n,).
    """

    assignment: FoldAssignment
    weights: Tensor | None = None
    groups: Tensor | None = None
    epochs: list[Epoch] = field(default_factory=list)
    best: int = 0
    outputs: Tensor | None = None
    losses: Tensor | None = None
    _lowest: Tensor | None = None

    def add(
        self,
        outputs: Tensor,
        losses: Tensor,
        fitted: Tensor,
        last: bool = False,
        test_error: float | None = None,
    ) -> bool:
        """Take the out-of-fold outputs and losses of an epoch; return whether it is the best.

        With ``last``, every epoch counts as the best, so that nothing is chosen.
        """
        rows = self.assignment.evaluated
        error, stderr = self.error_of(losses)
        everything = mean_with_stderr(fitted, self.weights)[0]
        epoch = Epoch(len(self.epochs), error, stderr, everything, test_error)
        fold = self.assignment.fold[rows]
        weighted = losses[rows].double() * (1.0 if self.weights is None else self.weights[rows])
        sums = torch.zeros(self.assignment.count, dtype=torch.float64).index_add(0, fold, weighted)
        if self.outputs is None or self.losses is None or self._lowest is None:
            self.outputs, self.losses = outputs.clone(), losses.clone()
            self._lowest = torch.full_like(sums, math.inf)
        others = sums.sum() - sums
        if self.assignment.count == 1:
            others = sums
        chosen = torch.ones_like(others, dtype=torch.bool) if last else others < self._lowest
        self._lowest = torch.where(chosen, others, self._lowest)
        taken = rows & chosen[self.assignment.fold.clamp_min(0)]
        self.outputs[taken], self.losses[taken] = outputs[taken], losses[taken]
        first = not self.epochs
        better = last or first or not error >= self.epochs[self.best].error
        self.epochs.append(epoch)
        if better and (last or math.isfinite(error)):
            self.best = epoch.index
            return True
        return first

    def state_dict(self) -> dict[str, Any]:
        """The record so far, as tensors and numbers."""
        numbers = [
            [each.error, each.stderr, each.fitted_error]
            + ([] if each.test_error is None else [each.test_error])
            for each in self.epochs
        ]
        kept = {"outputs": self.outputs, "losses": self.losses, "lowest": self._lowest}
        return {
            "epochs": torch.tensor(numbers, dtype=torch.float64).reshape(
                len(numbers), len(numbers[0]) if numbers else 0
            ),
            "best": self.best,
            **{name: None if value is None else value.clone() for name, value in kept.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`."""
        rows, n = epochs_of(state), len(self.assignment.fold)
        kept = [state[name] for name in ("outputs", "losses", "lowest")]
        lengths = [None if value is None else len(value) for value in kept]
        if lengths != ([n, n, self.assignment.count] if rows else [None] * 3):
            raise ValueError(f"the record is of {lengths[0]} rows, and there are {n}")
        if not 0 <= state["best"] < max(1, len(rows)):
            raise ValueError(f"the best epoch is {state['best']} of {len(rows)}")
        self.outputs, self.losses, self._lowest = (
            None if value is None else value.clone() for value in kept
        )
        self.epochs, self.best = rows, state["best"]

    def error_of(self, losses: Tensor) -> tuple[float, float]:
        """The mean loss of the rows that are evaluated, and its standard error."""
        rows = self.assignment.evaluated
        weights = None if self.weights is None else self.weights[rows]
        groups = None if self.groups is None else self.groups[rows]
        return mean_with_stderr(losses[rows], weights, groups)


def epochs_of(state: Mapping[str, Any]) -> list[Epoch]:
    """The epochs of a record that was saved."""
    return [Epoch(index, *row) for index, row in enumerate(state["epochs"].tolist())]
