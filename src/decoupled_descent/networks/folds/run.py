"""The result of training with stacked folds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from decoupled_descent.evaluation.evaluation import Evaluation
from decoupled_descent.evaluation.output_scale import OutputScale
from decoupled_descent.evaluation.outputs import Labels
from decoupled_descent.networks.folds.record import FoldRecord
from decoupled_descent.networks.folds.sample_size_bias import expected_bias, size_ratio
from decoupled_descent.networks.folds.stacked_module import StackedModule, Tensors
from decoupled_descent.networks.frozen import Frozen
from decoupled_descent.networks.modules import MeanOutput
from decoupled_descent.networks.run import NetworkRun, Start, squeezed
from decoupled_descent.networks.several_inputs import SeveralInputs, inner_module
from decoupled_descent.plotting.runs import plot_curve
from decoupled_descent.rows.tensors import as_tensor
from decoupled_descent.training.callbacks import StopReason

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class CrossFitRun(NetworkRun):
    """Errors on rows that a copy did not see, and the model that saw all rows.

    All results are those at the epoch with the lowest out-of-fold error (or at the last epoch, if
    asked for). For the error and the outputs of a fold, the epoch is chosen by the other folds, so
    that the choice does not make them too low.

    Attributes:
        record: The errors, epoch by epoch.
        labels: The labels of all rows.
        scale: What the outputs are, for metrics.
        stack: The copies.
        weights: Their weights at the best epoch.
        stop_reason: Why training ended; None for a loop of your own.
        frozen: Layers before the copies that were computed once, or None.
        choice: Why this method was chosen, if :func:`~decoupled_descent.fit` chose it.
        start: What is known of the weights that training began with.
        resemblance: How much rows resemble rows in other folds, for the verdict; empty if that was
            not computed, as in a loop of your own.
    """

    record: FoldRecord = field(repr=False)
    labels: Tensor = field(repr=False)
    scale: OutputScale
    stack: StackedModule = field(repr=False)
    weights: Tensors = field(repr=False)
    stop_reason: StopReason | None = None
    frozen: Frozen | None = field(default=None, repr=False)
    choice: str = ""
    start: Start = field(default_factory=Start, repr=False)
    resemblance: Mapping[str, float] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        """Summarise in one line."""
        folds = self.record.assignment.count
        return (
            f"CrossFitRun({folds} folds, {len(self.record.epochs)} evaluations, out-of-fold error "
            f"{self.error:.4g} ± {self.stderr:.2g}, best step {self.best_step}, {self.message})"
        )

    @property
    def message(self) -> str:
        """Why training ended, in words."""
        return "" if self.stop_reason is None else str(self.stop_reason)

    def _curve(self, name: str) -> Tensor:
        values = [getattr(epoch, name) for epoch in self.record.epochs]
        return torch.tensor(values, dtype=torch.float64)

    @property
    def train_error(self) -> Tensor:
        """(T,) mean loss of each row by the copy that did not see it, after each epoch."""
        return self._curve("error")

    @property
    def train_error_stderr(self) -> Tensor:
        """(T,) its standard error."""
        return self._curve("stderr")

    @property
    def out_of_fold_error(self) -> Tensor:
        """(T,) the train error, by the name that it has for folds."""
        return self.train_error

    @property
    def out_of_fold_stderr(self) -> Tensor:
        """(T,) its standard error."""
        return self.train_error_stderr

    @property
    def fitted_error(self) -> Tensor:
        """(T,) mean loss of the model of all rows on these rows: no estimate of a test error."""
        return self._curve("fitted_error")

    @property
    def test_error(self) -> Tensor | None:
        """(T,) mean loss of the model of all rows on the test set, or None without one."""
        return None if self.record.epochs[0].test_error is None else self._curve("test_error")

    @property
    def best_step(self) -> int:
        """The index of the epoch with the lowest out-of-fold error."""
        return self.record.best

    @cached_property
    def evaluation(self) -> Evaluation:
        """How good the model is on new rows; the epoch of each fold is chosen by the others."""
        rows, record = self.record.assignment.evaluated, self.record
        outputs, y = torch.as_tensor(record.outputs)[rows], self.labels[rows]
        weights = None if record.weights is None else record.weights[rows]
        groups = None if record.groups is None else record.groups[rows]
        losses, models = self._losses[rows], record.assignment.fold[rows]
        if outputs.ndim == 3 and y.ndim == 2 and not y.is_floating_point():  # classes of tokens
            groups = torch.arange(len(y)) if groups is None else groups
            groups, losses, models = (
                torch.as_tensor(each).repeat_interleave(y.shape[1])
                for each in (groups, losses, models)
            )
            weights = None if weights is None else weights.repeat_interleave(y.shape[1])
            outputs, y = outputs.mT.flatten(0, 1), y.flatten()
        # the models of rows in other folds are others
        return Labels(y, self.scale, weights, groups).evaluation(
            outputs, losses, how="folds", models=np.asarray(models), notes=self.notes,
            pairs=self.sample_size_bias**2,
        )  # fmt: skip

    @property
    def notes(self) -> dict[str, float]:
        """What the run knows, for the checks."""
        bias = {"sample_size_bias": self.sample_size_bias}
        return super().notes | bias | dict(self.resemblance)

    @property
    def selection_bias(self) -> float:
        """By how much the lowest error of the curve is lower than :attr:`error`."""
        return self.error - self.record.epochs[self.best_step].error

    @property
    def sample_size_bias(self) -> float:
        """By how much :attr:`error` is expected to be too high, for copies see fewer rows.

        It is not subtracted, as it is a rule of thumb, but it is in :attr:`stderr`: its square is
        added to the variance.
        """
        best = self.record.epochs[self.best_step]
        return expected_bias(best.error, best.fitted_error, size_ratio(self.record.assignment))

    @property
    def note(self) -> str:
        """What to know about the estimate, in sentences."""
        ratio = size_ratio(self.record.assignment)
        size = f"The copies see {100 / ratio:.0f} % of the rows."
        if self.sample_size_bias > 0 and self.stderr > 0:
            size += (
                f" Their error is expected to be {self.sample_size_bias:.2g} higher than that of "
                "the model of all rows, which is "
                f"{self.sample_size_bias / self.stderr:.1g} standard errors, which contain it."
            )
        return " ".join(filter(None, [self.choice, size, *self.evaluation.reasons]))

    @property
    def outputs(self) -> Tensor:
        """Out-of-fold outputs of rows, (n,) or (n, K, …); NaN where no copy leaves a row out."""
        result = torch.as_tensor(self.record.outputs).clone()
        if result.is_floating_point():
            result[~self.record.assignment.evaluated] = torch.nan
        return squeezed(result)

    @property
    def losses(self) -> Tensor:
        """Out-of-fold losses of all rows, shape (n,); NaN for rows that no copy leaves out."""
        result = self._losses.clone()
        result[~self.record.assignment.evaluated] = torch.nan
        return result

    @property
    def _losses(self) -> Tensor:
        return torch.as_tensor(self.record.losses)

    def plot(self, title: str = "") -> Figure:
        """Draw the out-of-fold error with its 95 % interval, and the best epoch.

        Example:
            >>> import torch, decoupled_descent as dd
            >>> X, y = torch.randn(40, 3), torch.arange(40) % 2
            >>> cross = dd.CrossFit(nn.Linear(3, 2), nn.CrossEntropyLoss(), torch.optim.Adam, 4)
            >>> cross.fit(X, y, epochs=3).plot().axes[0].get_xlabel()
            'epoch'
        """
        title = title or f"{self.record.assignment.count} folds"
        return plot_curve(self.train_error, self.train_error_stderr, title=title, xlabel="epoch")

    def to_module(self, mean: bool = False, *, best: bool = True) -> nn.Module:
        """Return the model, in evaluation mode.

        Args:
            mean: Whether to return the mean of all copies' outputs in place of the copy that saw
                all rows. It is often a little better, and K + 1 times as slow.
            best: At the best epoch. The last one is there only if it was asked for in training.

        Returns:
            A module that shares nothing with the run.
        """
        if not best and self.best_step < len(self.record.epochs) - 1:
            raise ValueError(
                "best=False asks for the last epoch, whose weights were not kept; train with "
                "best=False"
            )
        last = self.record.assignment.count
        if not mean:
            return self._module(last)
        return MeanOutput([self._module(k) for k in range(last + 1)]).eval()

    def _module(self, k: int) -> nn.Module:
        result = self.stack.module(k, self.weights)
        return inner_module(result if self.frozen is None else self.frozen.joined(result))

    def predict(self, X: Any, batch_size: int = 4096, *, best: bool = True) -> Tensor:
        """Outputs of the model of all rows for new rows; see :meth:`to_module`."""
        model, template = self.to_module(best=best), self.stack.template
        if isinstance(template, SeveralInputs):
            model, X = template.around(model), template.columns(X)
        X = as_tensor("X", X)
        with torch.no_grad():
            parts = [model(part.to(self.stack.device)) for part in torch.split(X, batch_size)]
        return squeezed(torch.cat(parts))
