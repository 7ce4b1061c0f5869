"""A callback for skorch: the out-of-fold error of a ``NeuralNet`` while it is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from skorch.callbacks import Callback, GradientNormClipping
from skorch.utils import to_tensor
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from decoupled_descent.integrations.beside import FoldsBeside
from decoupled_descent.networks.folds.run import CrossFitRun
from decoupled_descent.networks.folds.training import AT_ONCE, Batch


class CrossFitCallback(Callback):
    """Records an honest test error after every epoch, so that no ``train_split`` is needed.

    Copies of the module, each without the rows of one fold, are trained beside it by the same
    batches, optimiser, schedule and norm of gradients. The net itself is trained on all rows,
    exactly as without the callback. The history has ``out_of_fold_error`` and
    ``out_of_fold_stderr``, so that ``EarlyStopping(monitor="out_of_fold_error")`` works; put this
    callback before it.

    Args:
        folds: K; "loo" for leave-one-out; or the fold of each row, from 0 on.
        groups: A label for each row; rows of one group are in one fold.
        seed: Chooses the folds, and draws dropout of the copies.
        independent_start: Say that the weights of the module do not come from these rows.

    Attributes:
        run_: The errors, the out-of-fold outputs and the model at the best epoch. Where the net has
            ``NLLLoss``, whose modules give probabilities, outputs are their logarithms.
    """

    def __init__(
        self, folds: Any = 10, groups: Any = None, seed: int = 0, independent_start: bool = False
    ) -> None:
        self.folds, self.groups, self.seed = folds, groups, seed
        self.independent_start = independent_start

    @property
    def run_(self) -> CrossFitRun:
        """The result so far."""
        beside: FoldsBeside | None = getattr(self, "_beside", None)
        if beside is None:
            raise ValueError("nothing was trained; call net.fit(X, y) before run_")
        return beside.run()

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Let the batches say which rows they have."""
        if len(net.history):
            raise ValueError(
                f"training continues after epoch {len(net.history)}: its weights have seen all "
                "rows, and so would the copies. Call net.fit with warm_start=False"
            )
        self._beside: FoldsBeside | None = None
        self._numbers = Numbers()
        self._loader = net.iterator_train
        net.iterator_train = self._numbers.loader(net.iterator_train)

    def on_train_end(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Leave the net as it was."""
        net.iterator_train = self._loader

    def on_epoch_begin(self, net: Any, dataset_train: Any = None, **kwargs: Any) -> None:
        """Make the copies before the first epoch."""
        if self._beside is not None:
            return
        with torch.random.fork_rng([]):  # a loader draws a random number, needed or not
            labels = torch.cat([y for _, y, _ in self._all_rows(net, dataset_train)])
        model, criterion = net.module_, net.criterion_
        if isinstance(criterion, nn.NLLLoss):  # the net takes the logarithm itself
            model = nn.Sequential(model, LogProbabilities())
        clips = [c for _, c in net.callbacks_ if isinstance(c, GradientNormClipping)]
        self._clip = clips[0].gradient_clip_value if clips else None
        self._beside = FoldsBeside(
            model,
            criterion,
            net.optimizer_,
            labels,
            folds=self.folds,
            groups=self.groups,
            seed=self.seed,
            independent_start=self.independent_start,
        )

    def on_batch_begin(
        self, net: Any, batch: Any = None, training: bool | None = None, **kwargs: Any
    ) -> None:
        """Make the step that the net is about to make."""
        if training:
            assert self._beside is not None
            x, y = _two(batch, net.device)
            self._beside.batch(x, y, self._numbers.of_batch)
            self._beside.step(self._clip)

    def on_epoch_end(self, net: Any, dataset_train: Any = None, **kwargs: Any) -> None:
        """Evaluate every row by the copy that did not see it."""
        assert self._beside is not None
        epoch = self._beside.evaluate(self._all_rows(net, dataset_train))
        net.history.record("out_of_fold_error", epoch.error)
        net.history.record("out_of_fold_stderr", epoch.stderr)

    def _all_rows(self, net: Any, dataset: Any) -> Iterator[Batch]:
        """All rows in their order."""
        start = 0
        for batch in DataLoader(dataset, AT_ONCE):
            x, y = _two(batch, net.device)
            yield x, y, torch.arange(start, start + len(y))
            start += len(y)


class Numbers:
    """The row numbers of the batch that a loader gave last."""

    def __init__(self) -> None:
        self.of_batch = torch.zeros(0, dtype=torch.int64)

    def loader(self, make: Callable[..., Any]) -> Callable[..., Any]:
        """Make a loader that gives the same batches, and notes their row numbers here."""

        def made(dataset: Any, **options: Any) -> LoaderWithNumbers:
            return LoaderWithNumbers(make(WithNumbers(dataset), **options), self)

        return made


class WithNumbers(Dataset[Any]):
    """The rows of a data set with their numbers."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.dataset[index], index


class LoaderWithNumbers:
    """Batches of a loader, whose row numbers are noted and taken off."""

    def __init__(self, loader: Any, numbers: Numbers) -> None:
        self.loader, self.numbers = loader, numbers

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        for batch, rows in self.loader:
            self.numbers.of_batch = rows
            yield batch


class LogProbabilities(nn.Module):
    """The logarithm of probabilities, as ``NeuralNetClassifier`` takes it."""

    def forward(self, probabilities: Tensor) -> Tensor:
        """Take the logarithm."""
        return torch.log(probabilities + torch.finfo(probabilities.dtype).eps)


def _two(batch: Any, device: Any) -> tuple[Tensor, Tensor]:
    """Inputs and labels as tensors."""
    x, y = (to_tensor(part, device) for part in batch)
    if not isinstance(x, Tensor) or not isinstance(y, Tensor):
        raise ValueError(f"X has type {type(x).__name__}; give one array or tensor, and y")
    return x, y
