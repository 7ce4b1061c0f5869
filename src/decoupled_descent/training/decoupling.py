r"""Decoupled descent inside a user's own PyTorch training loop."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from decoupled_descent.checks import outside, real_number, whole_number
from decoupled_descent.descent.lazy import LazyRows, transition
from decoupled_descent.descent.rules import SGD
from decoupled_descent.evaluation.means import mean_with_stderr
from decoupled_descent.objective import autodiff
from decoupled_descent.objective.kinks import KinkWarning, has_kinked_module
from decoupled_descent.objective.models import split

#: Hyper-parameters of ``torch.optim.SGD`` that its rule has.
RATES = ("lr", "momentum", "dampening", "nesterov", "weight_decay")
#: A row is the same if its inputs, projected, differ by less than this share of their length.
SAME = 0.02
#: The covariance is measured with so many rows at most, and not with fewer than these.
MOST, FEWEST = 500, 50
#: Directions that may be signal, and the largest spread of the other variances; 1 is white noise.
SIGNAL, SPREAD = 4, 1.25
#: The largest factor between the variance that is stated and the one that is measured.
FACTOR = 4.0
#: What works for real features, and for layers that mix rows or draw random numbers.
INSTEAD = "use CrossFit in your loop, or fit(X, y, model, loss=…)"


class _Batch(NamedTuple):
    """What a batch leaves for the step: its rows, ∇_h and ∇_W of its mean loss, v J̄ W."""

    rows: Tensor
    slope: Tensor
    gradient: Tensor
    correction: Tensor


class Decoupling:
    r"""Makes the batch losses of a PyTorch training loop estimates of the test error.

    The loop calls ``decoupling(x, y, rows)``, with the indices of the batch's rows, instead of
    ``criterion(model(x), y)``. It returns the mean loss at the corrected pre-activations.
    ``optimizer.step()`` first corrects the gradient of the first layer, and updates the memory by
    the same rule as the first layer. Gradients may be scaled, and clipped by their norm. With B
    rows in the batch, noise of variance v and W the first layer's weights,

    .. math::
       h_i = W x_i + b + M_i, \qquad
       \nabla_W \leftarrow \nabla_W - v \bar J W, \qquad
       \nabla_{M_i} = -v d\, \nabla_{h_i}, \qquad
       \bar J = \tfrac1B\textstyle\sum_i \nabla^2_h \ell_i .

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
        layer = model.get_submodule(split(model).first)
        assert isinstance(layer, nn.Linear)
        self.layer, self.weight = layer, layer.weight
        self.group = _group(optimizer, layer.weight)
        _check_model(model)
        self.steps = 0
        self._memory: LazyRows | None = None
        self._h: Tensor | None = None  # of the batch that has just gone forward
        self._batch: _Batch | None = None
        self._inputs = layer.weight.new_empty(0)
        self._losses: list[tuple[float, int]] = []
        self._marks = torch.full((n,), math.nan, dtype=torch.float64)  # one number of each row
        self._unmeasured: list[Tensor] | None = [] if check and n >= FEWEST else None
        optimizer.register_step_pre_hook(self._step)

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
        random = torch.get_rng_state()
        loss = self.criterion(self.outputs(x, rows), y)
        if not torch.equal(random, torch.get_rng_state()):
            raise ValueError(f"the model draws random numbers (dropout?); {INSTEAD}")
        if loss.requires_grad:
            self._note(rows, loss)
        return loss

    def outputs(self, x: Tensor, rows: Tensor) -> Tensor:
        """Outputs of some rows of the data set, as if they were new, at the present weights.

        ``dd.evaluate(predictions=…, y=y)`` has metrics of them, once they are probabilities or
        numbers.
        """
        rows = self._checked(rows)
        hook = self.layer.register_forward_hook(partial(self._forward, rows))
        try:
            outputs: Tensor = self.model(x)
        finally:
            hook.remove()  # the hook must not be copied with the model
        return outputs

    def estimate(self) -> tuple[float, float]:
        """Return the mean loss over the batches since the last call, and its standard error.

        It estimates the mean test error of the iterates in between. The standard error comes from
        the spread of the batches, so it needs two of them; it is too large if the error changes a
        lot in between.
        """
        if not self._losses:
            raise ValueError("no batch was trained on since the last estimate")
        losses, sizes = torch.tensor(self._losses, dtype=torch.float64, device="cpu").T
        self._losses = []
        return mean_with_stderr(losses, sizes)

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

    def _forward(self, rows: Tensor, layer: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        """Add the memory of the batch's rows behind the first layer."""
        self._inputs = inputs[0].detach()
        self._check_inputs(self._inputs.cpu().double(), rows.cpu())
        self._h = output if self._memory is None else output + self._memory.read(rows)[0].T
        return self._h

    def _note(self, rows: Tensor, loss: Tensor) -> None:
        """Note what the step needs of a batch."""
        assert self._h is not None
        (slope,) = torch.autograd.grad(loss, self._h, create_graph=True)
        jacobian = len(rows) * autodiff.mean_jacobian(slope, self._h, turn=self.steps).detach()
        correction, slope = self.variance * jacobian @ self.weight.detach(), slope.detach()
        self._batch = _Batch(rows.to(slope.device), slope, slope.T @ self._inputs, correction)
        self._losses.append((loss.item(), len(rows)))

    @torch.no_grad()
    def _step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Correct the gradient, and move the memory as the optimiser is about to move W."""
        batch, gradient = self._batch, self.weight.grad
        if batch is None or gradient is None or len(args) > 1 or kwargs.get("closure"):
            raise ValueError(
                "optimizer.step() without a loss of this Decoupling: call loss = "
                "decoupling(x, y, rows) and loss.backward() before each optimizer.step()"
            )
        plain = batch.gradient
        factor = float((plain * gradient).sum() / plain.square().sum().clamp_min(1e-30))
        near = max(1e-3, 4 * torch.finfo(plain.dtype).eps) * float(gradient.norm())
        if not float((gradient - factor * plain).norm()) <= near:
            raise ValueError(
                "the first layer's gradient is not a multiple of that of the last batch; clip it "
                "by its norm, not by its values, and do not accumulate batches"
            )
        gradient.sub_(factor * batch.correction)
        rule = SGD(**{name: _number(self.group[name]) for name in RATES})
        if self._memory is None:
            memory = self.weight.new_zeros(len(self.weight), self.n)
            self._memory = LazyRows(memory, rule.slots(memory))
        value, *slots = self._memory.read(batch.rows)
        if bool(rule.slots(value)) != bool(slots):
            raise ValueError("momentum of the first layer was switched on or off between steps")
        scale = -factor * self.variance * self.weight.shape[1]
        moved, kept = rule(value, batch.slope.T, tuple(slots), self.steps, scale)
        self._memory.advance(transition(rule, self.steps, self.weight))
        self._memory.write(batch.rows, (moved, *kept))
        if self._memory.age * len(batch.rows) > self.n:
            self._memory.settled()
        self.steps, self._batch = self.steps + 1, None

    def _checked(self, rows: Tensor) -> Tensor:
        rows = rows.to(self.weight.device)
        inside = rows.ndim == 1 and not rows.is_floating_point() and bool((rows < self.n).all())
        if not inside or len(torch.unique(rows)) != len(rows) or bool((rows < 0).any()):
            raise ValueError(
                f"rows has shape {tuple(rows.shape)} and type {rows.dtype}; it must have one whole "
                f"number per row of the batch, at least 0 and below n = {self.n}, each at most "
                "once (sample without replacement within a batch)"
            )
        return rows

    def _check_inputs(self, x: Tensor, rows: Tensor) -> None:
        """Check that rows are the same as before, and the covariance once there are enough."""
        direction = torch.linspace(0, 3 * x.shape[1], x.shape[1], dtype=torch.float64).sin()
        marks, before = x @ direction, self._marks[rows]
        length = x.norm(dim=1).max() * direction.norm() / math.sqrt(x.shape[1])
        if bool(((marks - before).abs() > SAME * length).any()):
            raise ValueError(
                "rows names a row that had other inputs before; give the numbers of the rows in "
                "the data set, not in the batch, and do not change inputs from epoch to epoch "
                "(augmentation)"
            )
        self._marks[rows] = marks
        if self._unmeasured is not None:
            self._unmeasured.append(x[before.isnan()])
            if sum(map(len, self._unmeasured)) >= min(self.n, MOST):
                check_white(torch.cat(self._unmeasured), self.variance)
                self._unmeasured = None


def _check_model(model: nn.Module) -> None:
    """Refuse batch normalisation, and warn of kinks."""
    if any(isinstance(module, _BatchNorm) for module in model.modules()):
        raise ValueError(
            "the model has batch normalisation, which mixes rows; use nn.LayerNorm, or none, or "
            f"{INSTEAD}"
        )
    if has_kinked_module(model):
        warnings.warn(
            "the model has kinks (ReLU?), and second derivatives miss their curvature: the loss "
            "will be a little too low. Use a smooth activation, or dd.fit, which detects kinks",
            KinkWarning,
            stacklevel=outside(),
        )


def _group(optimizer: torch.optim.Optimizer, weight: Tensor) -> dict[str, Any]:
    """The parameter group of the first layer's weights; refuse rules that are not linear."""
    own = [g for g in optimizer.param_groups if any(each is weight for each in g["params"])]
    if type(optimizer) is not torch.optim.SGD or not own or own[0].get("maximize"):
        raise ValueError(
            f"optimizer is {type(optimizer).__name__}; the first layer's weights must be with "
            "torch.optim.SGD, whose steps are linear in the gradients: the memory must follow "
            "them. Adam and the like may have all other parameters, in another optimiser"
        )
    return own[0]


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) else value


