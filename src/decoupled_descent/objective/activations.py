"""Elementwise activations σ with σ' and σ'', each formula in its docstring."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from decoupled_descent.objective.heads import Elementwise


class Bend(NamedTuple):
    """δ ⊙ σ''(z) as scale · left ⊙ right, so that sums over rows need no intermediate tensor."""

    scale: float
    left: Tensor
    right: Tensor


#: σ(z), σ'(z), and a function that returns δσ''(z). It is given δσ', and a function that makes δ,
#: which few activations need.
Activation = tuple[Tensor, Tensor, Callable[[Callable[[], Tensor], Tensor], Bend]]


#: A cached constant: making it again would cost as much as using it.
_one = cache(partial(torch.ones, ()))


def _tanh(z: Tensor) -> Activation:
    """σ = tanh z, σ' = 1 − σ², σ'' = −2 σ σ'."""
    value = torch.tanh(z)
    first = torch.addcmul(_one(dtype=value.dtype, device=value.device), value, value, value=-1)
    return value, first, lambda _, pulled: Bend(-2, pulled, value)


def _sigmoid(z: Tensor) -> Activation:
    """σ = 1/(1 + e^{−z}), σ' = σ (1 − σ), σ'' = σ' (1 − 2σ)."""
    value = torch.sigmoid(z)
    first = torch.addcmul(value, value, value, value=-1)
    return value, first, lambda _, pulled: Bend(-2, pulled, value - 0.5)


def _log_sigmoid(z: Tensor) -> Activation:
    """σ = −log(1 + e^{−z}), σ' = s = 1/(1 + e^z), σ'' = −s (1 − s)."""
    first = torch.sigmoid(-z)
    return functional.logsigmoid(z), first, lambda _, pulled: Bend(1, pulled, first - 1)


def _softplus(z: Tensor) -> Activation:
    """σ = log(1 + e^z), σ' = s = 1/(1 + e^{−z}), σ'' = s (1 − s).

    (For z > 20 torch's softplus returns z, an error of 2e-9.)
    """
    first = torch.sigmoid(z)
    return functional.softplus(z), first, lambda _, pulled: Bend(1, pulled, 1 - first)


def _silu(z: Tensor) -> Activation:
    """With s the logistic function: σ = z s, σ' = s + z s', σ'' = 2 s' + z s''."""
    s = torch.sigmoid(z)
    s1 = s * (1 - s)
    return z * s, s + z * s1, lambda delta, _: Bend(1, delta(), s1 * (2 + z * (1 - 2 * s)))


def _gelu(z: Tensor) -> Activation:
    """With Φ, φ the normal law and density: σ = z Φ, σ' = Φ + z φ, σ'' = (2 − z²) φ."""
    density = torch.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    cumulative = 0.5 * torch.special.erfc(-z / math.sqrt(2))
    first = torch.addcmul(cumulative, z, density)
    return z * cumulative, first, lambda delta, _: Bend(1, delta(), (2 - z * z) * density)


def _sin(z: Tensor) -> Activation:
    """σ = sin z, σ' = cos z, σ'' = −sin z."""
    value = torch.sin(z)
    return value, torch.cos(z), lambda delta, _: Bend(-1, delta(), value)


def _cos(z: Tensor) -> Activation:
    """σ = cos z, σ' = −sin z, σ'' = −cos z."""
    value = torch.cos(z)
    return value, -torch.sin(z), lambda delta, _: Bend(-1, delta(), value)


def _erf(z: Tensor) -> Activation:
    """σ = erf z, σ' = 2 e^{−z²}/√π, σ'' = −2 z σ'."""
    first = torch.exp(-z * z) * (2 / math.sqrt(math.pi))
    return torch.special.erf(z), first, lambda _, pulled: Bend(-2, pulled, z)


def _exp(z: Tensor) -> Activation:
    """σ = σ' = σ'' = e^z."""
    value = torch.exp(z)
    return value, value, lambda delta, _: Bend(1, delta(), value)


def _relu(z: Tensor) -> Activation:
    """σ = max(z, 0), σ' = 1{z > 0}, σ'' = 0 except at the kink, which is left to ``smoothed``."""
    first = (z > 0).to(z.dtype)
    return z * first, first, lambda _, pulled: Bend(0, pulled, pulled)


def _leaky_relu(slope: float, z: Tensor) -> Activation:
    """σ = z for z > 0 and c z below, σ' = 1 or c, σ'' = 0 except at the kink."""
    first = torch.full_like(z, slope).masked_fill_(z > 0, 1)
    return z * first, first, lambda _, pulled: Bend(0, pulled, pulled)


def _square(z: Tensor) -> Activation:
    """σ = z², σ' = 2z, σ'' = 2."""
    return z * z, 2 * z, lambda delta, _: Bend(2, delta(), torch.ones_like(z))


MODULES: dict[type[nn.Module], Callable[[Tensor], Activation]] = {
    nn.Tanh: _tanh,
    nn.Sigmoid: _sigmoid,
    nn.LogSigmoid: _log_sigmoid,
    nn.Softplus: _softplus,
    nn.SiLU: _silu,
    nn.GELU: _gelu,
    nn.ReLU: _relu,
}
FUNCTIONS: dict[Callable[[Tensor], Tensor], Callable[[Tensor], Activation]] = {
    torch.tanh: _tanh,
    functional.tanh: _tanh,
    torch.sigmoid: _sigmoid,
    functional.sigmoid: _sigmoid,
    functional.logsigmoid: _log_sigmoid,
    functional.softplus: _softplus,
    functional.silu: _silu,
    functional.gelu: _gelu,
    functional.relu: _relu,
    torch.relu: _relu,
    torch.sin: _sin,
    torch.cos: _cos,
    torch.erf: _erf,
    torch.special.erf: _erf,
    torch.exp: _exp,
    torch.square: _square,
}


def closed_form(module: nn.Module) -> Callable[[Tensor], Activation] | None:
    """Find the closed form of an activation module, if it has one."""
    if type(module) is Elementwise:
        return next((form for f, form in FUNCTIONS.items() if f is module.function), None)
    if type(module) is nn.LeakyReLU:
        return partial(_leaky_relu, module.negative_slope)
    if isinstance(module, nn.Softplus) and (module.beta != 1 or module.threshold != 20):
        return None
    if isinstance(module, nn.GELU) and module.approximate != "none":
        return None
    return MODULES.get(type(module))
