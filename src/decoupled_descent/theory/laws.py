r"""What state evolution is given, checked: the law of a mixture, and where an evolution starts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeGuard, TypeVar

import torch
from torch import Tensor, nn

from decoupled_descent.datasets.mixtures import GaussianMixture
from decoupled_descent.datasets.responses import Discrete, Noisy, Sampler, get_modes
from decoupled_descent.objective import Objective, Parameters
from decoupled_descent.theory.gaussian import hermite_rule

#: Default number of Gauss–Hermite nodes for a Gaussian response: exact up to degree 15 in y.
RESPONSE_NODES = 8
#: Nodes for a response that weigh less are left out: all beyond 8.5 standard deviations.
NEGLIGIBLE_WEIGHT = 1e-17

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class MixtureLimit:
    r"""A mixture given by its limits only: no means, no dimension.

    Args:
        overlaps: χ with χ_jk = lim μ_jᵀμ_k/d, shape (J, J), positive semi-definite.
        weights: p_1 … p_J.
        responses: One number or sampler per mode.

    Example:
        >>> limit = MixtureLimit([[4.0, -4.0], [-4.0, 4.0]], [0.5, 0.5], [0.0, 1.0])
        >>> limit.overlaps.shape
        torch.Size([2, 2])
    """

    means, dimension = None, None

    def __init__(
        self,
        overlaps: Tensor | Sequence[Sequence[float]],
        weights: Tensor | Sequence[float],
        responses: Sequence[float | Sampler],
    ) -> None:
        self.overlaps = as_limit(overlaps)
        if self.overlaps.ndim != 2 or self.overlaps.shape[0] != self.overlaps.shape[1]:
            raise ValueError(f"overlaps has shape {tuple(self.overlaps.shape)}; it must be (J, J)")
        require_psd("overlaps", self.overlaps)
        self.weights, self.responses = get_modes(weights, responses, len(self.overlaps))


#: What the theory needs: χ, the weights p_j and the response laws, with or without means.
MixtureLaw = GaussianMixture | MixtureLimit


class Atom(NamedTuple):
    """One mode with one value of its response, and the probability of both."""

    mode: int
    response: float | None  # None for all values of a law that is not enumerated
    weight: float


def atoms(mixture: MixtureLaw, order: int | None = RESPONSE_NODES) -> list[Atom]:
    """Enumerate modes and responses.

    Discrete laws are exact. A Gaussian response becomes a Gauss–Hermite rule of this order; without
    an order it is not enumerated, like responses of any other law.
    """
    result: list[Atom] = []
    for mode, (p, law) in enumerate(zip(mixture.weights.tolist(), mixture.responses, strict=True)):
        values: Sequence[float | None] = [None]
        weights: Sequence[float] = [1.0]
        if isinstance(law, Discrete):
            values, weights = law.values, law.probabilities
        elif order is not None and is_gaussian(law):
            nodes, masses = response_rule(order)
            values, weights = (law.mean + law.scale * nodes).tolist(), masses.tolist()
        pairs = zip(values, weights, strict=True)
        result += [Atom(mode, y, p * q) for y, q in pairs if p * q > 0]
    return result


def is_gaussian(law: Sampler) -> TypeGuard[Noisy]:
    """Whether a response law is N(mean, scale²)."""
    return isinstance(law, Noisy) and law.sampler is None


def can_be_enumerated(mixture: MixtureLaw) -> bool:
    """Whether all response laws are discrete or Gaussian."""
    return all(isinstance(law, Discrete) or is_gaussian(law) for law in mixture.responses)


def response_rule(order: int) -> tuple[Tensor, Tensor]:
    """Gauss–Hermite nodes and weights for a Gaussian response, without those of negligible weight.

    Of N nodes about 5 √N are left, so that high orders are cheap.
    """
    nodes, weights = hermite_rule(order)
    kept = weights > NEGLIGIBLE_WEIGHT
    return nodes[kept], weights[kept] / weights[kept].sum()


def typical_responses(mixture: MixtureLaw) -> Tensor:
    """Return all responses where they can be enumerated, else a few of every mode."""
    if can_be_enumerated(mixture):
        responses = sorted({atom.response for atom in atoms(mixture) if atom.response is not None})
        return torch.tensor(responses, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    return torch.cat([law(4, generator).double() for law in mixture.responses])


def require_psd(name: str, matrix: Tensor, remedy: str = "") -> None:
    """Raise ``ValueError`` unless a matrix is finite, symmetric and positive semi-definite."""
    if not bool(matrix.isfinite().all()):
        raise ValueError(f"{name} contains NaN or infinite entries")
    scale = max(float(matrix.abs().max()), 1e-300)
    if float((matrix - matrix.T).abs().max()) > 1e-8 * scale:
        raise ValueError(f"{name} is not symmetric")
    lowest = float(torch.linalg.eigvalsh((matrix + matrix.T) / 2)[0])
    if lowest < -1e-8 * scale:
        raise ValueError(
            f"{name} is not positive semi-definite: its lowest eigenvalue is {lowest:.3g}"
            + (f"; {remedy}" if remedy else "")
        )


def as_limit(values: Any) -> Tensor:
    """Return a detached tensor in float64 on the CPU."""
    return torch.as_tensor(values, dtype=torch.float64, device="cpu").detach()


def check_limits(mixture: MixtureLaw, alignment: Tensor, overlap: Tensor) -> None:
    r"""Raise ``ValueError`` unless χ, m and Ω can be overlaps of actual vectors.

    .. math:: \begin{bmatrix}\Omega & m^\top\\ m & \chi\end{bmatrix} \succeq 0

    is the Gram matrix of (θ, μ_1, …, μ_J)/√d.
    """
    width, modes = overlap.shape[-1], len(mixture.overlaps)
    if overlap.shape != (width, width):
        raise ValueError(f"overlap has shape {tuple(overlap.shape)}; it must be (L, L)")
    if alignment.shape != (modes, width):
        raise ValueError(
            f"alignment has shape {tuple(alignment.shape)}; with J = {modes} modes and an overlap "
            f"of width L = {width} it must be ({modes}, {width})"
        )
    require_psd("the mixture's overlaps", mixture.overlaps)
    require_psd("overlap", overlap, "it must be θ θᵀ/d for θ of shape (L, d)")
    joint = torch.cat(
        [torch.cat([overlap, alignment.T], 1), torch.cat([alignment, mixture.overlaps], 1)]
    )
    require_psd(
        "the Gram matrix of theta and the means",
        joint,
        "alignment is too large for this overlap and these means: pass both as computed from one "
        "theta, alignment = means θᵀ/d and overlap = θ θᵀ/d",
    )


def check_theta(mixture: MixtureLaw, theta: Any) -> tuple[Tensor, Tensor]:
    """Return the means, shape (J, d), and θ, shape (L, d), in float64."""
    means = mixture.means
    if means is None:
        raise ValueError(
            "theta needs a mixture with means; leave it out, or pass alignment and overlap instead"
        )
    theta = as_limit(theta)
    if theta.ndim != 2 or theta.shape[1] != means.shape[1]:
        raise ValueError(
            f"theta has shape {tuple(theta.shape)}; for this mixture it must be "
            f"(L, {means.shape[1]}), laid out as nn.Linear.weight"
        )
    return means, theta


def head_parameters(
    objective: Objective, head: nn.Module | Mapping[str, Tensor] | None = None
) -> Parameters:
    """Return a in float64 from a module or a mapping; the objective's own values by default."""
    own = objective.parameters(torch.zeros((), dtype=torch.float64))
    if head is None:
        return own
    parameters = dict(head.named_parameters()) if isinstance(head, nn.Module) else dict(head)
    for name, value in own.items():
        if name not in parameters or parameters[name].shape != value.shape:
            raise ValueError(
                f"head has no parameter {name!r} of shape {tuple(value.shape)}; its parameters "
                f"must be those of the objective's head: {', '.join(own)}"
            )
    return {name: as_limit(parameters[name]) for name in own}


def on_cpu(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Make tensors on the CPU within a function, for any default device of PyTorch."""

    @functools.wraps(function)
    def wrapped(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        if torch.get_default_device().type == "cpu":
            return function(*arguments, **options)
        with torch.device("cpu"):
            return function(*arguments, **options)

    return wrapped
