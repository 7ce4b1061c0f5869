r"""Layers of many copies of a network on the same rows, with their derivatives written out.

The rows are the last dimension, and copies are the first: values have the shape (m, features, n),
or (m, channels, height, width, n) for images. So one product of matrices serves all rows of a copy,
and one serves all copies where these get the same rows, as in the first layer; then m is 1. A
convolution is a linear layer whose input is unfolded: a column for each place and row.

For z = W x and the gradient ḡ in z, the derivatives are W' x + W x' forward, and ḡ xᵀ and Wᵀ ḡ
backward. ``torch.func`` makes the same products, but one call after the other through Python, and
each of them for all copies, which does not fit into the cache of a processor.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Tensors = Sequence[Tensor]


class Layer(ABC):
    """A layer: its value, its derivative along a direction, and that backward."""

    def __init__(self, module: nn.Module) -> None:
        """Take the options of a module."""
        self.module: Any = module

    def unfolded(self, x: Tensor) -> Tensor:
        """The input as ``value`` takes it."""
        return x

    def folded(self, gradient: Tensor, shape: torch.Size) -> Tensor:
        """The gradient in the input, of this shape, from that in the unfolded input."""
        return gradient.reshape(shape)

    @abstractmethod
    def value(self, own: Tensors, x: Tensor) -> tuple[Tensor, Any]:
        """The output, and what the derivatives need."""

    @abstractmethod
    def direction(self, own: Tensors, kept: Any, moved: Tensors, dx: Any) -> Tensor:
        """The change of the output if parameters and input (None: not at all) move like this."""

    @abstractmethod
    def pull(self, own: Tensors, kept: Any, gradient: Tensor) -> tuple[Tensors, Any]:
        """The gradients in the parameters, and what :meth:`back` takes."""

    @abstractmethod
    def back(self, own: Tensors, kept: Any, pulled: Any) -> Tensor:
        """The gradient in the unfolded input."""


class Linear(Layer):
    """W x + b."""

    def value(self, own: Tensors, x: Tensor) -> tuple[Tensor, Tensor]:
        """W x + b."""
        return self._shaped(_affine(own, x), x), x

    def direction(self, own: Tensors, kept: Tensor, moved: Tensors, dx: Any) -> Tensor:
        """W' x + b' + W x'."""
        result = _affine(moved, kept)
        if dx is not None:
            further = _product(_matrix(own[0]), dx)
            same = result.shape == further.shape
            result = result.add_(further) if same else result + further
        return self._shaped(result, kept)

    def pull(self, own: Tensors, kept: Tensor, gradient: Tensor) -> tuple[Tensors, Tensor]:
        """ḡ xᵀ and the sum of ḡ."""
        gradient = gradient.reshape(len(gradient), own[0].shape[1], -1)
        if len(kept) == 1:
            of_weight = (gradient.flatten(0, 1) @ kept[0].T).reshape(own[0].shape)
        else:
            of_weight = torch.bmm(gradient, kept.mT).reshape(own[0].shape)
        return [of_weight, *(gradient.sum(2) for _ in own[1:])], gradient

    def back(self, own: Tensors, kept: Tensor, pulled: Tensor) -> Tensor:
        """Wᵀ ḡ."""
        return torch.bmm(_matrix(own[0]).mT, pulled)

    def _shaped(self, result: Tensor, x: Tensor) -> Tensor:
        return result


