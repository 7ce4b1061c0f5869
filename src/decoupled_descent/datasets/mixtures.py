"""Gaussian mixtures, the paper's data model (equation "dist"), and its four examples."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from decoupled_descent.checks import whole_number
from decoupled_descent.datasets.noise_laws import NoiseLaw, get_noise
from decoupled_descent.datasets.responses import Noisy, Sampler, flipped, get_modes


class GaussianMixture:
    r"""J modes in d dimensions, each with its own law of the response.

    .. math:: (x, y) \sim N(\mu_j/d, I_d/d) \otimes P_j \quad\text{with probability } p_j

    Args:
        means: μ_1 … μ_J, shape (J, d), with entries of order one.
        weights: p_1 … p_J.
        responses: One number (a Dirac law) or sampler ``(count, generator) -> (count,)`` per mode;
            :mod:`decoupled_descent.responses` has ready ones.
        noise: ``"gaussian"``, ``"three_point"``, ``"rademacher"``, ``"uniform"``, or a function
            ``law(shape, generator)`` of mean 0 and variance 1, which is divided by √d here.

    Example:
        >>> mixture = GaussianMixture(torch.ones(1, 4), [1.0], [0.0])
        >>> X, y = mixture.sample(3, seed=0)
        >>> X.shape, y, mixture.overlaps
        (torch.Size([3, 4]), tensor([0., 0., 0.]), tensor([[1.]], dtype=torch.float64))
    """

    def __init__(
        self,
        means: Tensor,
        weights: Sequence[float] | Tensor,
        responses: Sequence[float | Sampler],
        noise: str | NoiseLaw = "gaussian",
    ) -> None:
        self.means = torch.as_tensor(means, dtype=torch.float64, device="cpu")
        if self.means.ndim != 2 or 0 in self.means.shape or not self.means.isfinite().all():
            raise ValueError(
                f"means has shape {tuple(self.means.shape)}; it must be a finite (J, d) matrix, "
                "one mean per row"
            )
        self.modes, self.dimension = self.means.shape
        self.weights, self.responses = get_modes(weights, responses, self.modes)
        self.noise = get_noise(noise)

    def __repr__(self) -> str:
        """Name the number of modes and the dimension."""
        return f"GaussianMixture(modes={self.modes}, dimension={self.dimension})"

    @property
    def overlaps(self) -> Tensor:
        """χ with χ_jk = μ_jᵀμ_k/d, shape (J, J)."""
        return self.means @ self.means.T / self.dimension

    def sample(
        self, n: int, seed: int | None = None, dtype: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor]:
        """Draw n independent rows.

        Args:
            n: Number of rows.
            seed: Makes the draw reproducible; the same seed gives the same rows in every dtype.
            dtype: Type of X and y; torch's default type if None.

        Returns:
            X of shape (n, d) and y of shape (n,).
        """
        X, y, _ = self.sample_with_modes(n, seed, dtype)
        return X, y

    def sample_with_modes(
        self, n: int, seed: int | None = None, dtype: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Draw like :meth:`sample`, and also return the mode of each row, shape (n,)."""
        whole_number("n", n)
        generator = torch.Generator()
        if seed is None:
            generator.seed()
        else:
            generator.manual_seed(seed)
        modes, means, y = self._draw(n, generator)
        X = self.noise((n, self.dimension), generator).to(torch.float64)
        X = X.div_(self.dimension**0.5).add_(means.div_(self.dimension))
        dtype = dtype or torch.get_default_dtype()
        return X.to(dtype), y.to(dtype), modes

    def _draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Draw the mode, the mean and the response of every row."""
        modes = torch.multinomial(self.weights, n, replacement=True, generator=generator)
        y = torch.zeros(n, dtype=torch.float64, device=generator.device)
        for j, law in enumerate(self.responses):
            members = torch.nonzero(modes == j).squeeze(1)
            if len(members):
                y[members] = law(len(members), generator).to(y)
        return modes, self.means[modes], y


def signalless(dimension: int, noise: str | NoiseLaw = "gaussian") -> GaussianMixture:
    """One mode at zero with response zero (Example "data" (1)).

    Args:
        dimension: d.
        noise: The noise law.
    """
    return GaussianMixture(torch.zeros(1, dimension, device="cpu"), [1.0], [0.0], noise)


def flipped_classes(
    dimension: int,
    snr: float = 1.0,
    flip: float = 0.1,
    labels: tuple[float, float] = (-1.0, 1.0),
    noise: str | NoiseLaw = "gaussian",
) -> GaussianMixture:
    """Two classes at ±v, with some labels flipped (Example "data" (2)).

    Args:
        dimension: d.
        snr: λ, every entry of v.
        flip: ε in (0, ½), the probability of a wrong label.
        labels: The labels of the modes v and −v; use (0, 1) with the loss ``"logistic"``.
        noise: The noise law.
    """
    if not 0 <= flip <= 0.5:
        raise ValueError(f"flip={flip} must lie between 0 and 0.5")
    v = torch.full((1, dimension), float(snr), dtype=torch.float64, device="cpu")
    first, second = labels
    laws = [flipped(first, second, flip), flipped(second, first, flip)]
    return GaussianMixture(torch.cat([v, -v]), [0.5, 0.5], laws, noise)


def discrete_regression(
    dimension: int,
    modes: int = 100,
    snr: float = 1.0,
    slope: float = 1.0,
    intercept: float = 0.0,
    response_noise: float = 0.1,
    weights: Sequence[float] | Tensor | None = None,
    noise: str | NoiseLaw = "gaussian",
) -> GaussianMixture:
    """Modes j v with response c₁ j + c₂ plus noise, a discretised regression (Example "data" (3)).

    Here j stands for 1/J, 2/J, …, 1, so that ``snr`` and ``slope`` mean the same for every number
    of modes.

    Args:
        dimension: d.
        modes: J.
        snr: λ, every entry of v.
        slope: c₁.
        intercept: c₂.
        response_noise: Standard deviation of the Gaussian response noise.
        weights: p_1 … p_J; uniform by default.
        noise: The noise law of the features.
    """
    whole_number("modes", modes)
    level = torch.arange(1, modes + 1, dtype=torch.float64, device="cpu") / modes
    means = float(snr) * level.unsqueeze(1).expand(modes, dimension)
    laws = [Noisy(slope * float(j) + intercept, response_noise) for j in level]
    if weights is None:
        weights = [1 / modes] * modes
    return GaussianMixture(means, weights, laws, noise)


def xor(dimension: int, snr: float = 4.0, noise: str | NoiseLaw = "gaussian") -> GaussianMixture:
    """Four modes ±[v, v] (response 0) and ±[v, −v] (response 1) (Example "data" (4)).

    Args:
        dimension: d, even.
        snr: λ, every entry of v.
        noise: The noise law.

    Example:
        >>> xor(dimension=6, snr=2.0).overlaps[0]
        tensor([ 4., -4.,  0.,  0.], dtype=torch.float64)
    """
    if dimension < 2 or dimension % 2:
        raise ValueError(f"dimension={dimension} must be even: the means are pairs [v, ±v]")
    v = torch.full((dimension // 2,), float(snr), dtype=torch.float64, device="cpu")
    means = torch.stack([torch.cat(m) for m in ([v, v], [-v, -v], [-v, v], [v, -v])])
    return GaussianMixture(means, [0.25] * 4, [0.0, 0.0, 1.0, 1.0], noise)
