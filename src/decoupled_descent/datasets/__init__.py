"""Data sets: mixtures to sample from, MNIST, embeddings, and whitening.

Example:
    >>> from decoupled_descent import datasets
    >>> X, y = datasets.mixtures.xor(dimension=10, snr=4.0).sample(5, seed=0)
    >>> datasets.Whitening("vanilla").fit_transform(X).shape
    (5, 10)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from decoupled_descent.datasets import mixtures, responses
from decoupled_descent.datasets.continuous import ContinuousMixture
from decoupled_descent.datasets.embeddings import Embeddings, find_cats_dogs, load_embeddings
from decoupled_descent.datasets.mixtures import GaussianMixture
from decoupled_descent.datasets.mnist import Mnist, add_noise, load_mnist, two_digits

if TYPE_CHECKING:
    from decoupled_descent.datasets.whitening import Whitening

__all__ = [
    "ContinuousMixture",
    "Embeddings",
    "GaussianMixture",
    "Mnist",
    "Whitening",
    "add_noise",
    "find_cats_dogs",
    "load_embeddings",
    "load_mnist",
    "mixtures",
    "responses",
    "two_digits",
]


def __getattr__(name: str) -> Any:
    """Import ``Whitening`` on first use: it needs scikit-learn, which is slow to import."""
    if name != "Whitening":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from decoupled_descent.datasets.whitening import Whitening

    return Whitening
