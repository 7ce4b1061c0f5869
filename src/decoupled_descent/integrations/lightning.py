"""A callback for Lightning: the out-of-fold error of a model while the ``Trainer`` trains it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import lightning.pytorch as pl
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from decoupled_descent.integrations.beside import FoldsBeside
from decoupled_descent.networks.folds.run import CrossFitRun
from decoupled_descent.networks.folds.training import AT_ONCE, Batch
from decoupled_descent.networks.row_losses import Criterion


class CrossFitCallback(pl.Callback):
    """Logs an honest test error after every epoch, without a validation split.

    Copies of the module, each without the rows of one fold, are trained beside it by the same
    batches, optimiser, schedule, accumulation and clipping. The module itself is trained on all
    rows, exactly as without the callback. ``out_of_fold_error`` and ``out_of_fold_stderr`` are
    logged, so that ``EarlyStopping`` and ``ModelCheckpoint`` can monitor them; put this callback
    before theirs.

    The data set must say which row is which: batches are ``(x, y, rows)``, as those of
    ``TensorDataset(X, y, torch.arange(len(X)))``, or ``split`` makes that of them.

    Args:
        criterion: A loss that is a mean over rows, of ``module(x)`` and y, as in its training step.
        folds: K; "loo" for leave-one-out; or the fold of each row, from 0 on.
        groups: A label for each row; rows of one group are in one fold.
        split: A function of a batch that returns inputs, labels and row numbers.
        seed: Chooses the folds, and draws dropout of the copies.
        independent_start: Say that the weights of the module do not come from these rows. Without
            it, a module that already predicts their labels, such as one that an earlier ``fit``
            trained, is not trusted.
        transformed: Whether the labels of batches may differ from those of the data set (mixup).

    Attributes:
        beside: The copies in training.
    """

    def __init__(
        self,
        criterion: Criterion,
        folds: Any = 10,
        *,
        groups: Any = None,
        split: Callable[[Any], Batch] = tuple,
        seed: int = 0,
        independent_start: bool = False,
        transformed: bool = False,
    ) -> None:
        self.given = {"independent_start": independent_start, "transformed": transformed}
        self.criterion, self.folds, self.groups, self.seed = criterion, folds, groups, seed
        self.split = split
        self.beside: FoldsBeside | None = None

    @property
    def run(self) -> CrossFitRun:
        """The errors, the out-of-fold outputs and the model at the best epoch."""
        if self.beside is None:
            raise ValueError("nothing was trained; call trainer.fit(…) before run")
        return self.beside.run()

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Make the copies."""
        _check(trainer)
        labels, numbers = [], []
        with torch.random.fork_rng([]):  # a loader draws a random number, needed or not
            for _, y, rows in self._all_rows(trainer):
                labels.append(y)
                numbers.append(rows)
        rows = torch.cat(numbers)
        if not torch.equal(rows.sort().values, torch.arange(len(rows))):
            raise ValueError(
                f"the data set has rows {int(rows.min())} to {int(rows.max())} in {len(rows)} "
                "entries; number its rows from 0 on, each once"
            )
        self.beside = FoldsBeside(
            pl_module,
            self.criterion,
            trainer.optimizers[0],
            torch.cat(labels)[rows.argsort()],
            folds=self.folds,
            groups=self.groups,
            seed=self.seed,
            **self.given,
        )

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Add the gradients of the copies."""
        assert self.beside is not None
        self.beside.batch(*_three(self.split(batch)), share=1 / trainer.accumulate_grad_batches)

    def on_before_optimizer_step(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: Any
    ) -> None:
        """Make the step that the module is about to make."""
        assert self.beside is not None
        self.beside.step(clip=trainer.gradient_clip_val)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Evaluate every row by the copy that did not see it."""
        assert self.beside is not None
        epoch = self.beside.evaluate(self._all_rows(trainer))
        self.log("out_of_fold_error", epoch.error, prog_bar=True)
        self.log("out_of_fold_stderr", epoch.stderr)

    def _all_rows(self, trainer: pl.Trainer) -> Iterator[Batch]:
        """All rows in their order."""
        loader: Any = trainer.train_dataloader
        ordered: Any = DataLoader(loader.dataset, AT_ONCE, collate_fn=loader.collate_fn)
        for batch in ordered:
            yield _three(self.split(batch))


def _three(batch: Any) -> Batch:
    """Inputs, labels and row numbers, after checking that they are these."""
    if len(batch) != 3 or not all(isinstance(part, Tensor) for part in batch):
        raise ValueError(
            f"a batch has {len(batch)} parts; it must be (x, y, rows), where rows are the numbers "
            "of the rows in the data set. Use TensorDataset(X, y, torch.arange(len(X))), or split="
        )
    x, y, rows = batch
    return x, y, rows.cpu()


def _check(trainer: pl.Trainer) -> None:
    """Refuse what the copies cannot follow."""
    if trainer.global_step:
        raise ValueError(
            f"training continues after step {trainer.global_step}: its weights have seen all rows, "
            "and so would the copies. Train from the start"
        )
    if len(trainer.optimizers) != 1:
        raise ValueError(f"the module has {len(trainer.optimizers)} optimisers; use one")
    if trainer.world_size > 1:
        raise ValueError(
            f"the trainer has {trainer.world_size} processes, and the copies need all rows in one; "
            "use devices=1"
        )
    if trainer.gradient_clip_val and trainer.gradient_clip_algorithm == "value":
        raise ValueError("gradient_clip_algorithm='value' is not known to the copies; use 'norm'")
