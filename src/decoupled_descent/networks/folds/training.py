"""The training of all copies: losses, steps and out-of-fold errors, for any loop."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from decoupled_descent.checks import real_number
from decoupled_descent.evaluation.folds import FoldAssignment
from decoupled_descent.evaluation.output_scale import OutputScale
from decoupled_descent.networks.folds.copy_optimizers import CopyOptimizers, MakeOptimizer
from decoupled_descent.networks.folds.record import Epoch, FoldRecord
from decoupled_descent.networks.folds.run import CrossFitRun
from decoupled_descent.networks.folds.stacked_module import StackedModule, Tensors
from decoupled_descent.networks.given import check_classes, labels_for
from decoupled_descent.networks.known_labels import MOST_ROWS, label_level
from decoupled_descent.networks.row_losses import RowLosses, check_ignored
from decoupled_descent.networks.run import Start
from decoupled_descent.training.callbacks import StopReason

Transform = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
Batch = tuple[Tensor, Tensor, Tensor]
#: Rows that are looked at before the first step, and rows that are evaluated at once.
LOOKED_AT, AT_ONCE = 16, 4096


class FoldTraining:
    """Copies of a network in training; :meth:`CrossFit.start` makes it.

    Call :meth:`step` for every batch and :meth:`evaluate` after every epoch; :meth:`run` has the
    results. ``loss``, ``clip_grad_norm_`` and ``update`` are the parts of a step, for loops that
    accumulate gradients or clip them.

    Attributes:
        assignment: The folds.
        optimizers: One optimiser for all copies, or one per copy where it would mix them; for
            schedulers.
        record: The errors so far.
    """

    def __init__(
        self,
        model: nn.Module,
        criterion: Any,
        optimizer: MakeOptimizer,
        assignment: FoldAssignment,
        labels: Tensor,
        *,
        sample_weight: Tensor | None = None,
        groups: Tensor | None = None,
        together: bool | None = None,
        keep_best: bool = True,
        independent_start: bool = False,
        transformed: bool = False,
    ) -> None:
        self.assignment = assignment
        self._criterion, self._losses = criterion, RowLosses(criterion)
        self._stack = StackedModule(model, assignment.count + 1)
        self._optimizers = CopyOptimizers(optimizer, list(self._stack.parameters.values()))
        self._weights = sample_weight
        self._wanted, self._looked = together, False
        self._keep_best = keep_best
        self.record = FoldRecord(assignment, sample_weight, groups)
        self._kept: Tensors = self._stack.snapshot()
        self._given = labels.cpu()
        check_ignored(criterion, self._given)
        self._labels: Tensor | None = None
        self._transforms = transformed
        self._start = Start(None, independent_start)

    @property
    def optimizers(self) -> list[Optimizer]:
        """The optimisers, for schedulers; call :meth:`update` in place of their ``step``."""
        return self._optimizers.list

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self._stack.device

    @property
    def together(self) -> bool:
        """Whether all copies are evaluated at once; decided at the first batch."""
        return self._stack.together

    @property
    def reason(self) -> str:
        """Why they are not, in a sentence."""
        return self._stack.reason

    def step(self, x: Tensor, y: Tensor, rows: Tensor) -> float:
        """Make one step of all copies with a batch.

        Args:
            x: The inputs of the batch, shape (B, …).
            y: Its labels, shape (B, …).
            rows: The numbers of its rows in the data, from 0 on, shape (B,).

        Returns:
            The mean loss of the batch by the copy that sees all rows.
        """
        losses = self.losses(x, y, rows)
        losses.sum().backward()  # type: ignore[no-untyped-call]
        self.update()
        return float(losses[-1].detach())

    def loss(self, x: Tensor, y: Tensor, rows: Tensor) -> Tensor:
        """The sum over copies of their mean losses: each copy gets the gradient of its own."""
        return self.losses(x, y, rows).sum()

    def losses(self, x: Tensor, y: Tensor, rows: Tensor) -> Tensor:
        """Mean losses of the copies over their rows of a batch, shape (K + 1,).

        A copy that sees no row of the batch has loss 0, and does not move in the next update.
        """
        self._check(x, y, rows)
        y = labels_for(self._criterion, y)
        x, y, rows = x.to(self._stack.device), y.to(self._stack.device), rows.cpu()
        self._look(x)
        trained = self.assignment.trained(rows)
        if self._stack.mixes_rows:
            trained = trained & (trained.sum(1, keepdim=True) > 1)  # no statistics of one row
        self._optimizers.trained |= trained.any(1)
        weights = None if self._weights is None else self._weights[rows].to(x.device)
        with self._stack.mode(True):
            compute = self._at_once if self.together else self._one_by_one
            losses = compute(x, y, trained.to(x.device), weights)
        self._stack.check_shared()
        return losses

    def clip_grad_norm_(self, max_norm: float) -> Tensor:
        """Clip the gradient of each copy by its own norm; return the norms, shape (K + 1,)."""
        if real_number("max_norm", max_norm) <= 0:
            raise ValueError(f"max_norm={max_norm!r} must be above 0")
        return self._optimizers.clip_grad_norm_(max_norm)

    def update(self) -> None:
        """Make a step of the optimisers, and clear the gradients."""
        self._optimizers.step()

    def transformed(self, transform: Transform, x: Tensor, y: Tensor, rows: Tensor) -> Batch:
        """Apply a transform of inputs and labels to the rows of each fold apart.

        So a transform that mixes rows (mixup) mixes rows of one fold only, and no copy sees a part
        of a row that it leaves out. The rows come back in another order.
        """
        self._check(x, y, rows)
        self._transforms, result = True, []
        fold = self.assignment.fold[rows.cpu()].to(rows.device)
        for k in torch.unique(fold):
            at = fold == k
            new_x, new_y = transform(x[at.to(x.device)], y[at.to(y.device)])
            if len(new_x) != int(at.sum()) or len(new_y) != len(new_x):
                raise ValueError(
                    f"transform returned {len(new_x)} inputs and {len(new_y)} labels for "
                    f"{int(at.sum())} rows; it must keep their number and order"
                )
            result.append((new_x, new_y, rows[at]))
        xs, ys, numbers = zip(*result, strict=True)
        return torch.cat(xs), torch.cat(ys), torch.cat(numbers)

    def evaluate(
        self,
        X: Tensor | Iterable[Batch],
        y: Tensor | None = None,
        test: tuple[Tensor, Tensor] | None = None,
    ) -> Epoch:
        """Evaluate every row by the copy that did not see it.

        Args:
            X: The inputs of all rows in their order, shape (n, …); or batches (x, y, rows) that
                have every row once.
            y: The labels of all rows; leave it out with batches.
            test: New rows and their labels, whose error is recorded and used for nothing else.

        Returns:
            The out-of-fold error with its standard error.
        """
        n = len(self.assignment.fold)
        outputs, losses, fitted, labels, count = None, torch.zeros(n), torch.zeros(n), None, 0
        first: list[tuple[Tensor, Tensor]] = []  # batches for the test of the start
        with torch.no_grad(), self._stack.mode(False):
            for x, target, rows in _batches(X, y, n):
                target = labels_for(self._criterion, target).to(self._stack.device)
                x, at = x.to(self._stack.device), rows.cpu()
                self._look(x)
                result, last = self._left_out(x, at), self._stack.one(self.assignment.count, x)
                if outputs is None or labels is None:
                    outputs = torch.zeros(n, *result.shape[1:], dtype=result.dtype)
                    labels = torch.zeros(n, *target.shape[1:], dtype=target.dtype)
                    losses, fitted = losses.to(result.dtype), fitted.to(result.dtype)
                    check_classes(self._criterion, self._given, last)
                    self._losses.check(last, target)
                outputs[at], labels[at] = result.cpu(), target.cpu()
                losses[at] = self._losses(result, target).cpu()
                fitted[at] = self._losses(last, target).cpu()
                count += len(at)
                if self._start.level is None and sum(len(y) for _, y in first) < MOST_ROWS:
                    first.append((x, target))
            if outputs is None or count != n:
                raise ValueError(f"X has {count} rows; the folds were made for {n} rows")
            error = None if test is None else self._test_error(*test)
        self._labels = labels
        if first:
            some = (torch.cat([batch[k] for batch in first]) for k in (0, 1))
            level = label_level(self._stack.template, self._losses, *some)
            self._start = self._start._replace(level=level)
        if self.record.add(outputs, losses, fitted, not self._keep_best, error):
            self._kept = self._stack.snapshot()
        return self.record.epochs[-1]

    def _test_error(self, X: Tensor, y: Tensor) -> float:
        """The error of the copy that sees all rows, on new rows."""
        parts = []
        for x, target, _ in _batches(X, y, len(X)):
            outputs = self._stack.one(self.assignment.count, x.to(self.device))
            parts.append(self._losses(outputs, target.to(self.device)))
        return float(torch.cat(parts).double().mean())

    def run(self, reason: StopReason | None = None) -> CrossFitRun:
        """Return the results so far: errors, out-of-fold outputs and the model."""
        if self._labels is None:
            raise ValueError("nothing was evaluated; call evaluate(X, y) after each epoch")
        scale = OutputScale.of(self._criterion, self._labels)
        return CrossFitRun(
            record=self.record,
            labels=self._labels,
            scale=scale,
            stack=self._stack,
            weights=self._kept,
            stop_reason=reason,
            start=self._start,
        )

    def state_dict(self) -> dict[str, Any]:
        """Weights, memory of the optimisers and errors, to continue later with the same folds."""
        return {
            "weights": self._stack.snapshot(),
            "kept": dict(self._kept),  # the weights at the best epoch
            "labels": self._labels,
            "record": self.record.state_dict(),
            "optimizers": [copy.deepcopy(each.state_dict()) for each in self.optimizers],
        }

    def load_state_dict(self, state: Mapping[str, Any], x: Tensor) -> None:
        """Continue from :meth:`state_dict`; ``x`` is any batch of two or more rows."""
        self._look(x.to(self.device))
        self._stack.load(state["kept"])  # raises for weights of another model
        self._kept = self._stack.snapshot()
        self._stack.load(state["weights"])
        self._labels = state["labels"]
        self.record.load_state_dict(state["record"])
        for optimizer, content in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(copy.deepcopy(content))

    def _look(self, x: Tensor) -> None:
        if not self._looked:
            self._stack.prepare(x[:LOOKED_AT], self._wanted)
            self._kept, self._looked = self._stack.snapshot(), True

    def _at_once(self, x: Tensor, y: Tensor, trained: Tensor, weights: Tensor | None) -> Tensor:
        outputs = self._stack.all(x)
        copies = len(outputs)
        mask = trained.reshape(*trained.shape, *[1] * (outputs.ndim - 2))
        # A row that is left out has no gradient, whatever its loss: 0 times infinity is no zero.
        outputs = torch.where(mask, outputs, torch.zeros_like(outputs))
        labels = y.unsqueeze(0).expand(copies, *y.shape).flatten(0, 1)
        losses = self._losses(outputs.flatten(0, 1), labels).reshape(copies, -1)
        losses = torch.where(trained, losses, torch.zeros_like(losses))
        shares = trained.to(losses.dtype)
        shares = shares if weights is None else shares * weights.to(losses.dtype)
        return (losses * shares).sum(1) / shares.sum(1).clamp_min(torch.finfo(losses.dtype).tiny)

    def _one_by_one(self, x: Tensor, y: Tensor, trained: Tensor, weights: Tensor | None) -> Tensor:
        result, parts = [], self._stack.apart()
        for k, mask in enumerate(trained):
            if not mask.any():
                result.append(torch.zeros((), device=x.device))
                continue
            losses = self._losses(self._stack.one(k, x[mask], parts), y[mask])
            if weights is None:
                result.append(losses.mean())
            else:
                w = weights[mask].to(losses.dtype)
                result.append((losses * w).sum() / w.sum().clamp_min(torch.finfo(w.dtype).tiny))
        return torch.stack(result)

    def _left_out(self, x: Tensor, rows: Tensor) -> Tensor:
        """Outputs of rows by the copies that leave them out; row never left out: by the last."""
        fold = self.assignment.fold[rows]
        fold = torch.where(fold < 0, self.assignment.count, fold)
        if not self.together:
            parts = [(k, (fold == k).nonzero().flatten()) for k in torch.unique(fold).tolist()]
            outputs = torch.cat([self._stack.one(k, x[at.to(x.device)]) for k, at in parts])
            order = torch.cat([at for _, at in parts])
            return outputs[order.argsort().to(x.device)]
        order = fold.argsort(stable=True)
        counts = torch.bincount(fold, minlength=self.assignment.count + 1)
        inside = torch.arange(len(rows)) - (counts.cumsum(0) - counts)[fold[order]]
        places = torch.zeros(len(counts), int(counts.max()), dtype=torch.int64)
        places[fold[order], inside] = order  # what is left over repeats row 0, and is not used
        outputs = self._stack.all(x[places.to(x.device)], each=True)
        result = torch.empty_like(outputs[0, :1].expand(len(rows), *outputs.shape[2:]))
        result = result.contiguous()
        result[order.to(x.device)] = outputs[fold[order].to(x.device), inside.to(x.device)]
        return result

    def _check(self, x: Tensor, y: Tensor, rows: Tensor) -> None:
        n = len(self.assignment.fold)
        if not (isinstance(rows, Tensor) and rows.ndim == 1 and not rows.is_floating_point()):
            raise ValueError("rows must be a tensor of row numbers, shape (B,); see the docstring")
        if not len(x) == len(y) == len(rows):
            raise ValueError(
                f"x, y and rows have {len(x)}, {len(y)} and {len(rows)} rows; give the same number"
            )
        if len(rows) and (int(rows.min()) < 0 or int(rows.max()) >= n):
            raise ValueError(
                f"rows has numbers from {int(rows.min())} to {int(rows.max())}; the folds were "
                f"made for rows 0 to {n - 1}"
            )
        if not self._transforms and not _same(y.cpu(), self._given[rows.cpu()]):
            raise ValueError(
                "rows are not the rows of these labels; give their numbers in the data that start "
                "was called with, not in the batch. If you change labels (mixup), make the copies "
                "by start(…, transformed=True)"
            )


def _same(y: Tensor, given: Tensor) -> bool:
    """Whether labels are those that were given, up to rounding in their dtype."""
    if y.numel() != given.numel():
        return False
    types = [each.dtype for each in (y, given) if each.is_floating_point()]
    rounding = 4 * max((torch.finfo(dtype).eps for dtype in types), default=0.0)
    y, given = y.reshape(given.shape).double(), given.double()
    return torch.allclose(y, given, rtol=rounding, atol=rounding, equal_nan=True)


def _batches(X: Tensor | Iterable[Batch], y: Tensor | None, n: int) -> Iterator[Batch]:
    """Batches of inputs, labels and row numbers, each row once."""
    if not isinstance(X, Tensor):
        yield from X
        return
    if y is None or len(y) != len(X) or len(X) != n:
        raise ValueError(
            f"X has {len(X)} rows and y {'none' if y is None else len(y)}; give all {n} of each"
        )
    for start in range(0, n, AT_ONCE):
        rows = torch.arange(start, min(n, start + AT_ONCE))
        yield X[start : start + AT_ONCE], y[start : start + AT_ONCE], rows
