r"""Kinks: points where derivatives jump, and how they are detected.

Kinks matter twice. In training, autodiff's mean Jacobian misses the jumps of g silently, so J̄ is
taken by :mod:`~decoupled_descent.objective.smoothed` differences. In state evolution, quadrature
converges slowly across them, so averages are sampled.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from decoupled_descent.objective.derivatives import Parameters
from decoupled_descent.objective.heads import Elementwise
from decoupled_descent.objective.labels import varied_rows
from decoupled_descent.objective.losses import Loss

#: Modules whose derivative jumps. (ELU, CELU and Mish do not: theirs is continuous.)
KINKED: tuple[type[nn.Module], ...] = (
    nn.ReLU,
    nn.LeakyReLU,
    nn.PReLU,
    nn.RReLU,
    nn.ReLU6,
    nn.SELU,
    nn.Hardtanh,
    nn.Hardsigmoid,
    nn.Hardswish,
    nn.Hardshrink,
    nn.Softshrink,
    nn.Threshold,
    nn.modules.pooling._MaxPoolNd,
    nn.modules.pooling._AdaptiveMaxPoolNd,
)
#: The same for plain functions.
KINKED_FUNCTIONS = (torch.relu, functional.relu)
#: How many labels to probe with.
PROBED = 16
#: The distance from zero and from the labels within which kinks are searched for; h is of order
#: one.
NEAR = 4.0

#: A function to probe along lines: (h, y, a) ↦ one number, row or matrix per sample.
Values = Callable[[Tensor, Tensor, Parameters], Tensor]
#: The head's parameters in the dtype of a tensor.
ParametersLike = Callable[[Tensor], Parameters]


class KinkWarning(UserWarning):
    """A head, a loss or a g has kinks, so smoothed differences are used."""


def has_kinked_module(head: nn.Module) -> bool:
    """Whether a head contains a module or a function with kinks."""
    return any(
        isinstance(module, KINKED)
        or (isinstance(module, Elementwise) and module.function in KINKED_FUNCTIONS)
        for module in head.modules()
    )


def jumps(
    g: Callable[[Tensor, Tensor], Tensor],
    width: int,
    y: Tensor,
    dtype: torch.dtype = torch.float64,
    reach: float = NEAR,
    centre: Tensor | float = 0.0,
) -> bool:
    """Probe numerically whether g(h, y) jumps along a few lines within ``reach`` of ``centre``.

    Every line is cut into intervals. Every interval is halved many times, keeping the half across
    which g changes more. Across an interval of length 3e-11 (in float32 1e-5) a continuous g hardly
    changes, while a jump keeps its size. Poles and NaN are ignored.

    Example:
        >>> y = torch.zeros(4)
        >>> jumps(lambda h, y: h.tanh(), 2, y), jumps(lambda h, y: h.sign(), 2, y)
        (False, True)
    """
    generator = torch.Generator().manual_seed(0)
    starts = torch.randn(
        len(y), width, generator=generator, dtype=torch.float64, device=generator.device
    ).to(y.device, dtype)
    along = torch.eye(width, dtype=dtype, device=y.device)
    oblique = functional.normalize(starts.flip(1), dim=1)
    lines = torch.cat([along.repeat(len(y) // width + 1, 1)[: len(y)], oblique])
    starts, labels = (starts + centre).repeat(2, 1), torch.cat([y, y])
    cuts = torch.linspace(-reach, reach, 65, dtype=dtype, device=y.device)
    lines, starts, labels = (x.repeat_interleave(64, 0) for x in (lines, starts, labels))
    left = cuts[:-1].repeat(len(labels) // 64).unsqueeze(1)
    right = cuts[1:].repeat(len(labels) // 64).unsqueeze(1)

    def evaluate(position: Tensor) -> Tensor:
        return g(starts + position * lines, labels)

    low, high = evaluate(left), evaluate(right)
    halvings, share = (32, 1e-4) if dtype == torch.float64 else (13, 1e-2)
    scale = low.abs().nan_to_num(0.0, torch.inf).amax().clamp_min(torch.finfo(dtype).tiny ** 0.5)
    largest = scale.expand(low.shape)
    for _ in range(halvings + max(0, math.ceil(math.log2(reach / NEAR)))):
        middle = (left + right) / 2
        value = evaluate(middle)
        largest = torch.fmax(largest, value.abs())
        first = (value - low).abs().amax(1) >= (high - value).abs().amax(1)
        pick = first.unsqueeze(1)
        left, right = torch.where(pick, left, middle), torch.where(pick, middle, right)
        low, high = torch.where(pick, low, value), torch.where(pick, value, high)
    pole = largest > 1e3 * scale
    return bool(((high - low).abs() > share * largest).logical_and(~pole).any())


def values_jump(values: Values, parameters: ParametersLike, width: int, y: Tensor) -> bool:
    """Probe values(h, y, a) with a few labels, the head as it is, and five times as large weights.

    If float64 fails (a loss may have constants in float32), float32 is tried; if both fail, the
    error is raised.
    """
    labels = y[varied_rows(y, PROBED)]

    def jump(growth: float, dtype: torch.dtype) -> bool:
        def at(h: Tensor, labels: Tensor) -> Tensor:
            labels = labels.to(h) if labels.is_floating_point() else labels
            result = values(h, labels, grown(parameters(h), growth)).detach()
            return result.reshape(len(h), -1)

        return jumps(at, width, labels, dtype)

    growths = (1.0, 5.0) if parameters(torch.zeros(1)) else (1.0,)
    try:
        return any(jump(growth, torch.float64) for growth in growths)
    except (RuntimeError, ValueError):
        return any(jump(growth, torch.float32) for growth in growths)


def grown(parameters: Parameters, scale: float) -> Parameters:
    """Return larger weights, zeros replaced by noise, because small weights hide kinks."""
    noise = torch.Generator().manual_seed(0)
    return {
        k: scale * torch.where(v == 0, torch.randn(v.shape, generator=noise, device="cpu").to(v), v)
        for k, v in parameters.items()
    }


def loss_jumps(
    loss: Loss,
    head: Callable[[Tensor, Parameters], Tensor],
    parameters: ParametersLike,
    width: int,
    y: Tensor,
) -> bool:
    r"""Probe the slope ∂ℓ/∂u of a loss for jumps, at any outputs u that the head may reach.

    If labels are far from zero, so are the kinks of \|u − y\|, and the outputs of an untrained head
    are not near them. So the probed u are near zero, near the labels, and up to twice the largest
    label. A loss that fails on the probe counts as smooth.
    """
    y = y[varied_rows(y, PROBED)]
    generator, shape = torch.Generator().manual_seed(0), (64, width)
    normal = torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu")
    for dtype in (torch.float64, torch.float32):  # a loss may hold constants in float32
        labels = y.reshape(len(y), -1).to(dtype)
        far = 2 * float(labels.abs().max())
        h, largest = normal.to(labels), max(NEAR, far)
        try:
            with torch.no_grad():  # small and large h; weights may start near zero
                reached = [
                    head(scale * h, grown(parameters(h), growth))
                    for scale in (1.0, largest)
                    for growth in (1.0, 1e3 * largest, -1e3 * largest)
                ]
            outputs = torch.cat(reached)
            slopes, count = _slopes(loss, outputs), outputs[0].numel()
            if jumps(slopes, count, y, dtype, NEAR):
                return True
            classes = count > 1 and not y.is_floating_point()
            if classes or far <= NEAR:
                return False
            nearby = labels[:, torch.arange(count, device=y.device) % labels.shape[1]]
            if jumps(slopes, count, y, dtype, NEAR, nearby):
                return True
            return dtype == torch.float64 and jumps(slopes, count, y, dtype, far)
        except Exception:  # a loss may fail for outputs that no head produces
            continue
    return False


def _slopes(loss: Loss, outputs: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """∂ℓ/∂u; nan beyond the range of the outputs and where the loss is not finite."""
    lowest = outputs.nan_to_num(torch.inf, torch.inf, -torch.inf).amin(0)
    highest = outputs.nan_to_num(-torch.inf, torch.inf, -torch.inf).amax(0)

    def slopes(u: Tensor, y: Tensor) -> Tensor:
        y = y.to(u) if y.is_floating_point() else y
        u = u.reshape(-1, *outputs.shape[1:])
        with torch.enable_grad():
            within = u.clamp(lowest, highest).detach().requires_grad_()
            value = loss.of(within.clone(), y)
            (slope,) = torch.autograd.grad(value.sum(), within)
        slope = slope.masked_fill(within != u, torch.nan).reshape(len(u), -1)
        return slope.masked_fill(~value.detach().isfinite().unsqueeze(1), torch.nan)

    return slopes
