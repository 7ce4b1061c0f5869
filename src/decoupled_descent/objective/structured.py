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

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from decoupled_descent.objective.activations import Activation, closed_form
from decoupled_descent.objective.derivatives import (
    Ask,
    Engine,
    Parameters,
    RowDerivatives,
    weighted,
)
from decoupled_descent.objective.heads import Product, Shift
from decoupled_descent.objective.losses import Expansion, Loss


class Affine(NamedTuple):
    """A layer z ↦ W z + b, by the names of its parameters; W is the identity if it has none."""

    weight: str | None
    bias: str | None


Step = Affine | Callable[[Tensor], Activation]

DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)


def _plain(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether a module does what its class says: nothing overridden, hooked or parametrised."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    if "forward" in vars(module) or any(getattr(module, name) for name in hooks):
        return False
    return all(
        getattr(type(module), name, None) is getattr(kind, name, None)
        for name in ("forward", "__call__", "__iter__")
    )


def does_nothing(module: nn.Module) -> bool:
    """Whether a module hands rows of shape (n, k) on as they are."""
    if not _plain(module, type(module)):
        return False
    if type(module) in DROPOUTS:
        return not module.training or getattr(module, "p", 1) == 0
    if type(module) is nn.Flatten:
        return module.start_dim in (1, -1) and module.end_dim in (1, -1)
    if type(module) is nn.Unflatten:
        size = module.unflattened_size
        return module.dim in (1, -1) and isinstance(size, tuple) and len(size) == 1
    return type(module) is nn.Identity


def _leaves(head: nn.Module, prefix: str = "") -> list[tuple[str, nn.Module]] | None:
    """The layers of a chain with their names, without those that do nothing; None if not plain."""
    if not isinstance(head, nn.Sequential):
        return [] if does_nothing(head) else [(prefix, head)]
    if not _plain(head, nn.Sequential):
        return None
    leaves = []
    for name, child in head._modules.items():  # named_children() leaves repetitions out
        inner = None if child is None else _leaves(child, f"{prefix}{name}.")
        if inner is None:
            return None
        leaves += inner
    return leaves


def _flattens_a_column(leaves: list[tuple[str, nn.Module]]) -> bool:
    """Whether a chain ends with ``Flatten(0)`` of a single output: outputs (n,), not (n, 1)."""
    last = leaves[-1][1] if leaves else None
    if not isinstance(last, nn.Flatten) or not _plain(last, nn.Flatten) or last.start_dim != 0:
        return False
    outputs = [layer.out_features for _, layer in leaves if isinstance(layer, nn.Linear)]
    return outputs[-1:] == [1]


def parse(head: nn.Module) -> list[Step] | None:
    """Read a head as a chain of affine maps and known activations; None if it is anything else.

    Example:
        >>> parse(nn.Sequential(nn.Tanh(), nn.Linear(3, 1, bias=False)))[1]
        Affine(weight='1.weight', bias=None)
        >>> parse(nn.Sequential(nn.Softmax(1))) is None
        True
    """
    leaves = _leaves(head)
    if leaves is None:
        return None
    steps: list[Step] = []
    for prefix, layer in leaves[:-1] if _flattens_a_column(leaves) else leaves:
        if type(layer) is nn.Linear and _plain(layer, nn.Linear):
            bias = None if layer.bias is None else f"{prefix}bias"
            steps.append(Affine(f"{prefix}weight", bias))
            continue
        if type(layer) is Shift and _plain(layer, Shift):
            steps.append(Affine(None, f"{prefix}bias"))
            continue
        known = closed_form(layer)
        if known is None or not _plain(layer, type(layer)):
            return None
        steps.append(known)
    return steps


class _Pushed(NamedTuple):
    """A_l = ∂z_l/∂h, kept as diag(D) until the first affine map, as W diag(D) until the next.

    Attributes:
        diagonal: D, shape (L, n), or None for ones.
        weight: W, shape (k, L), or None for the identity.
        dense: A_l written out, shape (k, L, n), once the two factors no longer suffice.
    """

    diagonal: Tensor | None = None
    weight: Tensor | None = None
    dense: Tensor | None = None

    def through_activation(self, first: Tensor) -> _Pushed:
        """diag(σ') A_l."""
        if self.dense is not None:
            return _Pushed(dense=first.unsqueeze(1) * self.dense)
        if self.weight is None:
            return _Pushed(first if self.diagonal is None else self.diagonal * first)
        assert self.diagonal is not None
        rows = first.unsqueeze(1) * self.weight.unsqueeze(2)
        return _Pushed(dense=rows * self.diagonal)

    def through_affine(self, weight: Tensor) -> _Pushed:
        """W A_l."""
        if self.dense is not None:
            return _Pushed(dense=(weight @ self.dense.flatten(1)).view(-1, *self.dense.shape[1:]))
        return _Pushed(self.diagonal, weight if self.weight is None else weight @ self.weight)

    def pull_back(self, q: Tensor) -> Tensor:
        """Σ_i A_iᵀ diag(q_i) A_i, shape (L, L), for q of shape (k, n)."""
        if self.dense is not None:
            return ((q.unsqueeze(1) * self.dense) @ self.dense.transpose(1, 2)).sum(0)
        if self.weight is None:
            return torch.diag((q if self.diagonal is None else q * self.diagonal.square()).sum(1))
        assert self.diagonal is not None
        if len(self.weight) == 1:
            return (q * self.diagonal) @ self.diagonal.T * (self.weight.T * self.weight)
        weighted = (q.unsqueeze(1) * self.diagonal) @ self.diagonal.T
        return (weighted * self.weight.unsqueeze(2) * self.weight.unsqueeze(1)).sum(0)

    def transposed_times(self, c: Tensor) -> Tensor:
        """Columns A_iᵀ c_i, shape (L, n), for c of shape (k, n)."""
        if self.dense is not None:
            return (c.unsqueeze(1) * self.dense).sum(0)
        pulled = c if self.weight is None else self.weight.T @ c
        return pulled if self.diagonal is None else pulled * self.diagonal


class Chain:
    """The engine for a chain of steps under a loss with known derivatives.

    Inside, everything is kept feature by feature, (k, n): all tensors share one layout, which is
    also the one in which the products with X are fastest.
    """

    def __init__(self, steps: list[Step], loss: Loss, constants: Parameters) -> None:
        self.steps = steps
        self.loss = loss
        self.constants = constants
        self.leading = 0  # affine maps before the first activation: J̄ is conjugated by them
        while self.leading < len(steps) and isinstance(steps[self.leading], Affine):
            self.leading += 1

    def __call__(self, h: Tensor, y: Tensor, parameters: Parameters, ask: Ask) -> RowDerivatives:
        """Sweep over the layers: forward, backward and (on request) to second order."""
        weights = _weights(parameters, self.constants, h)
        inputs: list[Tensor] = []
        active: dict[int, Activation] = {}
        z = h.T.contiguous()
        for index, step in enumerate(self.steps):
            inputs.append(z)
            if isinstance(step, Affine):
                z = _affine(step, weights, z)
            else:
                active[index] = step(z)
                z = active[index][0]
        expansion = _expand(self.loss, z, y)
        adjoints = self._backward(expansion.slope, active, weights)
        means: Parameters = {}
        if ask.head:
            for index, step in enumerate(self.steps):
                if isinstance(step, Affine):
                    delta = weighted(adjoints[index + 1], ask.head_weights)
                    means |= _head_gradient(step, delta, inputs[index], parameters)
        bend = None
        if ask.jacobian:
            shares = ask.jacobian_weights
            bend = self._hessian(expansion, active, adjoints, weights, shares) / len(h)
        return RowDerivatives(expansion.value, adjoints[0].T, bend, means)

    def _backward(
        self, slope: Tensor, active: dict[int, Activation], weights: Parameters
    ) -> list[Tensor]:
        """δ before the first step, after it, …, after the last."""
        adjoints = [slope]
        for index in reversed(range(len(self.steps))):
            step = self.steps[index]
            if isinstance(step, Affine):
                adjoints.append(_pulled(step, weights, adjoints[-1]))
            else:
                adjoints.append(adjoints[-1] * active[index][1])
        return adjoints[::-1]

    def _hessian(
        self,
        expansion: Expansion,
        active: dict[int, Activation],
        adjoints: list[Tensor],
        weights: Parameters,
        shares: Tensor | None,
    ) -> Tensor:
        """Σ_i w_i ∇²_hΨ: push A_l forward and pull every second derivative back to h."""
        pushed = _Pushed()
        total = torch.zeros((), dtype=expansion.slope.dtype, device=expansion.slope.device)
        for index in range(self.leading, len(self.steps)):
            step = self.steps[index]
            if isinstance(step, Affine):
                if step.weight is not None:
                    pushed = pushed.through_affine(weights[step.weight])
                continue
            _, first, second = active[index]
            scale, left, right = second(partial(adjoints.__getitem__, index + 1), adjoints[index])
            total = total + pushed.pull_back(weighted(scale * left * right, shares))
            pushed = pushed.through_activation(first)
        total = total + pushed.pull_back(weighted(expansion.diagonal, shares))
        if expansion.rank_one is not None:
            pulled = pushed.transposed_times(expansion.rank_one)
            total = total - weighted(pulled, shares) @ pulled.T
        for step in reversed(self.steps[: self.leading]):
            assert isinstance(step, Affine)
            if step.weight is not None:
                total = weights[step.weight].T @ total @ weights[step.weight]
        return total


class ScalarTwoLayer:
    r"""The engine for u = w·σ(h) + b, the head most people use, in as few operations as possible.

    With D = w ⊙ σ'(h): ĥ = ℓ' D and J̄ = (ℓ'' D)ᵀD/n + diag(mean(ℓ' w σ'')). Every operation on an
    (L, n) tensor counts here: they are what decoupled descent costs beyond gradient descent.
    """

    def __init__(self, steps: list[Step], loss: Loss, constants: Parameters) -> None:
        activation, output = steps
        assert isinstance(output, Affine)
        assert not isinstance(activation, Affine)
        self.activation, self.output = activation, output
        self.loss = loss
        self.constants = constants

    def __call__(self, h: Tensor, y: Tensor, parameters: Parameters, ask: Ask) -> RowDerivatives:
        """Apply the formulas above."""
        weights = _weights(parameters, self.constants, h)
        value, first, second = self.activation(h.T.contiguous())
        losses, slope, diagonal, _ = _expand(self.loss, _affine(self.output, weights, value), y)
        assert self.output.weight is not None
        column = weights[self.output.weight].T
        D = column * first
        direction = D * slope
        means: Parameters = {}
        if ask.head:
            delta = weighted(slope, ask.head_weights)
            means = _head_gradient(self.output, delta, value, parameters)
        bend = None
        if ask.jacobian:
            shares = ask.jacobian_weights
            scale, left, right = second(lambda: column, D)
            bends = weighted(slope, shares) @ (left * right).t()
            eye, bent = _eye(len(column), h.dtype, h.device), D * weighted(diagonal, shares)
            n = h.shape[0]
            bend = torch.addmm(eye * bends, D, bent.t(), beta=scale / n, alpha=1 / n)
        return RowDerivatives(losses, direction.T, bend, means)


@cache
def _eye(width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The identity, kept at hand: multiplying by it is the quickest way to a diagonal matrix."""
    return torch.eye(width, dtype=dtype, device=device)


def _own_weights(steps: list[Step], parameters: Mapping[str, Tensor]) -> bool:
    """Whether every affine map has parameters of its own: not shared, tied or kept in buffers."""
    affine = [step for step in steps if isinstance(step, Affine)]
    names = [name for step in affine for name in step if name is not None]
    return len(set(names)) == len(names) and all(name in parameters for name in names)


def _weights(parameters: Parameters, constants: Parameters, like: Tensor) -> Parameters:
    return {k: v.to(like) for k, v in constants.items()} | parameters if constants else parameters


def _expand(loss: Loss, outputs: Tensor, y: Tensor) -> Expansion:
    """Expand the loss at outputs of shape (K, n), for labels as the user gave them."""
    assert loss.expand is not None
    if loss.categorical:
        return loss.expand(outputs, y.long())
    y = y if y.is_floating_point() else y.to(outputs.dtype)
    return loss.expand(outputs, y.unsqueeze(0) if y.ndim == 1 else y.T)


def _mean_product(shape: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """A Bᵀ/n in one operation; ``shape`` only lends its shape (a division would cost as much)."""
    return torch.addmm(shape, left, right.T, beta=0, alpha=1 / left.shape[1])


def _pulled(step: Affine, weights: Parameters, delta: Tensor) -> Tensor:
    """Wᵀδ."""
    return delta if step.weight is None else weights[step.weight].T @ delta


def _affine(step: Affine, weights: Parameters, z: Tensor) -> Tensor:
    if step.weight is None:
        assert step.bias is not None
        return z + weights[step.bias].unsqueeze(1)
    if step.bias is None:
        return weights[step.weight] @ z
    return torch.addmm(weights[step.bias].unsqueeze(1), weights[step.weight], z)


def _head_gradient(step: Affine, delta: Tensor, z: Tensor, parameters: Parameters) -> Parameters:
    """Mean over rows of δ zᵀ for the weight and of δ for the bias, where they are trained."""
    means: Parameters = {}
    if step.weight is not None and step.weight in parameters:
        means[step.weight] = _mean_product(parameters[step.weight], delta, z)
    if step.bias is not None and step.bias in parameters:
        means[step.bias] = delta.mean(1)
    return means


class ProductEngine:
    r"""The XOR head u = a h₁ h₂: with D = a (h₂, h₁), ĥ = ℓ' D and ∇²Ψ = ℓ'' D Dᵀ + ℓ' a S."""

    def __init__(self, loss: Loss, constants: Parameters) -> None:
        self.loss, self.constants = loss, constants
        self.swap = torch.tensor([[0.0, 1.0], [1.0, 0.0]], device="cpu")

    def __call__(self, h: Tensor, y: Tensor, parameters: Parameters, ask: Ask) -> RowDerivatives:
        """Apply the formulas above."""
        a = _weights(parameters, self.constants, h)["a"]
        z = h.T
        product = z[:1] * z[1:]
        losses, slope, diagonal, _ = _expand(self.loss, a * product, y)
        D = a * z.flip(0)
        means: Parameters = {}
        if ask.head and "a" in parameters:
            means = {"a": (weighted(slope, ask.head_weights) * product).mean()}
        bend, shares = None, ask.jacobian_weights
        if ask.jacobian:
            bend = a * weighted(slope, shares).mean() * self.swap.to(h)
            bend = torch.addmm(bend, D * weighted(diagonal, shares), D.t(), alpha=1 / h.shape[0])
        return RowDerivatives(losses, (D * slope).T, bend, means)


def engine(head: nn.Module, loss: Loss) -> Engine | None:
    """Build the closed-form engine for a head and a loss, or return None where there is none.

    Parameters with ``requires_grad=False`` are constants.
    """
    if loss.expand is None:
        return None
    constants = {k: v.detach() for k, v in head.named_parameters() if not v.requires_grad}
    trained = {k for k, v in head.named_parameters() if v.requires_grad}
    product = type(head) is Product and _plain(head, Product) and trained <= {"a"}
    if product and not loss.categorical:
        return ProductEngine(loss, constants)
    steps = parse(head)
    if steps is None or not _own_weights(steps, dict(head.named_parameters())):
        return None
    if not trained <= {name for step in steps if isinstance(step, Affine) for name in step}:
        return None  # a parameter that the forward pass does not use
    two_layer = len(steps) == 2 and not isinstance(steps[0], Affine) and _outputs(head, steps) == 1
    if two_layer and not loss.categorical:
        return ScalarTwoLayer(steps, loss, constants)
    return Chain(steps, loss, constants)


def _outputs(head: nn.Module, steps: list[Step]) -> int | None:
    """K, of a chain that ends with a linear layer."""
    last = steps[-1]
    named = isinstance(last, Affine) and last.weight is not None
    return len(head.get_parameter(cast("str", cast("Affine", last).weight))) if named else None


def adds_only(head: nn.Module) -> bool:
    """Whether a head returns h, or h plus trainable constants: outputs linear in all parameters."""
    steps = parse(head)
    return steps is not None and all(isinstance(s, Affine) and s.weight is None for s in steps)
