"""Heads of networks as plain JSON and tensors, and the reverse, for a short list of layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from decoupled_descent.checks import is_finite_number
from decoupled_descent.objective import heads

#: Layers without parameters, and their options.
LAYERS: dict[type[nn.Module], tuple[str, ...]] = {
    kind: {"gelu": ("approximate",), "softplus": ("beta", "threshold")}.get(name, ())
    for name, kind in heads.ACTIVATIONS.items()
} | {nn.LeakyReLU: ("negative_slope",)}
CHAINS = (nn.Sequential, heads.Deep, heads.TwoLayer, heads.Linear, heads.GeneralisedLinear)
KINDS = {kind.__name__: kind for kind in LAYERS}


def require(right: Any, what: str) -> None:
    """Raise ``ValueError`` for a model file unless something about it is right."""
    if not right:
        raise ValueError(f"{what}; train the model again")


def describe_head(head: nn.Module) -> dict[str, Any]:
    """Describe a head layer by layer; raise ``ValueError`` for layers of unknown kinds.

    Example:
        >>> [layer["kind"] for layer in describe_head(heads.TwoLayer(3))["layers"]]
        ['Tanh', 'Linear']
    """
    kind = type(head)
    if kind in CHAINS and isinstance(head, nn.Sequential):
        return {"kind": "Sequential", "layers": [describe_head(layer) for layer in head]}
    if isinstance(head, nn.Linear) and kind is nn.Linear:
        sizes = {"inputs": head.in_features, "outputs": head.out_features}
        return {"kind": "Linear", **sizes, "bias": head.bias is not None}
    if kind is heads.Product:
        return {"kind": "Product"}
    if kind in LAYERS:
        return {"kind": kind.__name__} | {name: getattr(head, name) for name in LAYERS[kind]}
    raise ValueError(
        f"the head has a layer of type {kind.__name__}, which a model file cannot describe; save "
        "estimator.head_.state_dict() and estimator.theta_ yourself"
    )


def rebuild_head(
    description: Any, tensors: dict[str, Tensor], theta: NDArray[np.floating[Any]]
) -> nn.Module:
    """Build a described head with its parameters, ``head.…`` in the tensors of a file.

    The description comes from a file and is checked here: wrong kinds, shapes and values raise
    ``ValueError``.
    """
    with torch.device("meta"):  # wrong sizes from a file must not allocate memory
        head = _layer(description)
    state = {k.removeprefix("head."): v for k, v in tensors.items() if k.startswith("head.")}
    wanted = {name: tuple(value.shape) for name, value in head.state_dict().items()}
    given = {name: tuple(value.shape) for name, value in state.items()}
    require(given == wanted, "the head's parameters do not match its layers")
    finite = all(v.is_floating_point() and v.isfinite().all() for v in state.values())
    require(finite, "the head has parameters that are not finite")
    head.load_state_dict({name: value.clone() for name, value in state.items()}, assign=True)
    head.width = len(theta)  # type: ignore[assignment]
    return head


def _layer(content: Any) -> nn.Module:
    kind = content["kind"]
    options = {name: value for name, value in content.items() if name != "kind"}
    if kind == "Sequential":
        return nn.Sequential(*(_layer(layer) for layer in options["layers"]))
    if kind == "Linear":
        sizes = options["inputs"], options["outputs"]
        right = all(type(size) is int and 0 < size < 2**31 for size in sizes)
        require(right, f"a layer has the sizes {sizes!r:.60}")
        return nn.Linear(*sizes, bias=bool(options["bias"]))
    if kind == "Product":
        return heads.Product(a=0.0)
    if kind not in KINDS or set(options) != set(LAYERS[KINDS[kind]]):
        raise ValueError(f"the layer {content!r:.80} is not known; update decoupled-descent")
    for name, value in options.items():
        valid = value in ("none", "tanh") if name == "approximate" else is_finite_number(value)
        require(valid, f"a layer has {name}={value!r:.40}")
    return KINDS[kind](**options)
