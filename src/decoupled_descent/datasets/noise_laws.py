"""Noise laws: independent entries of mean zero and variance one; mixtures divide them by √d."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from decoupled_descent.checks import standard_error

#: ``law(shape, generator)``: independent draws of mean zero and variance one.
NoiseLaw = Callable[[tuple[int, ...], torch.Generator], Tensor]


def gaussian(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Draw from N(0, 1)."""
    return torch.randn(shape, generator=generator, dtype=torch.float64, device=generator.device)


def three_point(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Draw −√2, 0, √2 with probabilities ¼, ½, ¼ (the paper's equation "discNoise")."""
    uniform = _rand(shape, generator)
    return ((uniform < 0.25).double() - (uniform >= 0.75).double()) * -(2**0.5)


def rademacher(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Draw ±1 with equal probabilities."""
    return torch.randint(0, 2, shape, generator=generator, device=generator.device).double() * 2 - 1


def uniform(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Draw from the uniform law on [−√3, √3]."""
    return (_rand(shape, generator) * 2 - 1) * 3**0.5


def _rand(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.rand(shape, generator=generator, dtype=torch.float64, device=generator.device)


NOISES: dict[str, NoiseLaw] = {
    "gaussian": gaussian,
    "three_point": three_point,
    "rademacher": rademacher,
    "uniform": uniform,
}


def get_noise(noise: str | NoiseLaw) -> NoiseLaw:
    """Look up a noise law by name, or check mean and variance of one given as a function.

    Example:
        >>> sorted(set(get_noise("rademacher")((50,), torch.Generator()).tolist()))
        [-1.0, 1.0]
    """
    if not callable(noise):
        if noise not in NOISES:
            known = ", ".join(NOISES)
            raise ValueError(f"noise={noise!r} is unknown; use one of {known} or a function")
        return NOISES[noise]
    draws = noise((400, 250), torch.Generator().manual_seed(0)).double()
    if draws.shape != (400, 250):
        raise ValueError(
            f"noise returned shape {tuple(draws.shape)} when asked for (400, 250); it must draw "
            "as many values as it is asked for"
        )
    spread = float(standard_error(draws.square().flatten()))
    mean, variance = float(draws.mean()), float(draws.square().mean())
    if not (abs(mean) <= 6 / draws.numel() ** 0.5 and abs(variance - 1) <= 6 * spread + 1e-6):
        raise ValueError(
            f"noise has mean {mean:.3g} and second moment {variance:.3g} over {draws.numel()} "
            "draws; it must have mean 0 and variance 1 (mixtures divide by √d themselves)"
        )
    return noise
