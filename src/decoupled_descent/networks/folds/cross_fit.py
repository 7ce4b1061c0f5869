"""``CrossFit``: a network and copies of it that leave rows out, trained at once."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from decoupled_descent.checks import real_number, whole_number
from decoupled_descent.evaluation.folds import assign_folds, classes_of
from decoupled_descent.networks.agreement import MOST_WORK, NEXT, copies, head_rise, nearest_rows
from decoupled_descent.networks.folds.checkpoint import FoldCheckpoint
from decoupled_descent.networks.folds.copy_optimizers import MakeOptimizer, check_make
from decoupled_descent.networks.folds.loop import Plan, replay, train
from decoupled_descent.networks.folds.record import Epoch
from decoupled_descent.networks.folds.run import CrossFitRun
from decoupled_descent.networks.folds.training import FoldTraining, Transform
from decoupled_descent.networks.frozen import Frozen, split_frozen
from decoupled_descent.networks.given import (
    given_rows,
    labels_for,
    new_rows,
    one_per_row,
    unwrapped_module,
)
from decoupled_descent.networks.last_layer import last_features
from decoupled_descent.networks.row_losses import Criterion, RowLosses
from decoupled_descent.rows.tensors import as_tensor, check_finite
from decoupled_descent.training.callbacks import StopReason, as_callbacks
from decoupled_descent.training.checkpoint import Checkpoint, continued, resumable

MakeScheduler = Callable[[Any], Any]
EpochCallback = Callable[[Epoch], Any]


@dataclass(frozen=True)
class CrossFit:
    r"""Train a network together with copies that leave rows out, with any optimiser.

    The rows are divided into K folds. Copy k = 1, …, K is trained without fold k, copy K + 1 with
    all rows:

    .. math:: w_k \leftarrow \text{optimiser}\left(w_k,\; \nabla \sum_{i \in \text{batch}
              \setminus \text{fold } k} \ell_i(w_k) / |\text{batch} \setminus \text{fold } k|
              \right), \qquad
              \text{error} = \frac1n \sum_i \ell_i(w_{k(i)}) .

    All copies start equal, get the same batches and make the same number of steps. Their weights
    are one tensor with one more axis, so small networks cost little more than one. Dropout is drawn
    for each copy. Where rows of a batch influence each other (batch normalisation), and where
    ``torch.vmap`` does not take a module (LSTM), the copies are computed one after the other, each
    with its own rows of the batch only; its running statistics are its own.

    Args:
        model: Any module whose outputs for a batch have one entry per row. It is not changed.
        criterion: A loss that is a mean over rows, such as ``nn.CrossEntropyLoss()``; or a name
            such as ``"logistic"``.
        optimizer: A function of parameters that makes an optimiser. Stacked parameters have one
            more axis at the front. Optimisers that treat entries alone (SGD, Adam, AdamW) are
            made once. Others (Muon, Adafactor) are made for each copy. LBFGS is refused.
        folds: K; "loo" for leave-one-out; or the fold of each row, from 0 on.
        together: Whether all copies are computed at once; by default wherever that is right.
        independent_start: Say that the weights of the model do not come from these rows. Without
            it, a model that already predicts their labels is not trusted.

    Example:
        >>> import decoupled_descent as dd
        >>> X, y = dd.mixtures.xor(dimension=10, snr=4.0).sample(200, seed=0)
        >>> model = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 1))
        >>> cross = CrossFit(
        ...     model, nn.BCEWithLogitsLoss(), lambda p: torch.optim.AdamW(p, lr=0.01), folds=5
        ... )
        >>> run = cross.fit(X, (y > 0).float(), epochs=3)
        >>> run.out_of_fold_error.shape, run.outputs.shape
        (torch.Size([4]), torch.Size([200]))
        >>> accuracy = run.estimate("accuracy")  # .value, .stderr, .interval
        >>> model = run.to_module()  # trained on all rows
    """

    model: nn.Module
    criterion: Criterion
    optimizer: MakeOptimizer
    folds: Any = 10
    together: bool | None = None
    independent_start: bool = False

    def __post_init__(self) -> None:
        """Check the arguments."""
        object.__setattr__(self, "model", unwrapped_module(self.model))
        RowLosses(self.criterion)
        check_make(self.optimizer)

    def start(
        self,
        y: Any,
        *,
        groups: Any = None,
        time: Any = None,
        sample_weight: Any = None,
        seed: int = 0,
        best: bool = True,
        transformed: bool = False,
    ) -> FoldTraining:
        """Make the folds and the copies, for a training loop of one's own.

        ::

              cross = dd.CrossFit(model, criterion, make_optimizer, folds=10).start(labels)
              for epoch in range(epochs):
            -     for x, y in loader:
            -         optimizer.zero_grad()
            -         criterion(model(x), y).backward()
            -         optimizer.step()
            +     for x, y, rows in loader:  # TensorDataset(X, labels, torch.arange(len(X)))
            +         cross.step(x, y, rows)
            +     print(cross.evaluate(X, labels))
            + run = cross.run()

        Args:
            y: The labels of all rows, in the order of the row numbers.
            groups: A label for each row; rows of one group are in one fold.
            time: A number for each row; copies see earlier folds only. See ``assign_folds``.
            sample_weight: A weight for each row, in training and in the error.
            seed: Chooses the folds.
            best: Whether the run is that of the best epoch, else of the last.
            transformed: Whether the labels of batches may differ from y (mixup). Otherwise they
                are compared, which shows wrong row numbers.

        Returns:
            The training.
        """
        labels = one_per_row("y", labels_for(self.criterion, y))
        n = len(labels)
        if n < 2:
            raise ValueError(f"y has {n} rows; give at least 2")
        assignment = assign_folds(
            n, self.folds, classes=classes_of(labels), groups=groups, time=time, seed=seed
        )
        codes = None
        if groups is not None:
            values = groups.cpu() if isinstance(groups, Tensor) else groups
            codes = torch.from_numpy(np.unique(values, return_inverse=True)[1])
        return FoldTraining(
            self.model,
            self.criterion,
            self.optimizer,
            assignment,
            labels,
            sample_weight=_weights(sample_weight, n),
            groups=codes,
            together=self.together,
            keep_best=best,
            independent_start=self.independent_start,
            transformed=transformed,
        )

    def fit(
        self,
        X: Any,
        y: Any,
        epochs: int = 100,
        batch_size: int = 32,
        *,
        scheduler: MakeScheduler | None = None,
        scheduler_per_batch: bool = False,
        transform: Transform | None = None,
        clip: float | None = None,
        accumulate: int = 1,
        groups: Any = None,
        time: Any = None,
        sample_weight: Any = None,
        patience: int | None = None,
        test: tuple[Any, Any] | None = None,
        callbacks: EpochCallback | Iterable[EpochCallback] = (),
        best: bool = True,
        seed: int = 0,
        progress: bool | None = None,
        checkpoint: str | Path | Checkpoint | None = None,
    ) -> CrossFitRun:
        """Train, and evaluate all rows after every epoch.

        Args:
            X: Inputs of any shape that the model takes, shape (n, …).
            y: Labels as the criterion takes them, shape (n, …).
            epochs: How often every row is used.
            batch_size: Rows per step; copy k uses those that are not in its fold.
            scheduler: A function of an optimiser that makes a learning rate scheduler.
            scheduler_per_batch: Whether it moves after each step, not after each epoch.
            transform: A function of inputs and labels of some rows that returns as many, such as
                augmentation or mixup (with labels as probabilities). It gets the rows of each fold
                apart, so what it mixes never reaches a copy that leaves a part of it out.
            clip: The largest norm of the gradient of a copy.
            accumulate: How many batches make one step.
            groups: A label for each row; rows of one group are in one fold.
            time: A number for each row; copies see earlier folds only.
            sample_weight: A weight for each row, in training and in the error.
            patience: Stop when so many epochs in a row have no lower out-of-fold error.
            test: ``(X_test, y_test)``: its error is recorded, and used for nothing else.
            callbacks: Functions of an :class:`Epoch`; what is true stops the training.
            best: Whether the run is that of the best epoch, else of the last.
            seed: Makes folds, batches, dropout and random transforms reproducible.
            progress: Whether to draw a bar; by default on a terminal.
            checkpoint: A folder, or a :class:`Checkpoint`, to save the training in while it goes
                on. The same call continues it, bit for bit on the same machine.

        Returns:
            The run. Ctrl-C ends the training with what was reached.
        """
        X, y, model = given_rows(X, y, self.model)
        X, y = one_per_row("X", X), one_per_row("y", labels_for(self.criterion, y))
        dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), X.dtype)
        X, y = (each.to(dtype) if each.is_floating_point() else each for each in (X, y))
        if len(X) != len(y):
            raise ValueError(f"X has {len(X)} rows and y {len(y)}; give the same number")
        check_finite("X", X)
        check_finite("y", y)
        whole_number("epochs", epochs)
        if clip is not None and real_number("clip", clip) <= 0:
            raise ValueError(f"clip={clip!r} must be above 0")
        if patience is not None:
            whole_number("patience", patience)
        plan = Plan(
            whole_number("batch_size", batch_size),
            whole_number("accumulate", accumulate),
            clip,
            transform,
            scheduler_per_batch,
            torch.Generator().manual_seed(seed),
            None if test is None else new_rows(test, model),
        )
        asked = {"cross_fit": self, "X": X, "y": y, "epochs": epochs, "plan": plan, "best": best}
        asked |= {"scheduler": scheduler, "patience": patience, "seed": seed}
        same = replace(self, model=model)
        frozen = None if transform is not None else same._frozen()
        if frozen is not None:
            same, X = replace(same, model=frozen.rest), frozen.features(X)
            plan = plan.with_features(frozen.features)
        device = next(self.model.parameters()).device
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            training = same.start(
                y, groups=groups, time=time, sample_weight=sample_weight, seed=seed, best=best
            )
            calls: list[Any] = list(as_callbacks(cast(Any, callbacks)))
            schedulers = [] if scheduler is None else list(map(scheduler, training.optimizers))
            asked |= {"callbacks": resumable(calls), "record": training.record}
            moved = lambda epochs: replay(schedulers, epochs, plan, len(X))  # noqa: E731
            state = FoldCheckpoint(training, plan.generator, calls, X, moved)
            with continued(checkpoint, asked, [state]) as save:
                if state.reason is None:
                    options = (schedulers, patience, calls, progress, save)
                    state.reason = train(training, X, y, epochs, plan, *options)
                    if state.reason is not StopReason.INTERRUPTED:
                        save(None)
        run = replace(training.run(state.reason), frozen=frozen)
        return replace(run, resemblance=_resemblance(X, run, RowLosses(self.criterion)))

    def _frozen(self) -> Frozen | None:
        """The layers at the beginning that never change, in the mode in which they are trained."""
        model = self.model if self.model.training else copy.deepcopy(self.model).train()
        return split_frozen(model)


def _resemblance(X: Tensor, run: CrossFitRun, losses: RowLosses) -> dict[str, float]:
    """Copies and nearest rows in other folds; nothing where it takes long.

    ``X`` are the rows as the copies get them.
    """
    rows, outputs = run.record.assignment.evaluated, torch.as_tensor(run.record.outputs)
    if outputs.ndim > 2 or X.numel() * len(X) > MOST_WORK or not bool(outputs.isfinite().all()):
        return {}
    fold, y = run.record.assignment.fold[rows], run.labels[rows]
    X = X[rows.to(X.device)]
    slopes = losses.slopes(outputs[rows], y)
    near = nearest_rows(X.cpu(), fold)
    found = copies(slopes, near)
    if run.record.groups is not None or len(y) <= NEXT.stop:
        return found
    model = run.stack.module(run.record.assignment.count, run.weights)
    features, fitted = last_features(model, X)
    if features is None or not bool(fitted.isfinite().all()):
        return found
    fitted = fitted.cpu().to(outputs)
    gap = float((losses(outputs[rows], y) - losses(fitted, y)).double().mean())
    roots = losses.roots(fitted, y)
    rise = head_rise(features, roots, slopes, losses.slopes(fitted, y), max(0.0, gap), near)
    return {**found, "rise_in_folds": rise}


def _weights(values: Any, n: int) -> Tensor | None:
    """Weights of rows in float64."""
    if values is None:
        return None
    result = as_tensor("sample_weight", values).cpu().double()
    if result.shape != (n,) or not bool((result >= 0).all()) or not bool(result.isfinite().all()):
        raise ValueError(
            f"sample_weight has shape {tuple(result.shape)}; give {n} numbers of at least 0"
        )
    if not bool((result > 0).any()):
        raise ValueError("sample_weight has no number above 0; give some rows a weight")
    return result
