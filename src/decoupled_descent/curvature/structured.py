r"""Row derivatives in closed form, layer by layer, for chains of linear maps and activations.

Write the head as z₀ = h, z_{l+1} = W_l z_l + b_l or z_{l+1} = σ_l(z_l), and the outputs as u. With
A_l = ∂z_l/∂h, δ_l the derivative of the loss in z_l, and ∂²ℓ/∂u² = diag(b) − c cᵀ, the chain rule
to second order leaves one term per activation and one for the loss:

.. math::
   \nabla_h^2 \Psi = A_u^\top (\mathrm{diag}(b) - c c^\top) A_u
      + \sum_{l\,\text{activation}} A_l^\top \mathrm{diag}(\delta_{l+1} \odot \sigma_l''(z_l)) A_l .

For the two-layer scalar head this is (D ⊙ ℓ'')ᵀD/n + diag(mean(ℓ' w σ'')) with D = w ⊙ σ'(h): no
(n, L, L) tensor, one L × L product.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from decoupled_descent.curvature import Engine, Parameters, RowDerivatives
from decoupled_descent.heads import Elementwise, Product
from decoupled_descent.losses import Expansion, Loss

#: σ(z), σ'(z), and σ''(z) on request (plain gradient descent never asks).
Activation = tuple[Tensor, Tensor, Callable[[], Tensor]]


def _tanh(z: Tensor) -> Activation:
    """σ = tanh z, σ' = 1 − σ², σ'' = −2 σ σ'."""
    value = torch.tanh(z)
    first = 1 - value * value
    return value, first, lambda: -2 * value * first


def _sigmoid(z: Tensor) -> Activation:
    """σ = 1/(1 + e^{−z}), σ' = σ (1 − σ), σ'' = σ' (1 − 2σ)."""
    value = torch.sigmoid(z)
    first = value * (1 - value)
    return value, first, lambda: first * (1 - 2 * value)


def _log_sigmoid(z: Tensor) -> Activation:
    """σ = −log(1 + e^{−z}), σ' = s = 1/(1 + e^z), σ'' = −s (1 − s)."""
    first = torch.sigmoid(-z)
    return functional.logsigmoid(z), first, lambda: first * (first - 1)


def _softplus(z: Tensor) -> Activation:
    """σ = log(1 + e^z), σ' = s = 1/(1 + e^{−z}), σ'' = s (1 − s)."""
    first = torch.sigmoid(z)
    return functional.softplus(z), first, lambda: first * (1 - first)


def _silu(z: Tensor) -> Activation:
    """With s the logistic function: σ = z s, σ' = s + z s', σ'' = 2 s' + z s''."""
    s, s1, s2 = _sigmoid(z)
    return z * s, s + z * s1, lambda: 2 * s1 + z * s2()


def _gelu(z: Tensor) -> Activation:
    """With Φ, φ the normal law and density: σ = z Φ, σ' = Φ + z φ, σ'' = (2 − z²) φ."""
    density = torch.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    cumulative = 0.5 * torch.special.erfc(-z / math.sqrt(2))
    return z * cumulative, cumulative + z * density, lambda: (2 - z * z) * density


def _sin(z: Tensor) -> Activation:
    """σ = sin z, σ' = cos z, σ'' = −sin z."""
    value = torch.sin(z)
    return value, torch.cos(z), lambda: -value


def _cos(z: Tensor) -> Activation:
    """σ = cos z, σ' = −sin z, σ'' = −cos z."""
    value = torch.cos(z)
    return value, -torch.sin(z), lambda: -value


def _erf(z: Tensor) -> Activation:
    """σ = erf z, σ' = 2 e^{−z²}/√π, σ'' = −2 z σ'."""
    first = torch.exp(-z * z) * (2 / math.sqrt(math.pi))
    return torch.special.erf(z), first, lambda: -2 * z * first


def _exp(z: Tensor) -> Activation:
    """σ = σ' = σ'' = e^z."""
    value = torch.exp(z)
    return value, value, lambda: value


def _square(z: Tensor) -> Activation:
    """σ = z², σ' = 2z, σ'' = 2."""
    return z * z, 2 * z, lambda: torch.full_like(z, 2)


