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

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from decoupled_descent.objective.activations import Activation
from decoupled_descent.objective.chains import Affine, Step, is_unmodified, parse
from decoupled_descent.objective.derivatives import Ask, Parameters, RowDerivatives, weighted
from decoupled_descent.objective.heads import Product
from decoupled_descent.objective.losses import Expansion, Loss


class _Pushed(NamedTuple):
    """A_l = ∂z_l/∂h: diag(D) before the first affine map, W diag(D) before the second."""

    diagonal: Tensor | None = None  # D, shape (L, n); None for ones
    weight: Tensor | None = None  # W, shape (k, L); None for the identity
    dense: Tensor | None = None  # A_l, shape (k, L, n), once the two factors no longer suffice

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


@dataclass(frozen=True, eq=False)
class ClosedForm:
    """What all engines have: a loss with closed-form derivatives, and constant parameters."""

    loss: Loss
    constants: Parameters

    def weights(self, parameters: Parameters, like: Tensor) -> Parameters:
        """All parameters of the head by name."""
        return {k: v.to(like) for k, v in self.constants.items()} | parameters


@dataclass(frozen=True, eq=False)
class Chain(ClosedForm):
    """The engine for a chain of steps.

    Inside, everything is kept feature by feature, (k, n): all tensors share one layout, which is
    also the one in which the products with X are fastest.
    """

    steps: list[Step]

    def __call__(self, h: Tensor, y: Tensor, parameters: Parameters, ask: Ask) -> RowDerivatives:
        """Sweep over the layers: forward, backward and (on request) to second order."""
        weights = self.weights(parameters, h)
        z, inputs, active = self._forward(weights, h.T.contiguous())
        expansion = self.loss.expansion(z, y)
        means: Parameters = {}
        adjoints = [expansion.slope]  # δ after the last step, before it, …
        for index, step in reversed(list(enumerate(self.steps))):
            delta = adjoints[-1]
            if not isinstance(step, Affine):
                adjoints.append(delta * active[index][1])
                continue
            adjoints.append(step.backward(weights, delta))
            if ask.head:
                delta = weighted(delta, ask.head_weights)
                means = step.gradient(delta, inputs[index], parameters) | means
        adjoints.reverse()
        bend = None
        if ask.jacobian:
            shares = ask.jacobian_weights
            bend = self._hessian(expansion, active, adjoints, weights, shares) / len(h)
        return RowDerivatives(expansion.value, adjoints[0].T, bend, means)

    def several(
        self, h: Tensor, y: Tensor, heads: Parameters, weights: Tensor
    ) -> tuple[Tensor, Parameters]:
        """Losses (G, n) and means Σ_i w_i ∇_aΨ_i/n of G heads on the same rows, weights (G, n).

        This takes as many operations as one head. Everything before the first affine map is the
        same for all heads and is evaluated once; after it, tensors have shape (G, k, n).
        """
        count, n = weights.shape
        fixed = {k: v.to(h).expand(count, *v.shape) for k, v in self.constants.items()}
        stacked = fixed | heads
        z, inputs, active = self._forward(stacked, h.T.contiguous().unsqueeze(0))
        outputs = z.expand(count, *z.shape[1:]).transpose(0, 1).reshape(z.shape[1], count * n)
        expansion = self.loss.expansion(outputs, torch.cat([y] * count))
        delta = expansion.slope.view(-1, count, n).transpose(0, 1) * (weights / n).unsqueeze(1)
        means: Parameters = {}
        first = min(
            k for k, s in enumerate(self.steps) if isinstance(s, Affine) and set(s) & heads.keys()
        )
        for index in reversed(range(first, len(self.steps))):
            step = self.steps[index]
            if not isinstance(step, Affine):
                delta = delta * active[index][1]
                continue
            if step.weight in heads:
                means[step.weight] = delta @ inputs[index].mT
            if step.bias in heads:
                means[step.bias] = delta.sum(2)
            if index > first:
                delta = step.backward(stacked, delta)
        return expansion.value.view(count, n), means

    def _forward(
        self, weights: Parameters, z: Tensor
    ) -> tuple[Tensor, list[Tensor], dict[int, Activation]]:
        """Outputs of the chain, the input of every step, and the activations by step."""
        inputs: list[Tensor] = []
        active: dict[int, Activation] = {}
        for index, step in enumerate(self.steps):
            inputs.append(z)
            if isinstance(step, Affine):
                z = step.forward(weights, z)
            else:
                active[index] = step(z)
                z = active[index][0]
        return z, inputs, active

    def _hessian(
        self,
        expansion: Expansion,
        active: dict[int, Activation],
        adjoints: list[Tensor],
        weights: Parameters,
        shares: Tensor | None,
    ) -> Tensor:
        """Σ_i w_i ∇²_hΨ: push A_l forward and pull every second derivative back to h."""
        kinds = [isinstance(step, Affine) for step in self.steps]
        # affine maps before the first activation multiply the result from both sides
        leading = kinds.index(False) if False in kinds else len(kinds)
        pushed = _Pushed()
        total = torch.zeros((), dtype=expansion.slope.dtype, device=expansion.slope.device)
        for index in range(leading, len(self.steps)):
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
        for step in reversed(self.steps[:leading]):
            if isinstance(step, Affine) and step.weight is not None:
                total = weights[step.weight].T @ total @ weights[step.weight]
        return total


