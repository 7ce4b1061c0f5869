"""Embeddings: three file formats, what is wrong with a file, and where files are found."""

import re

import numpy as np
import pandas
import pytest

from decoupled_descent.datasets import embeddings
from tests.real_data import real_data

X = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
Y = np.array([0, 1, 0, 1, 1, 0, 1])
SPLIT = np.array([0, 0, 0, 0, 0, 1, 1])


def save(path, **arrays):
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    elif path.suffix == ".npy":
        names = {"X": "", "y": "_labels", "split": "_split"}
        for name, array in arrays.items():
            np.save(path.with_name(f"{path.stem}{names[name]}.npy"), array)
    else:
        table = pandas.DataFrame(arrays.pop("X")).rename(columns=str)
        table.assign(**arrays).to_parquet(path)
    return path


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".parquet"])
def test_formats(tmp_path, suffix):
    found = embeddings.load_embeddings(save(tmp_path / f"e{suffix}", X=X, y=Y, split=SPLIT))
    np.testing.assert_array_equal(found.X, X)
    np.testing.assert_array_equal(found.y, Y)
    np.testing.assert_array_equal(found.split, SPLIT)
    assert (found.X.dtype, found.y.dtype) == (np.float32, np.int64)


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".parquet"])
def test_the_split_is_optional(tmp_path, suffix):
    found = embeddings.load_embeddings(save(tmp_path / f"e{suffix}", X=X, y=Y))
    assert found.split is None
    np.testing.assert_array_equal(found.y, Y)


def test_half_precision_is_widened(tmp_path):
    found = embeddings.load_embeddings(save(tmp_path / "e.npz", X=X.astype(np.float16), y=Y))
    np.testing.assert_array_equal(found.X, X.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_damaged_files(tmp_path, suffix):
    path = save(tmp_path / f"e{suffix}", X=X, y=Y)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match=f"cannot be read as {suffix}"):
        embeddings.load_embeddings(path)


def test_no_pickles(tmp_path):
    path = save(tmp_path / "e.npz", X=np.array([[object()]]), y=Y[:1])
    with pytest.raises(ValueError, match="allow_pickle=False"):
        embeddings.load_embeddings(path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": Y}, "has no X; it has y"),
        ({"X": X}, "has no y; it has X"),
        ({"X": X[0], "y": Y}, "X has shape (4,)"),
        ({"X": np.where(X > 0, np.nan, X), "y": Y}, "must be a finite matrix of numbers"),
        ({"X": X.astype(str), "y": Y}, "dtype <U32"),
        ({"X": X, "y": Y[:5]}, "y has shape (5,) but X has 7 rows"),
        ({"X": X, "y": Y + 0.5}, "y must hold whole numbers"),
        ({"X": X, "y": Y, "split": SPLIT[:2]}, "split has shape (2,) but X has 7 rows"),
    ],
)
def test_what_is_wrong(tmp_path, arrays, message):
    path = save(tmp_path / "e.npz", **arrays)
    with pytest.raises(ValueError, match=re.escape(message)):
        embeddings.load_embeddings(path)


def test_other_files(tmp_path):
    with pytest.raises(ValueError, match=r"suffix '.pt'; use one of .npz, .npy, .parquet"):
        embeddings.load_embeddings(tmp_path / "e.pt")
    with pytest.raises(FileNotFoundError, match=r"e\.npz do not exist"):
        embeddings.load_embeddings(tmp_path / "e.npz")


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".parquet"])
def test_finding_cats_and_dogs(tmp_path, monkeypatch, suffix):
    path = save(tmp_path / f"{embeddings.CATS_DOGS}{suffix}", X=X, y=Y)
    monkeypatch.setenv("DECOUPLED_DATA", str(tmp_path))
    assert embeddings.find_cats_dogs() == path
    monkeypatch.delenv("DECOUPLED_DATA")
    assert embeddings.find_cats_dogs(tmp_path) == embeddings.find_cats_dogs(path) == path


def test_no_cats_and_dogs(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"compute it with 'python -m .*datasets\.embed'"):
        embeddings.find_cats_dogs(tmp_path)


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    path = save(tmp_path / "e.parquet", X=X, y=Y)

    def missing(path):
        raise ImportError("Missing optional dependency 'pyarrow'")

    monkeypatch.setattr(pandas, "read_parquet", missing)
    with pytest.raises(OSError, match=r"needs pyarrow: pip install 'decoupled-descent\[tables\]'"):
        embeddings.load_embeddings(path)


@pytest.mark.data
def test_the_real_thing():
    path = embeddings.find_cats_dogs(real_data(f"{embeddings.CATS_DOGS}.npz"))
    found = embeddings.load_embeddings(path)
    assert found.X.shape == (12000, 512)
    for split, count in ((0, 5000), (1, 1000)):
        for label in (0, 1):
            assert ((found.y == label) & (found.split == split)).sum() == count
