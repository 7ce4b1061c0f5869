"""Response laws P_j: the distribution of y, given the mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from decoupled_descent.datasets.noise_laws import gaussian

#: ``sampler(count, generator)``: independent responses, shape (count,).
Sampler = Callable[[int, torch.Generator], Tensor]


@dataclass(frozen=True)
class Discrete:
    """A law of finitely many values.

    Args:
        values: The values.
        probabilities: Their probabilities.

    Example:
        >>> Discrete((1.0, -1.0), (0.9, 0.1))(4, torch.Generator().manual_seed(0)).shape
        torch.Size([4])
    """

    values: tuple[float, ...]
    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        """Check the probabilities."""
        total = sum(self.probabilities)
        if len(self.values) != len(self.probabilities) or not self.values:
            raise ValueError(
                f"values={self.values} and probabilities={self.probabilities} must be of the same "
                "length, at least 1"
            )
        if not (min(self.probabilities) >= 0 and abs(total - 1) <= 1e-6):
            raise ValueError(
                f"probabilities={self.probabilities} must be at least 0 and sum to 1, not {total:g}"
            )

    def __call__(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw responses."""
        values = torch.tensor(self.values, dtype=torch.float64, device=generator.device)
        if len(values) == 1:
            return values.expand(count)
        weights = values.new_tensor(self.probabilities)
        return values[torch.multinomial(weights, count, replacement=True, generator=generator)]


@dataclass(frozen=True)
class Noisy:
    """A mean plus noise.

    Args:
        mean: The mean.
        scale: Multiplies the noise; the standard deviation for Gaussian noise.
        sampler: Draws the noise; N(0, 1) by default.

    Example:
        >>> Noisy(3.0, 0.1)(2, torch.Generator().manual_seed(0)).round()
        tensor([3., 3.], dtype=torch.float64)
    """

    mean: float
    scale: float
    sampler: Sampler | None = None

    def __call__(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw responses."""
        sampler = self.sampler or (lambda n, source: gaussian((n,), source))
        return self.mean + self.scale * sampler(count, generator)


def dirac(value: float) -> Discrete:
    """Return the law of a constant."""
    return Discrete((float(value),), (1.0,))


def flipped(label: float, other: float, probability: float) -> Discrete:
    """Return the law of ``label`` that is replaced by ``other`` with the given probability."""
    return Discrete((float(label), float(other)), (1 - probability, probability))


def get_modes(
    weights: Sequence[float] | Tensor, responses: Sequence[float | Sampler], modes: int
) -> tuple[Tensor, list[Sampler]]:
    """Check the weights of J modes, and turn one number (a Dirac law) or sampler each into laws."""
    result = torch.as_tensor(weights, dtype=torch.float64, device="cpu")
    total = float(result.sum())
    fitting = result.shape == (modes,) and bool((result >= 0).all())
    if not fitting or abs(total - 1) > 1e-6:
        raise ValueError(
            f"weights={result.tolist()} must be {modes} probabilities that sum to 1 (they sum to "
            f"{total:g})"
        )
    if len(responses) != modes:
        raise ValueError(
            f"responses has {len(responses)} entries but there are {modes} means; give one number "
            "or sampler per mode"
        )
    return result, [law if callable(law) else dirac(law) for law in responses]
