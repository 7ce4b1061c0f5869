"""Losses, one value per row, with the derivatives and label checks that go with them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

RowLoss = Callable[[Tensor, Tensor], Tensor]

#: Pieces of the window over which a loss with kinks is averaged.
PIECES = 16


class Expansion(NamedTuple):
    r"""A loss to second order in its outputs, feature by feature: all but ``value`` are (K, n)."""

    value: Tensor  # ℓ(u, y), shape (n,)
    slope: Tensor  # ∂ℓ/∂u
    diagonal: Tensor  # b in the Hessian ∂²ℓ/∂u² = diag(b) − c cᵀ
    rank_one: Tensor | None = None  # c, or None where the Hessian is diagonal


class Loss(NamedTuple):
    """A loss ℓ(u, y) of the head's outputs u (n, K) and the labels y, row by row.

    Attributes:
        name: What users write.
        value: (u, y) ↦ ℓ, shape (n,).
        expand: (uᵀ, yᵀ) ↦ value and derivatives; None when only autodiff knows them.
        categorical: Whether labels are class indices (n,) rather than shaped like the outputs.
        smooth: Whether the first derivative is continuous (no kinks).
    """

    name: str
    value: RowLoss
    expand: Callable[[Tensor, Tensor], Expansion] | None = None
    categorical: bool = False
    smooth: bool = True

    @property
    def builtin(self) -> bool:
        """Whether this is one of the named losses, called with (n, K) outputs."""
        return LOSSES.get(self.name) == self  # not `is`: a copy from another process is equal


def _total(losses: Tensor) -> Tensor:
    """Sum over outputs, (K, n) to (n,); a view for a single output."""
    return losses[0] if losses.shape[0] == 1 else losses.sum(0)


def _squared(outputs: Tensor, labels: Tensor) -> Tensor:
    return (outputs - labels).square().sum(1).mul(0.5)


def _expand_squared(outputs: Tensor, labels: Tensor) -> Expansion:
    """ℓ' = u − y and ℓ'' = 1."""
    residual = outputs - labels
    return Expansion(_total(residual.square() * 0.5), residual, torch.ones_like(residual))


def _absolute(outputs: Tensor, labels: Tensor) -> Tensor:
    return (outputs - labels).abs().sum(1)


def _softplus(outputs: Tensor) -> Tensor:
    """log(1 + eᵘ); torch's default threshold of 20 would leave an error of 2e-9."""
    return functional.softplus(outputs, threshold=40)


def _logistic(outputs: Tensor, labels: Tensor) -> Tensor:
    losses = functional.binary_cross_entropy_with_logits(outputs, labels, reduction="none")
    return losses.squeeze(1) if losses.shape[1] == 1 else losses.sum(1)


def _expand_logistic(outputs: Tensor, labels: Tensor) -> Expansion:
    """With p = 1/(1 + e^{−u}): ℓ' = p − y and ℓ'' = p (1 − p)."""
    probability = torch.sigmoid(outputs)
    losses = torch.addcmul(_softplus(outputs), labels, outputs, value=-1)
    diagonal = torch.addcmul(probability, probability, probability, value=-1)
    return Expansion(_total(losses), probability - labels, diagonal)


def _cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(outputs, labels, reduction="none")


def _expand_cross_entropy(outputs: Tensor, labels: Tensor) -> Expansion:
    """With p = softmax(u): ∂ℓ/∂u = p − e_y and ∂²ℓ/∂u² = diag(p) − p pᵀ."""
    logarithm = torch.log_softmax(outputs, 0)
    probability, chosen = logarithm.exp(), labels.unsqueeze(0)
    slope = probability.scatter_add(0, chosen, -torch.ones_like(outputs[:1]))
    return Expansion(-logarithm.gather(0, chosen)[0], slope, probability, probability)


LOSSES = {
    "squared": Loss("squared", _squared, _expand_squared),
    "absolute": Loss("absolute", _absolute, smooth=False),
    "logistic": Loss("logistic", _logistic, _expand_logistic),
    "cross_entropy": Loss("cross_entropy", _cross_entropy, _expand_cross_entropy, categorical=True),
}