MODULES: dict[type[nn.Module], Callable[[Tensor], Activation]] = {
    nn.Tanh: _tanh,
    nn.Sigmoid: _sigmoid,
    nn.LogSigmoid: _log_sigmoid,
    nn.Softplus: _softplus,
    nn.SiLU: _silu,
    nn.GELU: _gelu,
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
    torch.sin: _sin,
    torch.cos: _cos,
    torch.erf: _erf,
    torch.special.erf: _erf,
    torch.exp: _exp,
    torch.square: _square,
}


class Affine(NamedTuple):
    """A layer z ↦ W z + b, by the names of its parameters."""

    weight: str
    bias: str | None


Step = Affine | Callable[[Tensor], Activation]


def _plain(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether a module does what its class says: nothing overridden, hooked or parametrised."""
    hooked = module._forward_hooks or module._forward_pre_hooks or module._backward_hooks
    return type(module).forward is kind.forward and not hooked


def _activation(module: nn.Module) -> Callable[[Tensor], Activation] | None:
    if type(module) is Elementwise:
        return FUNCTIONS.get(module.function)
    if isinstance(module, nn.Softplus) and (module.beta != 1 or module.threshold < 20):
        return None
    if isinstance(module, nn.GELU) and module.approximate != "none":
        return None
    return MODULES.get(type(module))


def parse(head: nn.Module, prefix: str = "") -> list[Step] | None:
    """Read a head as a chain of affine maps and known activations.

    Args:
        head: Any module.
        prefix: Where ``head`` sits in the module that owns the parameters.

    Returns:
        The steps, or None when the head is anything else.

    Example:
        >>> parse(nn.Sequential(nn.Tanh(), nn.Linear(3, 1, bias=False)))[1]
        Affine(weight='1.weight', bias=None)
        >>> parse(nn.Sequential(nn.Softmax(1))) is None
        True
    """
    if isinstance(head, nn.Sequential) and _plain(head, nn.Sequential):
        steps: list[Step] = []
        for name, child in head.named_children():
            inner = parse(child, f"{prefix}{name}.")
            if inner is None:
                return None
            steps += inner
        return steps
    if type(head) is nn.Identity and _plain(head, nn.Identity):
        return []
    if type(head) is nn.Linear and _plain(head, nn.Linear):
        return [Affine(f"{prefix}weight", None if head.bias is None else f"{prefix}bias")]
    known = _activation(head)
    return [known] if known is not None and _plain(head, type(head)) else None


def _pull_back(jacobian: Tensor | None, weights: Tensor) -> Tensor:
    """Σ_i A_iᵀ diag(q_i) A_i for A the identity (None), diagonal (n, L) or dense (n, k, L)."""
    if jacobian is None:
        return torch.diag(weights.sum(0))
    if jacobian.ndim == 2:
        return torch.diag((weights * jacobian * jacobian).sum(0))
    rows = jacobian.reshape(-1, jacobian.shape[2])
    return (rows * weights.reshape(-1, 1)).T @ rows


def _times(jacobian: Tensor | None, vectors: Tensor) -> Tensor:
    """Rows A_iᵀ c_i, for the same three forms of A."""
    if jacobian is None:
        return vectors
    if jacobian.ndim == 2:
        return vectors * jacobian
    return (vectors.unsqueeze(1) @ jacobian).squeeze(1)


class Chain:
    """The engine for a chain of steps under a loss with known derivatives."""

    def __init__(self, steps: list[Step], loss: Loss, constants: Parameters) -> None:
        self.steps = steps
        self.loss = loss
        self.constants = constants
        self.leading = 0  # affine maps before the first activation: J̄ is conjugated by them
        while self.leading < len(steps) and isinstance(steps[self.leading], Affine):
            self.leading += 1

    def __call__(
        self, h: Tensor, y: Tensor, parameters: Parameters, jacobian: bool, head: bool
    ) -> RowDerivatives:
        """Forward, backward and (on request) second-order sweep over the layers."""
        weights = parameters
        if self.constants:
            weights = {k: v.to(h) for k, v in self.constants.items()} | parameters
        inputs: list[Tensor] = []
        active: dict[int, Activation] = {}
        z = h
        for index, step in enumerate(self.steps):
            inputs.append(z)
            if isinstance(step, Affine):
                z = functional.linear(z, weights[step.weight], weights.get(step.bias or ""))
            else:
                active[index] = step(z)
                z = active[index][0]
        assert self.loss.expand is not None
        expansion = self.loss.expand(z, y)

        means: Parameters = {}
        adjoints = [expansion.slope]  # δ at the output of each step, last step first
        for index in reversed(range(len(self.steps))):
            step, delta = self.steps[index], adjoints[-1]
            if isinstance(step, Affine):
                if head and step.weight in parameters:
                    means[step.weight] = delta.T @ inputs[index] / len(h)
                if head and step.bias in parameters:
                    means[step.bias] = delta.mean(0)
                adjoints.append(delta @ weights[step.weight])
            else:
                adjoints.append(delta * active[index][1])
        bend = None
        if jacobian:
            bend = self._mean_hessian(expansion, active, adjoints[::-1], weights) / len(h)
        return RowDerivatives(expansion.value, adjoints[-1], bend, means)

    def _mean_hessian(
        self,
        expansion: Expansion,
        active: dict[int, Activation],
        adjoints: list[Tensor],
        weights: Parameters,
    ) -> Tensor:
        """Σ_i ∇²_hΨ: pull every second derivative back to h while pushing A_l forward."""
        total = expansion.slope.new_zeros(())
        pushed: Tensor | None = None  # A_l, starting from the identity
        for index in range(self.leading, len(self.steps)):
            step = self.steps[index]
            if isinstance(step, Affine):
                weight = weights[step.weight]
                assert pushed is not None
                pushed = pushed.unsqueeze(1) * weight if pushed.ndim == 2 else weight @ pushed
            else:
                _, first, second = active[index]
                total = total + _pull_back(pushed, adjoints[index + 1] * second())
                if pushed is None:
                    pushed = first
                else:
                    pushed = pushed * (first if pushed.ndim == 2 else first.unsqueeze(2))
        total = total + _pull_back(pushed, expansion.diagonal)
        if expansion.rank_one is not None:
            pulled = _times(pushed, expansion.rank_one)
            total = total - pulled.T @ pulled
        for step in reversed(self.steps[: self.leading]):
            weight = weights[step.weight]  # type: ignore[union-attr]
            total = weight.T @ total @ weight
        return total


def _product_engine(loss: Loss, constants: Parameters) -> Engine:
    r"""The XOR head u = a h₁ h₂: with s = (h₂, h₁), ĥ = ℓ' a s and ∇²Ψ = ℓ'' a² s sᵀ + ℓ' a S."""

    def derivatives(
        h: Tensor, y: Tensor, parameters: Parameters, jacobian: bool, head: bool
    ) -> RowDerivatives:
        a = parameters["a"] if "a" in parameters else constants["a"].to(h)
        swapped = h.flip(1)
        product = h[:, :1] * h[:, 1:]
        assert loss.expand is not None
        value, slope, diagonal, _ = loss.expand(a * product, y)
        means = {"a": (slope * product).mean()} if head and "a" in parameters else {}
        bend = None
        if jacobian:
            cross = (a * slope.mean()).expand(2)
            bend = (a * a / len(h)) * ((swapped * diagonal).T @ swapped)
            bend = bend + torch.diag(cross).flip(1)
        return RowDerivatives(value, (a * slope) * swapped, bend, means)

    return derivatives


def engine(head: nn.Module, loss: Loss) -> Engine | None:
    """Build the closed-form engine for a head and a loss, if there is one.

    Args:
        head: Any module; parameters with ``requires_grad=False`` are constants.
        loss: Any loss.

    Returns:
        The engine, or None when the head or the loss is not among those with a closed form.
    """
    if loss.expand is None:
        return None
    constants = {k: v.detach() for k, v in head.named_parameters() if not v.requires_grad}
    if type(head) is Product and _plain(head, Product) and not loss.categorical:
        return _product_engine(loss, constants)
    steps = parse(head)
    return None if steps is None else Chain(steps, loss, constants)
