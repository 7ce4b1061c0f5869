"""Copies that leave rows out, trained beside a model that another library trains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from decoupled_descent.integrations.same_optimizer import follow, same_optimizer, unwrapped
from decoupled_descent.networks.folds.cross_fit import CrossFit
from decoupled_descent.networks.folds.record import Epoch
from decoupled_descent.networks.folds.run import CrossFitRun
from decoupled_descent.networks.folds.training import Batch
from decoupled_descent.networks.row_losses import Criterion


class FoldsBeside:
    """Stacked folds beside a training that somebody else's loop makes.

    The loop trains its model on all rows, as it would without this. It calls :meth:`batch` with
    every batch and :meth:`step` before every step of its optimiser. Then each copy, which leaves
    out the rows of its fold, makes the step that the model makes: with an optimiser of the same
    kind, and its learning rates of this step. The random numbers of the loop stay as they are.

    Args:
        model: The model at the start. It must not have been trained with these rows before, which
            is checked.
        criterion: A loss that is a mean over rows, of the model's outputs and the labels.
        optimizer: The optimiser of the loop.
        labels: The labels of all rows, in the order of the row numbers.
        folds: K; "loo" for leave-one-out; or the fold of each row, from 0 on.
        groups: A label for each row; rows of one group are in one fold.
        seed: Chooses the folds, and draws dropout of the copies.
        independent_start: Say that the weights of the model do not come from these rows.
        transformed: Whether the labels of batches may differ from ``labels`` (mixup).

    Example:
        >>> X, y = torch.randn(60, 3), torch.arange(60) % 2
        >>> model, criterion = nn.Linear(3, 2), nn.CrossEntropyLoss()
        >>> optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        >>> beside = FoldsBeside(model, criterion, optimizer, y, folds=5)
        >>> for rows in torch.randperm(60).split(20):
        ...     optimizer.zero_grad()
        ...     criterion(model(X[rows]), y[rows]).backward()
        ...     beside.batch(X[rows], y[rows], rows)
        ...     beside.step()
        ...     optimizer.step()
        >>> epoch = beside.evaluate(X, y)  # .error, .stderr
        >>> accuracy = beside.run().estimate("accuracy")
    """

    def __init__(
        self,
        model: nn.Module,
        criterion: Criterion,
        optimizer: Any,
        labels: Tensor,
        *,
        folds: Any = 10,
        groups: Any = None,
        seed: int = 0,
        independent_start: bool = False,
        transformed: bool = False,
    ) -> None:
        self._optimizer = unwrapped(optimizer)
        make = same_optimizer(self._optimizer, model)
        with torch.random.fork_rng(_devices(model)):
            cross = CrossFit(model, criterion, make, folds, independent_start=independent_start)
            self.training = cross.start(labels, groups=groups, seed=seed, transformed=transformed)
        self._devices, self._seed = _devices(model), seed

    def batch(self, x: Tensor, y: Tensor, rows: Tensor, share: float = 1.0) -> None:
        """Add the gradients of a batch.

        Args:
            x: The inputs, shape (B, …).
            y: The labels, shape (B, …).
            rows: The numbers of the rows in the data, from 0 on, shape (B,).
            share: What the loss is multiplied by: 1/m where m batches make one step.
        """
        with self._own_random_numbers(), torch.enable_grad():
            (self.training.loss(x, y, rows) * share).backward()  # type: ignore[no-untyped-call]

    def step(self, clip: float | None = None) -> None:
        """Make the step of all copies; ``clip`` is the largest norm of a gradient."""
        if clip:
            self.training.clip_grad_norm_(clip)
        follow(self._optimizer, self.training.optimizers)
        self.training.update()

    def evaluate(self, X: Tensor | Iterable[Batch], y: Tensor | None = None) -> Epoch:
        """Evaluate every row by the copy that did not see it; see :class:`FoldTraining`."""
        with self._own_random_numbers():
            return self.training.evaluate(X, y)

    def run(self) -> CrossFitRun:
        """Errors, out-of-fold outputs and the model at the best epoch."""
        return self.training.run()

    @contextmanager
    def _own_random_numbers(self) -> Iterator[None]:
        self._seed += 1
        with torch.random.fork_rng(self._devices):
            torch.manual_seed(self._seed)
            yield


def _devices(model: nn.Module) -> list[torch.device]:
    device = next(model.parameters()).device
    return [device] if device.type == "cuda" else []