def get_loss(loss: str | RowLoss) -> Loss:
    r"""Look a loss up by name, or wrap a callable.

    ========================  =====================================  ========================
    name                      ℓ(u, y)                                labels
    ========================  =====================================  ========================
    ``"squared"``             ½ (u − y)²                             real
    ``"absolute"``            \|u − y\|                              real
    ``"logistic"``            log(1 + eᵘ) − y u, u a logit           in [0, 1]
    ``"cross_entropy"``       log Σₖ e^{uₖ} − u_y                    class index 0 … K − 1
    ========================  =====================================  ========================

    The first three sum over outputs when the head has several.

    Args:
        loss: One of the names above, or ``loss(outputs, y)`` returning one value per row.

    Returns:
        The loss.

    Example:
        >>> import torch
        >>> get_loss("squared").value(torch.tensor([[2.0]]), torch.tensor([[0.0]]))
        tensor([2.])
    """
    if callable(loss):
        return Loss(getattr(loss, "__name__", type(loss).__name__), loss)
    if loss not in LOSSES:
        raise ValueError(f"loss={loss!r} is unknown; use one of {', '.join(LOSSES)} or a callable")
    return LOSSES[loss]


def check_labels(loss: Loss, labels: Tensor, outputs: int) -> None:
    """Raise ``ValueError`` when the labels cannot belong to a named loss with K outputs."""
    if loss.categorical:
        _check_classes(labels, outputs)
        return
    columns = labels.shape[1] if labels.ndim == 2 else 1
    if columns != outputs:
        raise ValueError(
            f"the head has {outputs} output(s) but y has {columns} column(s); loss "
            f"{loss.name!r} compares them one by one (for class labels use 'cross_entropy')"
        )
    if loss.name == "logistic" and not ((labels >= 0) & (labels <= 1)).all():
        worst = labels[(labels < 0) | (labels > 1)][0].item()
        raise ValueError(
            f"y contains {worst:g}, but loss 'logistic' needs labels between 0 and 1; "
            "map labels -1/+1 with (y + 1) / 2"
        )


@torch.no_grad()
def check_rows_one_by_one(loss: Loss, outputs: Tensor, y: Tensor) -> None:
    """Raise ``ValueError`` unless a user's loss treats rows one by one.

    ``outputs`` are the head's for a few rows; some labels that differ are tried.
    """
    rows = varied_rows(y, len(outputs))
    outputs = outputs[: len(rows)]
    losses, count = _try(loss, outputs, y[rows]), len(rows)
    given = f"(it is given outputs of shape {_shape(outputs)} and y of shape {_shape(y)})"
    if losses.shape != (count,):
        raise ValueError(
            f"loss {loss.name!r} returned shape {tuple(losses.shape)} for {count} rows; "
            f"it must return one value per row, without averaging {given}"
        )
    pairs = [(outputs[[k, k]], y[rows[[k, k]]]) for k in range(count)]
    alone = torch.stack([_try(loss, *pair)[0] for pair in pairs]).double()
    losses = losses.double()
    size = float(losses.abs().nan_to_num(0.0, 0.0).max())
    if not torch.allclose(alone, losses, rtol=1e-3, atol=1e-5 * size, equal_nan=True):
        raise ValueError(
            f"loss {loss.name!r} mixes rows or is random: a row has another loss beside "
            f"other rows {given}. Check how shapes broadcast (u.squeeze(1) turns (n, 1) into "
            "(n,)), and take no means over rows"
        )


def _try(loss: Loss, outputs: Tensor, y: Tensor) -> Tensor:
    try:
        return loss.value(outputs.clone(), y)
    except Exception as error:
        raise ValueError(
            f"loss {loss.name!r} fails for outputs of shape {tuple(outputs.shape)} and y "
            f"of shape {tuple(y.shape)}: {error}. A loss is given some of the rows at a time, "
            "so pass weights per row and the like as further columns of y"
        ) from error


def _shape(rows: Tensor) -> str:
    """(n, …), whatever n is."""
    return f"({', '.join(['n', *map(str, rows.shape[1:])])}{',' if rows.ndim == 1 else ''})"


def _check_classes(labels: Tensor, outputs: int) -> None:
    if outputs < 2:
        raise ValueError(
            f"loss 'cross_entropy' needs a head with one output per class, but this head has "
            f"{outputs}; give the head at least 2 outputs or use loss 'logistic'"
        )
    if labels.ndim != 1:
        raise ValueError(
            f"y has shape {tuple(labels.shape)}, but loss 'cross_entropy' needs class indices of "
            "shape (n,); use y.argmax(1) for one-hot labels"
        )
    fractional = labels.is_floating_point() and bool((labels != labels.round()).any())
    if fractional or labels.min() < 0 or labels.max() >= outputs:
        raise ValueError(
            f"y runs from {labels.min().item():g} to {labels.max().item():g}, but loss "
            f"'cross_entropy' with {outputs} outputs needs class indices 0 … {outputs - 1}; "
            "encode the classes as 0, 1, 2, … or give the head more outputs"
        )


