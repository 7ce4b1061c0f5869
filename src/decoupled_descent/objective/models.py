r"""Models: an ``nn.Module`` that starts with ``nn.Linear``, split into θ and a head.

The bias of the first layer belongs to the head. Like the rest of the head, it is updated by means
over rows, on which a single row has little influence. As a column of ones in X it would break the
corrections, which assume that rows are noise of length about one: a one in every row doubles the
squared length, and with it the influence of a row on its own output.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from decoupled_descent.objective.derivatives import Parameters
from decoupled_descent.objective.heads import Shift

#: What works where a module cannot be split.
ANY_MODULE = (
    "Any module can be trained by fit(X, y, model, loss=…) without an algorithm, by "
    "DecoupledGaussNewton and by CrossFit"
)


@dataclass(frozen=True, eq=False)
class Split:
    """A model, the name of its first layer, and the rest of it as a head.

    Attributes:
        model: A copy of the model.
        first: The name of its first layer, an ``nn.Linear``.
        head: The model with the first layer replaced by its bias. Parameters keep their names.
    """

    model: nn.Module
    first: str
    head: nn.Module

    @property
    def theta(self) -> Tensor:
        """The first layer's weights, shape (L, d)."""
        return self.model.get_parameter(_weight(self.first)).detach()

    def joined(self, theta: Tensor, parameters: Parameters) -> nn.Module:
        """Return a copy of the model with these weights, in their dtype and on their device."""
        model = copy.deepcopy(self.model).to(theta)
        with torch.no_grad():
            model.get_parameter(_weight(self.first)).copy_(theta)
            for name, value in parameters.items():
                model.get_parameter(name).copy_(value)
        return model


def split(model: nn.Module) -> Split:
    """Split a model after its first layer; raise ``ValueError`` if that is not possible.

    Example:
        >>> parts = split(nn.Sequential(nn.Flatten(), nn.Linear(9, 4), nn.Tanh(), nn.Linear(4, 3)))
        >>> parts.first, parts.theta.shape, [name for name, _ in parts.head.named_parameters()]
        ('1', torch.Size([4, 9]), ['1.bias', '3.weight', '3.bias'])
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"model={model!r} must be a torch.nn.Module")
    model = copy.deepcopy(getattr(model, "_orig_mod", model))  # as it was before torch.compile
    layers = [(n, m) for n, m in model.named_modules() if isinstance(m, nn.Linear)]
    name, layer = layers[0] if layers else ("", None)
    if type(layer) is not nn.Linear:
        raise ValueError(
            f"model {type(model).__name__} must start with nn.Linear"
            + ("" if layer is None else f", not {type(layer).__name__}")
            + f"; its weights are theta, and the rest is the head. {ANY_MODULE}"
        )
    names = [n for n, p in model.named_parameters(remove_duplicate=False) if p is layer.weight]
    if names != [_weight(name)] or not layer.weight.requires_grad:
        raise ValueError(
            f"{_weight(name)} is {f'shared with {names[1]}' if names[1:] else 'frozen'}; the first "
            f"layer must have its own trainable weights. {ANY_MODULE}"
        )
    head = _without(model, name, layer)
    _check(model, head, name, layer)
    return Split(model, name, head)


def _without(model: nn.Module, name: str, layer: nn.Linear) -> nn.Module:
    """Copy the model, with the first layer replaced by its bias."""
    rest: nn.Module = nn.Identity()
    if layer.bias is not None:
        rest = Shift(layer.out_features)
        rest.bias = nn.Parameter(layer.bias.detach().clone(), layer.bias.requires_grad)
        rest.train(layer.training)
    if not name:
        return rest
    head = copy.deepcopy(model)
    parent, _, child = name.rpartition(".")
    setattr(head.get_submodule(parent), child, rest)
    return head


@torch.no_grad()
def _check(model: nn.Module, head: nn.Module, name: str, layer: nn.Linear) -> None:
    """Raise ``ValueError`` unless model(x) equals head(W x) for the first layer's weights W."""
    before, rest = (copy.deepcopy(each).eval().double() for each in (model, head))
    like = layer.weight.double()  # in bfloat16, rounding would look like a difference
    probe = torch.linspace(-1, 1, 5 * layer.in_features, dtype=like.dtype, device=like.device)
    x = probe.view(5, layer.in_features).sin()
    try:
        wanted = before(x.clone())
        same = torch.allclose(rest(x @ like.T), wanted, rtol=1e-3, atol=1e-5)
    except Exception as error:
        raise ValueError(
            f"model {type(model).__name__} cannot be called with rows of its {layer.in_features} "
            f"inputs, or cannot be split after layer {name!r}: {error}. {ANY_MODULE}"
        ) from error
    if not same:
        raise ValueError(
            f"model {type(model).__name__} does more to its inputs than layer {name!r} does: "
            "nothing but nn.Flatten may come before the first nn.Linear, and nothing may bypass "
            f"it. {ANY_MODULE}"
        )


def _weight(name: str) -> str:
    return f"{name}.weight" if name else "weight"
