"""MNIST, from IDX files or downloaded once, and the paper's noisy zeros and eights."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decoupled_descent.datasets.folders import cache_folder, data_folders
from decoupled_descent.datasets.noise_laws import three_point
from decoupled_descent.files import written_whole
from decoupled_descent.quiet import ignoring

#: File names and SHA-256 sums of the raw values, in the order of :class:`Mnist`.
PARTS = {
    "train-images-idx3-ubyte": "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
    "train-labels-idx1-ubyte": "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
    "t10k-images-idx3-ubyte": "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
    "t10k-labels-idx1-ubyte": "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
}
SHAPES: list[tuple[int, ...]] = [(60000, 28, 28), (60000,), (10000, 28, 28), (10000,)]

Pixels = NDArray[np.uint8]


class Mnist(NamedTuple):
    """The data set as it was published: images of 28 × 28 bytes, and their digits."""

    train_images: Pixels  #: shape (60000, 28, 28)
    train_labels: Pixels  #: shape (60000,)
    test_images: Pixels  #: shape (10000, 28, 28)
    test_labels: Pixels  #: shape (10000,)


def read_idx(path: str | Path) -> Pixels:
    """Read an array of bytes in the IDX format; ``.gz`` means compressed."""
    path = Path(path)
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is damaged ({error}); fetch it again") from error
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise ValueError(f"{path} is not an IDX file of bytes: it starts with {content[:4]!r}")
    rank = content[3]
    shape = np.frombuffer(content, ">u4", count=rank, offset=4).astype(int)
    values = np.frombuffer(content, np.uint8, offset=4 + 4 * rank)
    if values.size != shape.prod():
        raise ValueError(
            f"{path} announces shape {tuple(shape.tolist())} but holds {values.size} values; "
            "fetch it again"
        )
    return values.reshape(shape)


def write_idx(path: str | Path, values: Pixels) -> None:
    """Write an array of bytes in the compressed IDX format, whole or not at all."""
    header = b"\0\0\x08" + bytes([values.ndim]) + np.array(values.shape, ">u4").tobytes()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as partial:
        partial.write_bytes(gzip.compress(header + values.tobytes(), mtime=0))


def load_mnist(data: str | Path | None = None) -> Mnist:
    """Find MNIST: IDX files in a folder or its subfolder ``mnist``, else downloaded from OpenML.

    Every array is compared with its SHA-256 sum, wherever it comes from.

    Args:
        data: The folder; by default the one named by ``DECOUPLED_DATA``, then the user's cache,
            which is also where a download goes.
    """
    for folder in data_folders(data):
        for place in (folder / "mnist", folder):
            paths = [path for path in (_at(place, name) for name in PARTS) if path is not None]
            if len(paths) == len(PARTS):
                arrays = Mnist(*(read_idx(path) for path in paths))
                check(arrays, paths)
                return arrays
    if data is not None:
        raise FileNotFoundError(
            f"no MNIST in {data}: {', '.join(PARTS)} (.gz or not) must be there or in its "
            "subfolder mnist"
        )
    return _download()


def _at(folder: Path, name: str) -> Path | None:
    """Return the file of this name, compressed or not, or None."""
    for candidate in (f"{name}.gz", name, name.replace("-idx", ".idx")):
        if (folder / candidate).is_file():
            return folder / candidate
    return None


def check(arrays: Mnist, sources: Sequence[object]) -> None:
    """Raise ``ValueError`` if an array is not the published one."""
    for name, shape, array, source in zip(PARTS, SHAPES, arrays, sources, strict=True):
        digest = hashlib.sha256(array.tobytes()).hexdigest()
        if array.shape != shape or digest != PARTS[name]:
            raise ValueError(
                f"{source} is not MNIST's {name}: shape {array.shape} (should be {shape}) or "
                "values differ from the published ones; remove it and fetch it again"
            )


def _download() -> Mnist:
    """Download MNIST with scikit-learn's OpenML client and keep it in the cache."""
    from sklearn.datasets import fetch_openml

    try:
        with ignoring(Warning):  # about retries; the error below is enough
            bunch = fetch_openml(
                "mnist_784", version=1, as_frame=False, cache=False, parser="pandas"
            )
    except OSError as error:
        raise OSError(
            f"MNIST was not found and could not be downloaded from openml.org ({error}); put its "
            "four IDX files in a folder and name it with --data or DECOUPLED_DATA"
        ) from error
    images = np.asarray(bunch["data"], dtype=np.uint8).reshape(-1, 28, 28)
    labels = np.asarray(bunch["target"]).astype(np.uint8)
    split = SHAPES[0][0]
    arrays = Mnist(images[:split], labels[:split], images[split:], labels[split:])
    check(arrays, ["the download from openml.org"] * len(PARTS))
    for name, array in zip(PARTS, arrays, strict=True):
        write_idx(cache_folder() / "mnist" / f"{name}.gz", array)
    return arrays


def two_digits(
    images: Pixels, labels: Pixels, digits: tuple[int, int] = (0, 8)
) -> tuple[Tensor, Tensor]:
    """Keep two of the digits.

    Args:
        images: Shape (m, 28, 28), bytes.
        labels: Shape (m,).
        digits: The digit that gets the label 0, and the one that gets the label 1.

    Returns:
        Images with values in [0, 1], shape (n, 784), and labels 0 and 1, both float32.

    Paper: ``get_data`` in the listing of Section sec:implementation.
    """
    wanted = np.isin(labels, digits)
    flat = images[wanted].reshape(int(wanted.sum()), -1)
    targets = labels[wanted] == digits[1]
    return torch.from_numpy(flat.astype(np.float32) / 255), torch.from_numpy(targets).float()


def add_noise(images: Tensor, snr: float, seed: int) -> Tensor:
    r"""Scale images and add three-point noise.

    .. math:: x \mapsto \frac{\lambda}{d} x + z, \qquad
       z_k = \pm\sqrt{2/d} \text{ with probability } \tfrac14 \text{ each, else } 0

    Args:
        images: Values in [0, 1], shape (n, d).
        snr: λ.
        seed: Of the noise.

    Returns:
        The rows to train on, shape (n, d): noise of variance 1/d.

    Example:
        >>> add_noise(torch.zeros(2, 8), snr=30.0, seed=0).abs().unique()
        tensor([0.0000, 0.5000])

    Paper: equation eq:discNoise.
    """
    n, d = images.shape
    noise = three_point((n, d), torch.Generator().manual_seed(seed))
    rows: Tensor = snr / d * images.double() + noise / d**0.5
    return rows.to(images.dtype)
