"""Embeddings of a pre-trained network, read from ``.npz``, ``.npy`` or Parquet files."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.datasets.folders import data_folders

#: Name of the file with the embeddings of CIFAR-10's cats and dogs, without the suffix.
CATS_DOGS = "cifar10_cats_dogs_resnet18"


class Embeddings(NamedTuple):
    """Rows of features with labels."""

    X: NDArray[np.float32]  #: features, shape (n, d)
    y: NDArray[np.int64]  #: labels, shape (n,)
    split: NDArray[np.int64] | None  #: 0 for train rows, 1 for test rows, if the file says so


def load_embeddings(path: str | Path) -> Embeddings:
    """Read embeddings from a file.

    Args:
        path: One of

            - ``.npz`` with arrays ``X`` and ``y``, and perhaps ``split``;
            - ``.npy`` with the features, beside ``<stem>_labels.npy``, and perhaps
              ``<stem>_split.npy``;
            - ``.parquet`` with a column ``y``, perhaps ``split``, and one column per feature (needs
              the extra ``tables``).

    Returns:
        The embeddings. Rows may be sorted by class: shuffle before taking some.
    """
    path = Path(path)
    if path.suffix not in READERS:
        raise ValueError(f"{path} has suffix {path.suffix!r}; use one of {', '.join(READERS)}")
    if not path.is_file():
        raise FileNotFoundError(f"embeddings {path} do not exist")
    try:
        arrays = READERS[path.suffix](path)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} cannot be read as {path.suffix} ({error})") from error
    missing = [name for name in ("X", "y") if name not in arrays]
    if missing:
        raise ValueError(f"{path} has no {' and no '.join(missing)}; it has {', '.join(arrays)}")
    return _checked(path, arrays)


def _checked(path: Path, arrays: dict[str, NDArray[np.generic]]) -> Embeddings:
    """Convert the arrays to their types, or say what is wrong with them."""
    X = arrays["X"]
    if X.ndim != 2 or X.dtype.kind not in "fiu" or not np.isfinite(X).all():
        raise ValueError(
            f"{path}: X has shape {X.shape} and dtype {X.dtype}; it must be a finite "
            "matrix of numbers, one row per sample"
        )
    labels = {}
    for name in {"y", "split"} & set(arrays):
        values = arrays[name]
        if values.shape != (len(X),):
            raise ValueError(f"{path}: {name} has shape {values.shape} but X has {len(X)} rows")
        if values.dtype.kind not in "biuf" or (values.astype(np.int64) != values).any():
            raise ValueError(f"{path}: {name} must hold whole numbers, not {values.dtype}")
        labels[name] = values.astype(np.int64)
    return Embeddings(X.astype(np.float32), labels["y"], labels.get("split"))


def _read_npz(path: Path) -> dict[str, NDArray[np.generic]]:
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _read_npy(path: Path) -> dict[str, NDArray[np.generic]]:
    places = {
        "X": path,
        "y": path.with_name(f"{path.stem}_labels.npy"),
        "split": path.with_name(f"{path.stem}_split.npy"),
    }
    return {k: np.load(p, allow_pickle=False) for k, p in places.items() if p.is_file()}


def _read_parquet(path: Path) -> dict[str, NDArray[np.generic]]:
    import pandas

    try:
        table = pandas.read_parquet(path)
    except ImportError as error:
        raise OSError(
            f"reading {path} needs pyarrow: pip install 'decoupled-descent[tables]'"
        ) from error
    known = {name: table.pop(name).to_numpy() for name in ("y", "split") if name in table}
    return {"X": table.to_numpy()} | known


READERS: dict[str, Callable[[Path], dict[str, NDArray[np.generic]]]] = {
    ".npz": _read_npz,
    ".npy": _read_npy,
    ".parquet": _read_parquet,
}


def find_cats_dogs(data: str | Path | None = None) -> Path:
    """Find the file with the embeddings of CIFAR-10's cats and dogs.

    Args:
        data: A folder, or the file itself; by default the folder named by ``DECOUPLED_DATA``, then
            the user's cache.
    """
    if data is not None and Path(data).is_file():
        return Path(data)
    folders = data_folders(data)
    for folder in folders:
        for suffix in READERS:
            if (folder / f"{CATS_DOGS}{suffix}").is_file():
                return folder / f"{CATS_DOGS}{suffix}"
    raise FileNotFoundError(
        f"no {CATS_DOGS}.npz (.npy, .parquet) in {' and '.join(map(str, folders))}; compute it "
        "with 'python -m decoupled_descent.datasets.embed' (needs torchvision), or name its folder "
        "with --data or DECOUPLED_DATA"
    )