class ScalarTwoLayer(Chain):
    r"""The engine for u = w·σ(h) + b, the most common head, in as few operations as possible.

    With D = w ⊙ σ'(h): ĥ = ℓ' D and J̄ = (ℓ'' D)ᵀD/n + diag(mean(ℓ' w σ'')). Operations on (L, n)
    tensors are what decoupled descent costs beyond gradient descent, so there should be few.
    """

    def __call__(self, h: Tensor, y: Tensor, parameters: Parameters, ask: Ask) -> RowDerivatives:
        """Apply the formulas above."""
        weights, output = self.weights(parameters, h), cast("Affine", self.steps[1])
        activation = cast("Callable[[Tensor], Activation]", self.steps[0])
        value, first, second = activation(h.T.contiguous())
        losses, slope, diagonal, _ = self.loss.expansion(output.forward(weights, value), y)
        column = weights[str(output.weight)].T
        D = column * first
        direction = D * slope
        means: Parameters = {}
        if ask.head:
            delta = weighted(slope, ask.head_weights)
            means = output.gradient(delta, value, parameters)
        bend = None
        if ask.jacobian:
            shares, n = ask.jacobian_weights, len(h)
            scale, left, right = second(lambda: column, D)
            bends = weighted(slope, shares) @ (left * right).t()
            eye, bent = _eye(len(column), h.dtype, h.device), D * weighted(diagonal, shares)
            bend = torch.addmm(eye * bends, D, bent.t(), beta=scale / n, alpha=1 / n)
        return RowDerivatives(losses, direction.T, bend, means)


@cache
def _eye(width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The identity, cached: multiplying by it is the fastest way to make a diagonal matrix."""
    return torch.eye(width, dtype=dtype, device=device)


class ProductEngine(ClosedForm):
    r"""The XOR head u = a h₁ h₂: with D = a (h₂, h₁), ĥ = ℓ' D and ∇²Ψ = ℓ'' D Dᵀ + ℓ' a S."""

    def __call__(self, h: Tensor, y: Tensor, parameters: Parameters, ask: Ask) -> RowDerivatives:
        """Apply the formulas above; S swaps the two coordinates."""
        a, z = self.weights(parameters, h)["a"], h.T
        product = z[:1] * z[1:]
        losses, slope, diagonal, _ = self.loss.expansion(a * product, y)
        D = a * z.flip(0)
        means: Parameters = {}
        if ask.head and "a" in parameters:
            means = {"a": (weighted(slope, ask.head_weights) * product).mean()}
        bend, shares = None, ask.jacobian_weights
        if ask.jacobian:
            swap = _eye(2, h.dtype, h.device).flip(0)
            bend = a * weighted(slope, shares).mean() * swap
            bend = torch.addmm(bend, D * weighted(diagonal, shares), D.t(), alpha=1 / len(h))
        return RowDerivatives(losses, (D * slope).T, bend, means)


def engine(head: nn.Module, loss: Loss) -> Chain | ProductEngine | None:
    """Build the closed-form engine for a head and a loss, or return None where there is none.

    Parameters with ``requires_grad=False`` are constants.
    """
    if loss.expand is None:
        return None
    named = dict(head.named_parameters())
    constants = {k: v.detach() for k, v in named.items() if not v.requires_grad}
    trained = named.keys() - constants.keys()
    if (
        type(head) is Product
        and is_unmodified(head, Product)
        and trained <= {"a"}
        and not loss.categorical
    ):
        return ProductEngine(loss, constants)
    steps = parse(head)
    if steps is None:
        return None
    names = [name for step in steps if isinstance(step, Affine) for name in step if name]
    if len(set(names)) < len(names) or not trained <= set(names) <= named.keys():
        return None  # parameters that are shared, tied, kept in buffers, or not used at all
    if len(steps) == 2 and not loss.categorical:
        first, last = steps
        scalar = isinstance(last, Affine) and last.weight and len(named[last.weight]) == 1
        if scalar and not isinstance(first, Affine):
            return ScalarTwoLayer(loss, constants, steps)
    return Chain(loss, constants, steps)
