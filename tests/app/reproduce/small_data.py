"""Generated data sets that pass for the real ones, written where the loaders look."""

import hashlib

import numpy as np

from decoupled_descent.datasets import mnist
from decoupled_descent.datasets.embeddings import CATS_DOGS


def write_mnist(folder, monkeypatch, train=300, test=120, seed=0):
    """Noisy blobs, zeros brighter on the left and eights on the right, as IDX files."""
    rng = np.random.default_rng(seed)
    arrays = []
    for count in (train, test):
        labels = rng.choice([0, 3, 8], count).astype(np.uint8)
        images = rng.integers(0, 120, (count, 28, 28))
        images[labels == 0, :, :14] += 130
        images[labels == 8, :, 14:] += 130
        arrays += [images.astype(np.uint8), labels]
    parts = {}
    for name, array in zip(mnist.PARTS, arrays, strict=True):
        mnist.write_idx(folder / "mnist" / f"{name}.gz", array)
        parts[name] = hashlib.sha256(array.tobytes()).hexdigest()
    monkeypatch.setattr(mnist, "PARTS", parts)
    monkeypatch.setattr(mnist, "SHAPES", [array.shape for array in arrays])


def write_embeddings(folder, rows=240, d=12, seed=0):
    """Two shifted, correlated classes, sorted by class."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], rows // 2)
    X = (rng.normal(size=(rows, d)) + 0.8 * y[:, None]) @ rng.normal(size=(d, d))
    np.savez(folder / f"{CATS_DOGS}.npz", X=X.astype(np.float16), y=y)