def varied_rows(labels: Tensor, count: int) -> Tensor:
    """Return indices of at most ``count`` rows whose labels differ, rare classes and extremes too.

    They are spread evenly over the distinct values of every column of y; some are repeated where
    there are few values.

    Example:
        >>> varied_rows(torch.tensor([0, 0, 0, 1, 0, 0]), 4)
        tensor([0, 0, 3, 3])
    """
    columns = labels.reshape(len(labels), -1).T[: max(1, count // 2)]
    picked = []
    for column in columns:
        values, order = column.sort(stable=True)
        fresh = torch.ones_like(values, dtype=torch.bool)
        fresh[1:] = values[1:] != values[:-1]
        firsts = order[fresh]
        ranks = torch.linspace(0, len(firsts) - 1, count // len(columns), device=labels.device)
        picked.append(firsts[ranks.round().long()])
    return torch.cat(picked)


def curvature(loss: Loss, outputs: Tensor, y: Tensor) -> float:
    r"""Mean over rows and outputs of \|∂²ℓ(u_i, y_i)/∂u_ik²\|.

    Example:
        >>> curvature(get_loss("logistic"), torch.zeros(3), torch.ones(3))
        0.25
    """
    outputs, y = _as_called(loss, outputs, y)
    with torch.enable_grad():
        outputs = outputs.detach().clone().requires_grad_()
        total = loss.value(outputs, y).sum()
        (slope,) = torch.autograd.grad(total, outputs, create_graph=True)
        if not slope.requires_grad:
            return 0.0
        columns = slope.reshape(len(slope), -1).sum(0)
        bends = [torch.autograd.grad(c, outputs, retain_graph=True)[0] for c in columns]
    own = torch.stack([b.reshape(len(b), -1)[:, k] for k, b in enumerate(bends)])
    return float(own.abs().mean())


def usual_curvature(loss: Loss, outputs: Tensor, y: Tensor) -> float:
    r"""Return κ, the curvature of a loss that learning rates follow.

    It is the larger of the curvatures at outputs of zero, where training starts, and at the best
    constant output: a robust loss with labels far from zero bends only there. A loss that bends
    nowhere but in kinks has its largest slope instead. κ is 1 for squared and absolute loss, 1/4
    for logistic, (1 − 1/K)/K for softmax with K classes. Only the shape of ``outputs`` matters.

    Example:
        >>> usual_curvature(get_loss("absolute"), torch.zeros(3), torch.ones(3))
        1.0
    """
    zero = torch.zeros_like(outputs)
    found = [curvature(loss, zero, y)]
    if not loss.builtin:  # the named losses bend most at zero
        found.append(curvature(loss, zero + _best_constant(loss, zero, y), y))
    kappa = max((value for value in found if math.isfinite(value)), default=0.0)
    return kappa or _largest_slope(loss, zero, y) or 1.0


def _as_called(loss: Loss, outputs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs and labels in the shapes that training gives to the loss."""
    if not loss.builtin:
        return outputs, y
    outputs = outputs.unsqueeze(1) if outputs.ndim == 1 else outputs
    return outputs, y.long() if loss.categorical else y.reshape(outputs.shape).to(outputs)


def _best_constant(loss: Loss, zero: Tensor, y: Tensor) -> Tensor:
    """The output, one for all rows, with the lowest mean loss; near it is near enough."""
    constant = zero[0].clone().requires_grad_()
    optimiser = torch.optim.Rprop([constant], step_sizes=(1e-12, 1e12))  # goes by signs: no scale
    with torch.enable_grad():
        for _ in range(100):
            error = loss.value(zero + constant, y).mean()
            (constant.grad,) = torch.autograd.grad(error, constant)
            optimiser.step()
    return constant.detach()


def _largest_slope(loss: Loss, zero: Tensor, y: Tensor) -> float:
    zero, y = _as_called(loss, zero, y)
    with torch.enable_grad():
        zero = zero.detach().clone().requires_grad_()
        (slope,) = torch.autograd.grad(loss.value(zero, y).sum(), zero)
    largest = float(slope.abs().max())
    return largest if math.isfinite(largest) else 0.0


class Curvature(NamedTuple):
    r"""A loss to second order at the outputs of n rows, row by row.

    Attributes:
        value: ℓ(o_i, y_i), shape (n,).
        slope: ∂ℓ/∂o, shape (n, K).
        diagonal: b in W_i = diag(b_i) − c_i c_iᵀ, shape (n, K).
        rank_one: c, shape (n, K), or None where W_i is diagonal.
        full: W_i itself, shape (n, K, K), where it has no such form; None otherwise.
    """

    value: Tensor
    slope: Tensor
    diagonal: Tensor
    rank_one: Tensor | None = None
    full: Tensor | None = None

    def matrices(self, rows: slice = slice(None)) -> Tensor:
        """W_i of some rows, all by default, shape (n, K, K)."""
        if self.full is not None:
            return self.full[rows]
        diagonal = torch.diag_embed(self.diagonal[rows])
        if self.rank_one is None:
            return diagonal
        arms = self.rank_one[rows]
        return diagonal - arms.unsqueeze(2) * arms.unsqueeze(1)


def second_order(loss: Loss, outputs: Tensor, y: Tensor, smoothing: float = 0.0) -> Curvature:
    r"""Expand a loss at outputs of shape (n, K).

    With ``smoothing`` δ, the loss is averaged over outputs u − δ … u + δ, which turns kinks into
    parabolas: the absolute loss becomes Huber's. Values and slopes are means over the window, and
    ℓ'' is (ℓ'(u + δ) − ℓ'(u − δ))/2δ.

    Example:
        >>> bends = second_order(get_loss("absolute"), torch.tensor([[0.0]]), torch.zeros(1), 0.5)
        >>> bends.slope, bends.diagonal
        (tensor([[0.]]), tensor([[2.]]))
    """
    if loss.expand is not None and not smoothing:
        labels = y.long() if loss.categorical else y.reshape(outputs.shape).to(outputs).T
        found = loss.expand(outputs.T, labels)
        arms = None if found.rank_one is None else found.rank_one.T
        return Curvature(found.value, found.slope.T, found.diagonal.T, arms)
    if smoothing:
        return _windowed(loss, outputs, y, smoothing)
    with torch.enable_grad():
        outputs = outputs.detach().requires_grad_()
        value = _value(loss, outputs, y)
        (slope,) = torch.autograd.grad(value.sum(), outputs, create_graph=True)
        parts = list(slope.sum(0)) if slope.requires_grad else []
        bends = [torch.autograd.grad(part, outputs, retain_graph=True)[0] for part in parts]
    full = torch.stack(bends, 1) if bends else torch.diag_embed(torch.zeros_like(outputs))
    diagonal = full.diagonal(dim1=1, dim2=2)
    coupled = outputs.shape[1] > 1 and not torch.equal(torch.diag_embed(diagonal), full)
    return Curvature(value.detach(), slope.detach(), diagonal, None, full if coupled else None)


def _value(loss: Loss, outputs: Tensor, y: Tensor) -> Tensor:
    """The loss row by row, for outputs of shape (n, K)."""
    return loss.value(*_as_called(loss, outputs, y))


def _windowed(loss: Loss, outputs: Tensor, y: Tensor, width: float) -> Curvature:
    """Averages over u_k − δ … u_k + δ, for each output k by itself.

    Slopes and their derivatives are differences of the loss and its slopes at the ends. Values are
    those of two tangents in each of ``PIECES`` pieces: exact for losses that are linear but for
    kinks, so that values and slopes agree.
    """

    def expand(k: int, shift: float) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            u = outputs.detach().clone()
            u[:, k] += shift
            value = _value(loss, u.requires_grad_(), y)
            return value.detach(), torch.autograd.grad(value.sum(), u)[0][:, k]

    points = torch.linspace(-width, width, PIECES + 1, dtype=torch.float64).tolist()
    means, slopes, bends = [], [], []
    for k in range(outputs.shape[1]):
        found = [expand(k, point) for point in points]
        values, tangents = (torch.stack(parts) for parts in zip(*found, strict=True))
        means.append(_between_tangents(values, tangents, 2 * width / PIECES).mean(0))
        slopes.append((values[-1] - values[0]) / (2 * width))
        bends.append(((tangents[-1] - tangents[0]) / (2 * width)).clamp_min(0))
    centre = _value(loss, outputs, y).detach()
    value = centre + (torch.stack(means) - centre).sum(0)
    return Curvature(value, torch.stack(slopes, 1), torch.stack(bends, 1))


def _between_tangents(values: Tensor, slopes: Tensor, step: float) -> Tensor:
    """Mean over each piece of the tangent at its left end, then that at its right end."""
    left, right = values[:-1], values[1:]
    first, second = slopes[:-1], slopes[1:]
    bend = second - first
    flat = bend.abs() <= 1e-12 * (first.abs() + second.abs())
    meet = (left + step * second - right) / torch.where(flat, 1.0, bend)  # where they cross
    meet = torch.where(flat, 0.5 * step, meet).clamp(0, step)
    rest = step - meet
    area = meet * (left + 0.5 * meet * first) + rest * (right - 0.5 * rest * second)
    return area / step