def check_white(x: Tensor, variance: float) -> None:
    r"""Raise ``ValueError`` for rows whose columns are correlated or have another variance.

    Without the few directions of largest variance, which may be signal, the eigenvalues e of the
    covariance of n rows of white noise with d columns have

    .. math:: d\,\frac{\sum e^2}{(\sum e)^2} - \frac dn = 1

    on average. Five real data sets have 1.3 to 4.6, four mixtures with a strong signal 0.99 to 1.
    """
    (n, d), centred = x.shape, x - x.mean(0)
    values = torch.linalg.svdvals(centred).square() / (n - 1)
    mean = float(values.sum()) / d
    if not variance / FACTOR <= mean <= variance * FACTOR:
        raise ValueError(
            f"variance={variance:g}, but the columns of x have variance {mean:.3g} on average; "
            f"standardise them, or pass variance={mean:.3g}"
        )
    signal = min(SIGNAL, d // 4)
    rest = values[signal:]
    count = d - signal  # the values that are not listed are 0
    spread = count * float(rest.square().sum() / rest.sum() ** 2) - count / n
    if spread > SPREAD:
        raise ValueError(
            f"the columns of x are correlated (spread of variances {spread:.2g}, white noise has "
            f"1), and Decoupling is right for uncorrelated ones only; {INSTEAD}"
        )
