"""The training loop of ``CrossFit.fit``: batches, schedulers, evaluation, stopping."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.optim.lr_scheduler import ReduceLROnPlateau

from decoupled_descent.checks import outside
from decoupled_descent.descent.info import DivergenceWarning
from decoupled_descent.networks.folds.record import Epoch
from decoupled_descent.networks.folds.training import FoldTraining, Transform
from decoupled_descent.progress import progress_bar
from decoupled_descent.quiet import ignoring
from decoupled_descent.training.callbacks import StopReason, ask


@dataclass(frozen=True)
class Plan:
    """How an epoch is made of batches."""

    batch_size: int
    accumulate: int
    clip: float | None
    transform: Transform | None
    scheduler_per_batch: bool
    generator: torch.Generator  # of the batches, so that they do not depend on the model
    test: tuple[Tensor, Tensor] | None = None

    def with_features(self, features: Callable[[Tensor], Tensor]) -> Plan:
        """The same for rows that are replaced by outputs of frozen layers."""
        if self.test is None:
            return self
        return replace(self, test=(features(self.test[0]), self.test[1]))


def train(
    training: FoldTraining,
    X: Tensor,
    y: Tensor,
    epochs: int,
    plan: Plan,
    schedulers: list[Any],
    patience: int | None,
    callbacks: list[Any],
    progress: bool | None,
    save: Callable[[int], None],
) -> StopReason:
    """Train and evaluate epoch after epoch; return why it ended."""
    record, reason = training.record, StopReason.STEPS
    with progress_bar(epochs, "training", progress) as advance:
        try:
            if not record.epochs:
                ask(callbacks, cast(Any, training.evaluate(X, y, plan.test)))
            for done in range(len(record.epochs), epochs + 1):
                _one_epoch(training, X, y, plan, schedulers)
                epoch = training.evaluate(X, y, plan.test)
                advance(done, str(epoch))
                if not plan.scheduler_per_batch:
                    _move(schedulers, epoch)
                if ended := _ended(training, epoch, patience, callbacks):
                    reason = ended
                    break
                save(done - 1)
        except KeyboardInterrupt:  # the saved state stays: the next call continues it
            if not record.epochs:
                raise
            return StopReason.INTERRUPTED
    return reason


def _ended(
    training: FoldTraining, epoch: Epoch, patience: int | None, callbacks: list[Any]
) -> StopReason | None:
    """Why training ends after this epoch, or None."""
    if reason := ask(callbacks, cast(Any, epoch)):
        return reason
    if not np.isfinite(epoch.error):
        warnings.warn(
            f"the out-of-fold error is {epoch.error} after epoch {epoch.index}; a smaller learning "
            "rate or clip=1.0 may help",
            DivergenceWarning,
            stacklevel=outside(),
        )
        return StopReason.DIVERGED
    if patience is not None and epoch.index - training.record.best >= patience:
        return StopReason.RISING
    return None


def replay(schedulers: list[Any], epochs: list[Epoch], plan: Plan, n: int) -> None:
    """Move schedules as they were moved in these epochs."""
    with ignoring(UserWarning):  # about optimisers that have not made a step
        for epoch in epochs:
            if plan.scheduler_per_batch:
                for _ in range(ceil(ceil(n / plan.batch_size) / plan.accumulate)):
                    _move(schedulers, None)
            else:
                _move(schedulers, epoch)


def _one_epoch(
    training: FoldTraining, X: Tensor, y: Tensor, plan: Plan, schedulers: list[Any]
) -> None:
    """Use every row once, in batches in random order."""
    order = torch.randperm(len(X), generator=plan.generator)
    batches = torch.split(order, plan.batch_size)
    for place, rows in enumerate(batches, start=1):
        batch = X[rows.to(X.device)], y[rows.to(y.device)], rows
        if plan.transform is not None:
            batch = training.transformed(plan.transform, *batch)
        (training.loss(*batch) / plan.accumulate).backward()  # type: ignore[no-untyped-call]
        if place % plan.accumulate and place < len(batches):
            continue
        if plan.clip is not None:
            training.clip_grad_norm_(plan.clip)
        training.update()
        if plan.scheduler_per_batch:
            _move(schedulers, None)


def _move(schedulers: list[Any], epoch: Epoch | None) -> None:
    for scheduler in schedulers:
        if isinstance(scheduler, ReduceLROnPlateau) and epoch is not None:
            scheduler.step(epoch.error)
        else:
            scheduler.step()
