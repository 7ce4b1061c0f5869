r"""Several heads of the same architecture on the same rows, with as many operations as for one.

Everything before the first linear layer is the same for all G heads and is evaluated once. After
it, tensors have shape (G, k, n).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from decoupled_descent.objective.activations import Activation
from decoupled_descent.objective.chains import Affine, Step
from decoupled_descent.objective.derivatives import Parameters
from decoupled_descent.objective.losses import Loss


def chains(
    steps: Sequence[Step],
    loss: Loss,
    constants: Parameters,
    h: Tensor,
    y: Tensor,
    heads: Parameters,
    weights: Tensor,
) -> tuple[Tensor, Parameters]:
    r"""Losses (G, n) of G chains and the means Σ_i w_i ∇_aΨ_i/n, for weights of shape (G, n)."""
    count, n = weights.shape
    fixed = {name: value.to(h).expand(count, *value.shape) for name, value in constants.items()}
    stacked = fixed | heads
    z, inputs, active = _outputs(steps, stacked, h.T.contiguous().unsqueeze(0))
    outputs = z.expand(count, *z.shape[1:]).transpose(0, 1).reshape(z.shape[1], count * n)
    expansion = loss.expansion(outputs, torch.cat([y] * count))
    delta = expansion.slope.view(-1, count, n).transpose(0, 1) * (weights / n).unsqueeze(1)
    means: Parameters = {}
    trained = [k for k, s in enumerate(steps) if isinstance(s, Affine) and set(s) & heads.keys()]
    for index in range(len(steps) - 1, min(trained) - 1, -1):
        step = steps[index]
        if not isinstance(step, Affine):
            delta = delta * active[index][1]
            continue
        if step.weight in heads:
            means[step.weight] = delta @ inputs[index].transpose(1, 2)
        if step.bias in heads:
            means[step.bias] = delta.sum(2)
        if step.weight is not None and index > min(trained):
            delta = stacked[step.weight].transpose(1, 2) @ delta
    return expansion.value.view(count, n), means


def _outputs(
    steps: Sequence[Step], stacked: Parameters, z: Tensor
) -> tuple[Tensor, list[Tensor], dict[int, Activation]]:
    """Outputs of the chains, the input of every step, and the activations by step."""
    inputs: list[Tensor] = []
    active: dict[int, Activation] = {}
    for index, step in enumerate(steps):
        inputs.append(z)
        if not isinstance(step, Affine):
            active[index] = step(z)
            z = active[index][0]
            continue
        if step.weight is not None:
            z = stacked[step.weight] @ z
        if step.bias is not None:
            z = z + stacked[step.bias].unsqueeze(2)
    return z, inputs, active
