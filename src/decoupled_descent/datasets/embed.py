"""Compute the embeddings of CIFAR-10 cats and dogs: ``python -m decoupled_descent.datasets.embed``.

Every image is scaled to 224 × 224, normalised as the ResNet-18 that torchvision trained on ImageNet
expects, and sent through it up to the layer before the last: 512 numbers per image. Needs
torchvision, which this package does not install (``pip install torchvision``) and which downloads
CIFAR-10 (170 MB) and the weights (45 MB). Takes about ten minutes on a few cores.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from decoupled_descent.datasets.embeddings import CATS_DOGS
from decoupled_descent.datasets.folders import cache_folder
from decoupled_descent.files import written_whole
from decoupled_descent.progress import progress_bar

CAT, DOG = 3, 5  # CIFAR-10's numbers
SIZE = 224
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # ImageNet's, per colour


def prepare_images(images: NDArray[np.uint8], size: int = SIZE) -> Tensor:
    """Scale images (n, height, width, 3) of bytes and normalise them for an ImageNet network.

    Example:
        >>> prepare_images(np.zeros((1, 32, 32, 3), np.uint8), size=8).shape
        torch.Size([1, 3, 8, 8])
    """
    if images.ndim != 4 or images.shape[3] != 3 or images.dtype != np.uint8:
        raise ValueError(
            f"images have shape {images.shape} and dtype {images.dtype}; they must be bytes of "
            "shape (n, height, width, 3)"
        )
    pixels = torch.tensor(images).permute(0, 3, 1, 2).float() / 255
    scaled = functional.interpolate(pixels, size=(size, size), mode="bilinear", antialias=True)
    mean, deviation = (torch.tensor(v).view(1, 3, 1, 1) for v in (MEAN, DEVIATION))
    return (scaled - mean) / deviation


def without_last_layer(network: nn.Module) -> nn.Module:
    """Replace the classifier ``network.fc`` by the identity, in place; return the network."""
    if not isinstance(getattr(network, "fc", None), nn.Linear):
        raise ValueError(f"{type(network).__name__} has no linear layer called fc to remove")
    network.fc = nn.Identity()
    return network


def embed(
    network: nn.Module,
    images: NDArray[np.uint8],
    batch: int = 64,
    size: int = SIZE,
    progress: bool | None = None,
) -> NDArray[np.float32]:
    """Send images through a network in evaluation mode; return the features, shape (n, d)."""
    network.eval()
    result = []
    with torch.inference_mode(), progress_bar(len(images), "embedding", progress) as advance:
        for start in range(0, len(images), batch):
            some = prepare_images(images[start : start + batch], size)
            result.append(network(some).flatten(1))
            advance(start + len(some), "")
    features: NDArray[np.float32] = torch.cat(result).numpy()
    return features


def cats_and_dogs(
    network: nn.Module, parts: Sequence[tuple[NDArray[np.uint8], Any]], **options: Any
) -> dict[str, NDArray[Any]]:
    """Embed the cats and dogs among images with CIFAR-10's labels.

    ``parts`` has the images and labels of the train part, then of the test part. Returns ``X``,
    ``y`` (0 cat, 1 dog) and ``split`` (0 train, 1 test).
    """
    features, labels, splits = [], [], []
    for split, (images, classes) in enumerate(parts):
        numbers = np.asarray(classes)
        wanted = np.isin(numbers, (CAT, DOG))
        features.append(embed(network, images[wanted], **options))
        labels.append((numbers[wanted] == DOG).astype(np.uint8))
        splits.append(np.full(int(wanted.sum()), split, np.uint8))
    X, y, split_of = (np.concatenate(values) for values in (features, labels, splits))
    return {"X": X.astype(np.float16), "y": y, "split": split_of}


def save_npz(path: str | Path, arrays: dict[str, NDArray[Any]]) -> Path:
    """Write arrays to a compressed ``.npz``, whole or not at all; return its path."""
    path = Path(path).with_suffix(".npz")
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as partial:
        np.savez_compressed(partial, **arrays)  # type: ignore[arg-type]
    return path


def _torchvision_parts(folder: Path) -> tuple[nn.Module, list[tuple[NDArray[np.uint8], Any]]]:
    """Download the pre-trained network and CIFAR-10; only this needs torchvision."""
    try:
        torchvision: Any = importlib.import_module("torchvision")
    except ImportError as error:
        raise OSError("this needs torchvision: pip install torchvision") from error
    models, cifar10 = torchvision.models, torchvision.datasets.CIFAR10
    network = models.resnet18(weights=models.ResNet18_Weights.IMAGENET1K_V1)
    parts = [cifar10(str(folder), train=train, download=True) for train in (True, False)]
    return without_last_layer(network), [(part.data, part.targets) for part in parts]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m decoupled_descent.datasets.embed",
        description="Compute ResNet-18 embeddings of CIFAR-10's cats and dogs.",
    )
    default = cache_folder() / f"{CATS_DOGS}.npz"
    parser.add_argument("--out", type=Path, default=default, help="default: %(default)s")
    parser.add_argument(
        "--images",
        type=Path,
        default=cache_folder() / "cifar10",
        help="where CIFAR-10 is, or is downloaded to; default: %(default)s",
    )
    options = parser.parse_args(arguments)
    try:
        network, parts = _torchvision_parts(options.images)
        path = save_npz(options.out, cats_and_dogs(network, parts))
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    print(path)


if __name__ == "__main__":
    main()