class Convolution(Linear):
    """A convolution of images, as a linear layer of all patches."""

    def unfolded(self, x: Tensor) -> Tensor:
        """Patches of all places and rows, (m, channels × patch, places × n)."""
        (up, left), (height, width) = self.module.padding, self.module.kernel_size
        padded = functional.pad(x, (0, 0, left, left, up, up)) if up or left else x
        down, right = self.module.stride
        patches = padded.unfold(2, height, down).unfold(3, width, right)
        self._places = patches.shape[2:4]
        return patches.permute(0, 1, 5, 6, 2, 3, 4).reshape(len(x), x.shape[1] * height * width, -1)

    def folded(self, gradient: Tensor, shape: torch.Size) -> Tensor:
        """Add the gradients of all patches that contain a pixel."""
        (up, left), (height, width) = self.module.padding, self.module.kernel_size
        (down, right), (rows, columns) = self.module.stride, self._places
        sizes = shape[2] + 2 * up, shape[3] + 2 * left
        result = gradient.new_zeros(len(gradient), shape[1], *sizes, shape[4])
        patches = gradient.reshape(*result.shape[:2], height, width, rows, columns, -1)
        for a in range(height):
            for b in range(width):
                ends = a + down * (rows - 1) + 1, b + right * (columns - 1) + 1
                pixels = result[:, :, a : ends[0] : down, b : ends[1] : right]
                pixels.add_(patches[:, :, a, b])
        return result[:, :, up : up + shape[2], left : left + shape[3]]

    def _shaped(self, result: Tensor, x: Tensor) -> Tensor:
        return result.reshape(*result.shape[:2], *self._places, -1)


class Activation(Layer):
    """A function of single numbers; ``kept`` is its slope."""

    def direction(self, own: Tensors, kept: Tensor, moved: Tensors, dx: Any) -> Tensor:
        """f'(x) x'."""
        return torch.mul(dx, kept)

    def pull(self, own: Tensors, kept: Tensor, gradient: Tensor) -> tuple[Tensors, Tensor]:
        """There are no parameters."""
        return (), gradient

    def back(self, own: Tensors, kept: Tensor, pulled: Tensor) -> Tensor:
        """f'(x) ḡ."""
        return pulled.mul_(kept)


class Tanh(Activation):
    """By the logistic function, of which PyTorch has a fast one."""

    def value(self, own: Tensors, x: Tensor) -> tuple[Tensor, Tensor]:
        """The value 2σ(2x) − 1 and 1 − tanh² x."""
        result = torch.sigmoid(2 * x).mul_(2).sub_(1)
        return result, torch.addcmul(result.new_ones(()), result, result, value=-1)


class Sigmoid(Activation):
    """The logistic function."""

    def value(self, own: Tensors, x: Tensor) -> tuple[Tensor, Tensor]:
        """σ and σ(1 − σ)."""
        result = torch.sigmoid(x)
        return result, torch.addcmul(result, result, result, value=-1)


class ReLU(Activation):
    """The positive part."""

    def value(self, own: Tensors, x: Tensor) -> tuple[Tensor, Tensor]:
        """max(x, 0), and 1 where x is positive."""
        result = x.relu()
        return result, result.sign()


class GELU(Activation):
    """x Φ(x), with the normal distribution function."""

    def value(self, own: Tensors, x: Tensor) -> tuple[Tensor, Tensor]:
        """The value x Φ(x) and Φ(x) + x φ(x)."""
        below = torch.special.ndtr(x)
        density = x.square().mul_(-0.5).exp_().mul_(0.3989422804014327)
        return x * below, below.addcmul(x, density)


class SiLU(Activation):
    """x σ(x)."""

    def value(self, own: Tensors, x: Tensor) -> tuple[Tensor, Tensor]:
        """The value x σ and σ (1 + x (1 − σ))."""
        share = torch.sigmoid(x)
        result = x * share
        return result, share + result * (1 - share)


class Flatten(Layer):
    """All features of a row in one dimension."""

    def value(self, own: Tensors, x: Tensor) -> tuple[Tensor, torch.Size]:
        """The same numbers."""
        return x.reshape(len(x), -1, x.shape[-1]), x.shape

    def direction(
        self,
        own: Tensors,
        kept: torch.Size,
        moved: Tensors,
        dx: Any,
    ) -> Tensor:
        """The same numbers."""
        return torch.reshape(dx, (len(dx), -1, dx.shape[-1]))

    def pull(self, own: Tensors, kept: torch.Size, gradient: Tensor) -> tuple[Tensors, Tensor]:
        """There are no parameters."""
        return (), gradient

    def back(self, own: Tensors, kept: torch.Size, pulled: Tensor) -> Tensor:
        """The shape of the input."""
        return pulled.reshape(len(pulled), *kept[1:])


