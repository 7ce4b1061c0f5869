r"""Heads: the small networks 𝓜_a that turn pre-activations h (n, L) into outputs (n,) or (n, K).

Any ``nn.Module`` that treats rows independently is a head. The ones below are the paper's examples
(Example "mlp" of the appendix). All but :class:`Product` are plain ``nn.Sequential`` chains.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from decoupled_descent.checks import whole_number

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "identity": nn.Identity,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "softplus": nn.Softplus,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
}
Activation = str | nn.Module | Callable[[Tensor], Tensor]


class Elementwise(nn.Module):
    """An activation given as a plain function, applied entry by entry."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, h: Tensor) -> Tensor:
        """Apply the function."""
        return self.function(h)

    def extra_repr(self) -> str:
        """Name the function in ``print(head)``."""
        return getattr(self.function, "__name__", repr(self.function))


def activation_module(activation: Activation) -> nn.Module:
    """Turn a key of ``ACTIVATIONS``, a module or an elementwise function into a module."""
    if isinstance(activation, nn.Module):
        return activation
    if not isinstance(activation, str):
        return Elementwise(activation)
    if activation not in ACTIVATIONS:
        raise ValueError(
            f"activation={activation!r} is unknown; use one of {', '.join(ACTIVATIONS)}, "
            "an nn.Module or an elementwise function"
        )
    return ACTIVATIONS[activation]()


def _linear(inputs: int, outputs: int, bias: bool, generator: torch.Generator | None) -> nn.Linear:
    """Build an ``nn.Linear`` with PyTorch's default law U(±1/√inputs), from its own generator."""
    if generator is None:
        return nn.Linear(inputs, outputs, bias=bias)
    layer = nn.Linear(inputs, outputs, bias=bias, device="meta").to_empty(device="cpu")
    bound = inputs**-0.5
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-bound, bound, generator=generator)
    return layer


def _generator(seed: int | None) -> torch.Generator | None:
    return None if seed is None else torch.Generator().manual_seed(seed)


class Shift(nn.Module):
    """Adds a trainable constant to each column: an intercept, or the biases of a hidden layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = whole_number("width", width)
        self.bias = nn.Parameter(torch.zeros(self.width))

    def forward(self, h: Tensor) -> Tensor:
        """Return h + b, shape (n, L)."""
        return h + self.bias


class Linear(nn.Sequential):
    r"""The linear model 𝓜(h) = h, or h + b with an intercept.

    With loss ``"squared"`` this is linear regression, with ``"logistic"`` logistic regression, with
    ``"cross_entropy"`` softmax regression.

    Args:
        outputs: K = L, the number of outputs.
        intercept: Whether a constant b is trained for each output.

    Example:
        >>> import torch
        >>> Linear()(torch.ones(2, 1)).shape
        torch.Size([2, 1])
    """

    def __init__(self, outputs: int = 1, intercept: bool = False) -> None:
        super().__init__(Shift(outputs) if intercept else nn.Identity())
        self.width = whole_number("outputs", outputs)


class GeneralisedLinear(nn.Sequential):
    r"""The generalised linear model 𝓜(h) = σ(h), with L = 1.

    Args:
        link: σ, a name such as ``"tanh"``, an ``nn.Module`` or an elementwise function.

    Example:
        >>> import torch
        >>> GeneralisedLinear(torch.sin)
        GeneralisedLinear(
          (0): Elementwise(sin)
        )
    """

    width = 1

    def __init__(self, link: Activation = "sigmoid") -> None:
        super().__init__(activation_module(link))


class Deep(nn.Sequential):
    r"""A network of finite width, 𝓜_a(h) = φ(W_k σ(… W₁ σ(h))).

    The weights start from PyTorch's default law U(±1/√fan-in), as in the paper's listing.

    Args:
        widths: L, then the width of each further hidden layer.
        activation: σ.
        outputs: K, the number of outputs.
        bias: Whether the head's linear maps carry a bias (the paper's do not).
        link: φ, applied to the outputs; none by default.
        seed: Draws the weights from this seed instead of torch's global generator.
        hidden_bias: Whether the first hidden layer has biases too, σ(h + c). Without them, and with
            odd σ, the network is an odd function of the centred inputs and learns no interactions.

    Example:
        >>> import torch
        >>> Deep([5, 3], outputs=2, seed=0)(torch.zeros(4, 5)).shape
        torch.Size([4, 2])
    """

    def __init__(
        self,
        widths: Sequence[int],
        activation: Activation = "tanh",
        outputs: int = 1,
        bias: bool = False,
        link: Activation | None = None,
        seed: int | None = None,
        hidden_bias: bool = False,
    ) -> None:
        if not widths:
            raise ValueError("widths is empty; give at least L, the width of the first layer")
        sizes = [whole_number("widths", w) for w in widths] + [whole_number("outputs", outputs)]
        generator = _generator(seed)
        layers: list[nn.Module] = [Shift(sizes[0])] if hidden_bias else []
        for inputs, following in itertools.pairwise(sizes):
            layers.append(activation_module(activation))
            layers.append(_linear(inputs, following, bias, generator))
        if link is not None:
            layers.append(activation_module(link))
        super().__init__(*layers)
        self.width = sizes[0]


class TwoLayer(Deep):
    r"""The two-layer network 𝓜_a(h) = φ(σ(h) a).

    Args:
        width: L.
        activation: σ.
        outputs: K, the number of outputs.
        bias: Whether the output layer carries a bias.
        link: φ, applied to the outputs; none by default.
        seed: Draws the weights from this seed instead of torch's global generator.
        hidden_bias: Whether the hidden layer has biases: φ(σ(h + c) a).

    Example:
        >>> TwoLayer(9)
        TwoLayer(
          (0): Tanh()
          (1): Linear(in_features=9, out_features=1, bias=False)
        )
    """

    def __init__(
        self,
        width: int,
        activation: Activation = "tanh",
        outputs: int = 1,
        bias: bool = False,
        link: Activation | None = None,
        seed: int | None = None,
        hidden_bias: bool = False,
    ) -> None:
        super().__init__([width], activation, outputs, bias, link, seed, hidden_bias)


class Product(nn.Module):
    r"""The XOR head 𝓜_a(h) = a h₁ h₂, with L = 2.

    Args:
        a: The starting value; drawn from N(0, 1) when not given, as in the paper.
        seed: Draws ``a`` from this seed instead of torch's global generator.

    Example:
        >>> import torch
        >>> Product(a=2.0)(torch.tensor([[1.0, 3.0]]))
        tensor([6.], grad_fn=<MulBackward0>)
    """

    width = 2

    def __init__(self, a: float | None = None, seed: int | None = None) -> None:
        super().__init__()
        generator = _generator(seed)
        if a is not None:
            start = torch.tensor(float(a))
        else:
            device = None if generator is None else generator.device
            start = torch.randn((), generator=generator, device=device)
        self.a = nn.Parameter(start)

    def forward(self, h: Tensor) -> Tensor:
        """Return a h₁ h₂, shape (n,)."""
        return self.a * h[:, 0] * h[:, 1]
