r"""Decoupled descent inside a user's own PyTorch training loop."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from decoupled_descent.checks import outside, real_number, whole_number
from decoupled_descent.descent.info import DivergenceWarning
from decoupled_descent.descent.lazy import LazyRows, transition
from decoupled_descent.descent.rules import SGD
from decoupled_descent.evaluation.checks.diagnosis import Diagnosis
from decoupled_descent.objective import autodiff
from decoupled_descent.objective.models import split
from decoupled_descent.training.loop_checks import LoopChecks
from decoupled_descent.training.loop_run import as_run, rows_of
from decoupled_descent.training.run import Run

#: A loss that is higher than that of the first batch by this factor says that lr is too large.
LEAP = 5.0
#: Hyper-parameters of ``torch.optim.SGD`` that its rule has.
RATES = ("lr", "momentum", "dampening", "nesterov", "weight_decay")


class Decoupling:
    r"""Makes the batch losses of a PyTorch training loop estimates of the test error.

    The loop calls ``decoupling(x, y, rows)``, with the indices of the batch's rows, instead of
    ``criterion(model(x), y)``. It returns the mean loss at the corrected pre-activations. Its
    ``backward()`` leaves the corrected gradient in the first layer, and ``optimizer.step()``
    updates the memory by the same rule as the first layer. With B rows in the batch, noise of
    variance v and W the first layer's weights,

    .. math::
       h_i = W x_i + b + M_i, \qquad
       \nabla_W \leftarrow \nabla_W - v \bar J W, \qquad
       \nabla_{M_i} = -v d\, \nabla_{h_i}, \qquad
       \bar J = \tfrac1B\textstyle\sum_i \nabla^2_h \ell_i .

    Gradients may be accumulated over batches, scaled, and clipped by their norm.

    Args:
        model: Starts with ``nn.Linear``, or with ``nn.Flatten`` and ``nn.Linear``, and treats rows
            one by one.
        criterion: ``criterion(outputs, y)``, the mean loss of a batch.
        optimizer: ``torch.optim.SGD`` that has the first layer's weights. Other parameters may be
            with any optimiser.
        n: Rows in the data set.
        variance: v, of the noise in each entry of x. 1 for standardised columns of noise.
        check: Whether to measure the covariance of x, and to refuse columns that are correlated,
            as those of real features are. For these, use :class:`CrossFit` in the loop.

    Example:
        >>> import decoupled_descent as dd
        >>> X, y = dd.mixtures.xor(dimension=50, snr=6.0).sample(200, seed=0)
        >>> model = nn.Sequential(nn.Linear(50, 4), nn.Tanh(), nn.Linear(4, 1), nn.Flatten(0))
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
        >>> criterion = nn.functional.binary_cross_entropy_with_logits
        >>> decoupling = dd.Decoupling(model, criterion, optimizer, n=200, variance=1 / 50)
        >>> for rows in torch.randperm(200).split(50):
        ...     optimizer.zero_grad()
        ...     decoupling(X[rows], y[rows], rows).backward()
        ...     optimizer.step()
        >>> error, stderr = decoupling.estimate()
        >>> round(error, 1)
        0.7
    """

    def __init__(
        self,
        model: nn.Module,
        criterion: Callable[[Tensor, Any], Tensor],
        optimizer: torch.optim.Optimizer,
        n: int,
        variance: float = 1.0,
        check: bool = True,
    ) -> None:
        self.model, self.criterion, self.n = model, criterion, whole_number("n", n, 2)
        self.variance = real_number("variance", variance)
        parts = split(model)
        layer = model.get_submodule(parts.first)
        assert isinstance(layer, nn.Linear)
        self.layer = layer
        self.weight, self.group = layer.weight, _group(optimizer, layer.weight)
        self._checks = LoopChecks(model, layer, parts.head, self.n, self.variance, check)
        self.steps = 0
        self._memory: LazyRows | None = None
        self._h: Tensor | None = None  # of the batch that has just gone forward
        self._pending: list[_Batch] = []  # batches since the last step
        self._wanted: Tensor | None = None  # the gradient as the last backward pass left it
        self._errors: list[tuple[float, int]] = []
        self._start: float | None = None  # the loss of the first batch
        layer.weight.register_post_accumulate_grad_hook(self._correct)  # type: ignore[no-untyped-call]
        optimizer.register_step_pre_hook(self._before_step)

    def __call__(self, x: Tensor, y: Any, rows: Tensor) -> Tensor:
        """Return the mean loss of a batch at corrected pre-activations.

        Args:
            x: As the model takes it.
            y: As the criterion takes it.
            rows: Which rows of the data set they are, shape (B,), whole numbers from 0 to n − 1
                without repetition.

        Returns:
            The loss, to call ``backward()`` on; under ``torch.no_grad()``, to look at.
        """
        rows = self._checked(rows)
        random = self._checks.before()
        hook = self.layer.register_forward_hook(partial(self._forward, rows))
        try:
            outputs = self.model(x)
        finally:
            hook.remove()  # the hook must not be copied with the model
        loss = self.criterion(outputs, y)
        if loss.ndim:
            raise ValueError(
                f"criterion returned shape {tuple(loss.shape)}; it must return the mean loss of "
                "the batch, a single number"
            )
        self._checks.after(random, outputs, y, loss, self.criterion)
        if loss.requires_grad:
            batch, self._h = _Batch(self, loss, rows), None
            self._pending.append(batch)
            self._errors.append((loss.item(), len(rows)))
            self._start = self._errors[0][0] if self._start is None else self._start
            return batch.loss
        return loss

    def estimate(self) -> tuple[float, float]:
        """Return the mean loss over the batches since the last call, and its standard error.

        It estimates the mean test error of the iterates in between. The standard error comes from
        the spread of the batches, so it needs two of them; it is too large if the error changes a
        lot in between.
        """
        if not self._errors:
            raise ValueError("no batch was trained on since the last estimate")
        self._checks.check_n()
        losses, sizes = torch.tensor(self._errors, dtype=torch.float64, device="cpu").T
        self._errors = []
        shares = sizes / sizes.sum()
        mean = float(shares @ losses)
        if self._start is not None and mean > LEAP * abs(self._start):
            warnings.warn(
                f"the loss is {mean:.4g}, but that of the first batch was {self._start:.4g}: "
                f"lr={_plain(self.group['lr']):g} is too large",
                DivergenceWarning,
                stacklevel=outside(),
            )
        spread = float((shares.square() @ (losses - mean).square()).sqrt())
        count = len(losses)
        return mean, spread * math.sqrt(count / (count - 1)) if count > 1 else math.nan

    def run(self, X: Tensor, y: Tensor) -> Run:
        """Evaluate all rows at the present iterate, for metrics and :func:`diagnose`.

        Args:
            X: The inputs of all rows in the order of their numbers, shape (n, …).
            y: Their labels.

        Returns:
            A run with one iterate; ``run.estimate("accuracy")`` asks it.
        """
        return as_run(self, X, y)

    def diagnose(self, X: Tensor, y: Tensor, **options: Any) -> Diagnosis:
        """Check the present iterate, with X and y as the loop has them; see :func:`diagnose`."""
        return self.run(X, y).diagnose(rows_of(self, X, y), None, **options)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs beside those of the model and the optimiser."""
        parts = () if self._memory is None else self._memory.settled()
        return {"steps": self.steps, "memory": [part.clone() for part in parts]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint."""
        parts = [part.to(self.weight, copy=True) for part in state["memory"]]
        shape = (len(self.weight), self.n)
        if any(part.shape != shape for part in parts):
            raise ValueError(
                f"the checkpoint has a memory of shape {tuple(parts[0].shape)}, but this model and "
                f"n = {self.n} rows need {shape}"
            )
        self.steps = int(state["steps"])
        self._memory = LazyRows(parts[0], tuple(parts[1:])) if parts else None
        self._pending, self._wanted = [], None

    def _forward(self, rows: Tensor, layer: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        """Add the memory of the batch's rows behind the first layer."""
        if output.shape != (len(rows), len(self.weight)):
            raise ValueError(
                f"the first layer returned shape {tuple(output.shape)} for {len(rows)} rows"
            )
        if torch.is_grad_enabled():
            self._checks.batch(inputs[0], rows)
        if self._memory is not None:
            output = output + self._memory.read(rows)[0].T
        self._h = output
        return output

    def _correct(self, weight: Tensor) -> None:
        """Subtract v J̄ W from a gradient that a backward pass has just left."""
        assert weight.grad is not None
        with torch.no_grad():
            for batch in self._pending:
                if not (batch.done or math.isnan(batch.factor)):
                    weight.grad.sub_(batch.correction * batch.factor)
                    batch.done = True
            self._wanted = weight.grad.clone()

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        """Move the memory before a step; after the closure, if the step has one."""
        closure = kwargs.get("closure") or (args[1] if len(args) > 1 else None)
        if closure is None:
            self._move()
            return None

        def and_move() -> Any:
            loss = closure()
            self._move()
            return loss

        return (args[0], and_move), {}

    @torch.no_grad()
    def _move(self) -> None:
        """Move the memory as the optimiser is about to move the first layer."""
        batches = [each for each in self._pending if each.done]
        if self.weight.grad is None or not batches:
            raise ValueError(
                "optimizer.step() without a loss of this Decoupling: call loss = "
                "decoupling(x, y, rows) and loss.backward() before it"
            )
        factor, rule = self._factor(), self._rule()
        if self._memory is None:
            memory = self.weight.new_zeros(len(self.weight), self.n)
            self._memory = LazyRows(memory, rule.slots(memory))
        rows = torch.cat([each.rows for each in batches])
        if len(torch.unique(rows)) != len(rows):
            raise ValueError(
                "a row occurs in two batches since the last optimizer.step(); let the batches of "
                "one step have different rows"
            )
        slope = torch.cat([each.slope * each.factor for each in batches]).T
        value, *slots = self._memory.read(rows)
        if bool(rule.slots(value)) != bool(slots):
            raise ValueError("momentum of the first layer was switched on or off between steps")
        scale = -factor * self.variance * self.weight.shape[1]
        moved, kept = rule(value, slope, tuple(slots), self.steps, scale)
        self._memory.advance(transition(rule, self.steps, self.weight))
        self._memory.write(rows, (moved, *kept))
        if self._memory.age * len(rows) > self.n:
            self._memory.settled()
        self.steps += 1
        self._pending, self._wanted = [], None

    def _factor(self) -> float:
        """The factor by which gradient clipping has multiplied the gradient."""
        wanted, gradient = self._wanted, self.weight.grad
        assert wanted is not None
        assert gradient is not None
        if torch.equal(wanted, gradient):
            return 1.0
        factor = float((wanted * gradient).sum() / wanted.square().sum())
        size = 1e-6 * float(gradient.norm())
        if not torch.allclose(gradient, factor * wanted, rtol=1e-3, atol=size):
            raise ValueError(
                "the first layer's gradient was changed between backward() and step() by more "
                "than a common factor; clip it by its norm, not by its values"
            )
        return factor

    def _rule(self) -> SGD:
        """The optimiser's rule as it is at this step."""
        return SGD(**{name: _plain(self.group[name]) for name in RATES})

    def _checked(self, rows: Tensor) -> Tensor:
        rows = rows.to(self.weight.device)
        if rows.ndim != 1 or rows.is_floating_point() or len(torch.unique(rows)) != len(rows):
            raise ValueError(
                f"rows has shape {tuple(rows.shape)} and type {rows.dtype}; it must have one whole "
                "number per row of the batch, each at most once (sample without replacement within "
                "a batch)"
            )
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < self.n:
            raise ValueError(
                f"rows has numbers from {int(rows.min())} to {int(rows.max())}; they must be at "
                f"least 0 and below n = {self.n}"
            )
        return rows


class _Batch:
    """One batch: ∇_h of its mean loss, the correction v J̄ W, and what backward() multiplies by."""

    def __init__(self, owner: Decoupling, loss: Tensor, rows: Tensor) -> None:
        h, weight = owner._h, owner.weight
        assert h is not None
        (slope,) = torch.autograd.grad(loss, h, create_graph=True)
        bend = len(h) * autodiff.mean_jacobian(slope, h, turn=owner.steps).detach()
        self.rows, self.slope = rows, slope.detach()
        self.correction = owner.variance * bend @ weight.detach()
        self.factor = math.nan  # set by backward()
        self.done = False
        self.loss = loss * 1.0  # a separate tensor, whose gradient is the factor
        self.loss.register_hook(self._tell)  # type: ignore[no-untyped-call]

    def _tell(self, factor: Tensor) -> None:
        self.factor = float(factor)


def _group(optimizer: torch.optim.Optimizer, weight: Tensor) -> dict[str, Any]:
    """The parameter group of the first layer's weights; refuse rules that are not linear."""
    groups: Iterable[dict[str, Any]] = optimizer.param_groups
    own = [g for g in groups if any(each is weight for each in g["params"])]
    if type(optimizer) is not torch.optim.SGD or not own or own[0].get("maximize"):
        raise ValueError(
            f"optimizer is {type(optimizer).__name__}; the first layer's weights must be with "
            "torch.optim.SGD, whose steps are linear in the gradients: the memory must follow "
            "them. Adam and the like may have all other parameters, in another optimiser"
        )
    return own[0]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) else value