class Norm(Layer):
    """Layer normalisation of the features of a row: w x̂ + b."""

    def value(self, own: Tensors, x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """X̂ has mean 0 and variance 1."""
        centred = x - x.mean(1, keepdim=True)
        rate = centred.square().mean(1, keepdim=True).add_(self.module.eps).rsqrt_()
        normal = centred * rate
        return self._scaled(own, normal), (normal, rate)

    def direction(self, own: Tensors, kept: Any, moved: Tensors, dx: Any) -> Tensor:
        """The sum w' x̂ + b' + w x̂'."""
        normal, rate = kept
        result = self._scaled(moved, normal)
        if dx is None:
            return result
        return result + own[0].unsqueeze(2) * self._changed(normal, rate, dx)

    def pull(self, own: Tensors, kept: Any, gradient: Tensor) -> tuple[Tensors, Tensor]:
        """Sums of ḡ x̂ and of ḡ."""
        sums = [(gradient * kept[0]).sum(2), gradient.sum(2)]
        return sums[: len(own)], gradient

    def back(self, own: Tensors, kept: Any, pulled: Tensor) -> Tensor:
        """The same linear map as forward, for it is symmetric."""
        normal, rate = kept
        return self._changed(normal, rate, own[0].unsqueeze(2) * pulled)

    def _scaled(self, own: Tensors, normal: Tensor) -> Tensor:
        result = own[0].unsqueeze(2) * normal
        return result + own[1].unsqueeze(2) if len(own) > 1 else result

    def _changed(self, normal: Tensor, rate: Tensor, dx: Tensor) -> Tensor:
        along = (normal * dx).mean(1, keepdim=True)
        return rate * (dx - dx.mean(1, keepdim=True) - normal * along)


def _matrix(weight: Tensor) -> Tensor:
    """The weights of a layer as matrices, (m, out, in)."""
    return weight.flatten(2)


def _product(weight: Tensor, x: Tensor) -> Tensor:
    """W x, (m, out, n), where either may be the same for all copies."""
    if len(x) == 1 and len(weight) > 1:
        return (weight.flatten(0, 1) @ x[0]).reshape(*weight.shape[:2], -1)
    return torch.bmm(weight.expand(len(x), -1, -1), x)


def _affine(own: Tensors, x: Tensor) -> Tensor:
    result = _product(_matrix(own[0]), x)
    return result.add_(own[1].unsqueeze(2)) if len(own) > 1 else result


def layer_of(module: nn.Module) -> Layer | None:
    """The layer of a module; None if its derivatives are not written here.

    Example:
        >>> type(layer_of(nn.Linear(2, 3))).__name__, layer_of(nn.Bilinear(2, 2, 1))
        ('Linear', None)
    """
    kind, accepts = LAYERS.get(type(module), (None, None))
    if kind is None or any(each._forward_hooks or each._forward_pre_hooks for each in [module]):
        return None
    return kind(module) if accepts is None or accepts(module) else None


def _plain_convolution(module: Any) -> bool:
    same = module.groups == 1 and tuple(module.dilation) == (1, 1)
    return same and module.padding_mode == "zeros" and not isinstance(module.padding, str)


#: The layers by type, with what their options must be.
LAYERS: dict[type[nn.Module], tuple[type[Layer], Any]] = {
    nn.Linear: (Linear, None),
    nn.Conv2d: (Convolution, _plain_convolution),
    nn.Tanh: (Tanh, None),
    nn.Sigmoid: (Sigmoid, None),
    nn.ReLU: (ReLU, None),
    nn.GELU: (GELU, lambda module: module.approximate == "none"),
    nn.SiLU: (SiLU, None),
    nn.Flatten: (Flatten, lambda module: (module.start_dim, module.end_dim) == (1, -1)),
    nn.LayerNorm: (
        Norm,
        lambda module: module.elementwise_affine and len(module.normalized_shape) == 1,
    ),
}
