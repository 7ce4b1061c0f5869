r"""Mean Jacobians across kinks (ReLU, hinge, absolute loss), by macroscopic differences.

Where g jumps, its mean derivative over Gaussian h has a contribution from the jump that autodiff,
which looks at one point at a time, cannot see. A central difference with a step that many rows
straddle does see it:

.. math:: \bar J_{ij} = \frac1n\sum_r \frac{g_i(h_r + \delta_j e_j) - g_i(h_r - \delta_j e_j)}
   {2\delta_j}, \qquad \delta_j = 2\,\mathrm{sd}(h_j)\, n^{-1/5} .

The step is half a standard deviation at n = 1000 and shrinks at the rate that balances bias
(∝ δ²) against noise (∝ 1/√(nδ)), so the estimate is consistent as n grows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from decoupled_descent.objective.objective import Direction, Objective
from torch.nn import functional

from decoupled_descent.objective.derivatives import Parameters
from decoupled_descent.objective.heads import Elementwise
from decoupled_descent.objective.losses import varied_rows

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


class KinkWarning(UserWarning):
    """A head or loss has kinks, so smoothed curvature is used."""


def spacing(spread: Tensor, n: int) -> Tensor:
    """δ = 2 sd(h) n^{−1/5}, one step per coordinate.

    Args:
        spread: Standard deviation of each pre-activation, shape (L,).
        n: Number of rows.

    Returns:
        δ, shape (L,), positive.
    """
    return torch.clamp_min((2 * n**-0.2) * spread, torch.finfo(spread.dtype).eps ** 0.5)


def mean_jacobian(
    g: Callable[[Tensor], Tensor], h: Tensor, steps: Tensor, weights: Tensor | None = None
) -> Tensor:
    r"""Mean Jacobian of a row-wise function by macroscopic central differences.

    Args:
        g: (n, L) to (n, L), row by row.
        h: Pre-activations, shape (n, L).
        steps: δ, shape (L,).
        weights: How much each row counts, shape (n,); one each by default.

    Returns:
        J̄, shape (L, L), with J̄[i, j] the mean of ∂g_i/∂h_j.

    Example:
        >>> h = torch.linspace(-1, 1, 401).unsqueeze(1)
        >>> mean_jacobian(lambda h: (h > 0).float(), h, torch.tensor([0.25])).round(decimals=1)
        tensor([[0.5000]])
    """
    columns = []
    for coordinate, step in enumerate(steps.tolist()):
        shift = torch.zeros_like(h[:1])
        shift[0, coordinate] = step
        change = (g(h + shift) - g(h - shift)) / (2 * step)
        columns.append(change.mean(0) if weights is None else weights @ change / len(h))
    return torch.stack(columns, 1)


def has_kinked_module(head: nn.Module) -> bool:
    """Whether a head contains a module or a function that is known to have kinks."""
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
    reach: float = 4.0,
    centre: Tensor | float = 0.0,
) -> bool:
    """Probe numerically whether g jumps anywhere along a few lines.

    Every line is cut into intervals, and every interval is halved again and again, keeping the half
    across which g changes more. Across an interval of length 3e-11 (in float32 1e-5) a continuous g
    hardly changes; a jump stays what it was. What grows beyond measure instead is a pole, and what
    is nan is left out.

    Args:
        g: (h, y) to (n, L), row by row.
        width: L.
        y: Labels to probe with; they give the device.
        dtype: What to probe in.
        reach: How far from the centre to look.
        centre: Where to look, one row per label; around zero by default, for h is of order one.

    Returns:
        Whether a jump was found.

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
    lines = torch.cat([along.repeat(len(y) // width + 1, 1)[: len(y)], _unit(starts.flip(1))])
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
    for _ in range(halvings + max(0, math.ceil(math.log2(reach / 4)))):
        middle = (left + right) / 2
        value = evaluate(middle)
        largest = torch.fmax(largest, value.abs())
        first = (value - low).abs().amax(1) >= (high - value).abs().amax(1)
        pick = first.unsqueeze(1)
        left, right = torch.where(pick, left, middle), torch.where(pick, middle, right)
        low, high = torch.where(pick, low, value), torch.where(pick, value, high)
    pole = largest > 1e3 * scale
    return bool(((high - low).abs() > share * largest).logical_and(~pole).any())


def _unit(vectors: Tensor) -> Tensor:
    return functional.normalize(vectors, dim=1)


def find_kinks(objective: Objective, y: Tensor, width: int, g: Direction | None) -> bool:
    """Probe the directions of an objective for jumps.

    Args:
        objective: Ψ.
        y: Labels, from which some that differ are probed with.
        width: L.
        g: Replaces ∇_hΨ. One that works on its own rows only (weights per sample, say) cannot be
            probed and is taken to be smooth.

    Returns:
        Whether a jump was found, with the head as it is or with weights grown fivefold.
    """
    labels = y[varied_rows(y, 16)]
    for dtype in (torch.float64, torch.float32):  # a loss may hold constants in float32
        try:
            return any(
                jumps(partial(_direction, objective, scale, g), width, labels, dtype)
                for scale in (1.0, 5.0)
            )
        except (RuntimeError, ValueError) as error:
            failure = error
    if g is None:
        raise failure
    return False


def grown(objective: Objective, scale: float, like: Tensor) -> Parameters:
    """Return enlarged weights, zeros replaced by noise: small weights would hide kinks."""
    noise = torch.Generator().manual_seed(0)
    return {
        k: scale * torch.where(v == 0, torch.randn(v.shape, generator=noise, device="cpu").to(v), v)
        for k, v in objective.parameters(like).items()
    }


def _direction(
    objective: Objective, scale: float, g: Direction | None, h: Tensor, y: Tensor
) -> Tensor:
    """Evaluate g with enlarged weights."""
    parameters = grown(objective, scale, h)
    y = y.to(h) if y.is_floating_point() else y
    return objective.derivatives(h, y, parameters, g=g, jacobian=False, head=False).direction
