"""MNIST: the IDX format, where it is looked for, the download, and the paper's noise."""

import gzip
import hashlib
import struct

import numpy as np
import pytest
import sklearn.datasets
import torch

from decoupled_descent.datasets import mnist
from tests.real_data import real_data

SHAPES = [(30, 28, 28), (30,), (10, 28, 28), (10,)]


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A data set of 40 generated images that passes for MNIST, and an empty cache."""
    rng = np.random.default_rng(0)
    arrays = mnist.Mnist(*(rng.integers(0, 10, shape).astype(np.uint8) for shape in SHAPES))
    sums = [hashlib.sha256(array.tobytes()).hexdigest() for array in arrays]
    monkeypatch.setattr(mnist, "PARTS", dict(zip(mnist.PARTS, sums, strict=True)))
    monkeypatch.setattr(mnist, "SHAPES", list(SHAPES))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("DECOUPLED_DATA", raising=False)
    return arrays


@pytest.fixture
def openml(small, monkeypatch):
    """OpenML's client, answering with the small data set; a list of the calls it got."""
    calls = []

    def fetch(name, **options):
        calls.append((name, options))
        images = np.concatenate([small.train_images, small.test_images]).reshape(40, 784)
        labels = np.concatenate([small.train_labels, small.test_labels])
        return {"data": images.astype(float), "target": labels.astype(str).astype(object)}

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    return calls


@pytest.fixture
def offline(small, monkeypatch):
    def fetch(name, **options):
        raise OSError("no route to host")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)


def save(folder, arrays, pattern="{}.gz"):
    """Write the arrays as IDX files with nothing but struct."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in zip(mnist.PARTS, arrays, strict=True):
        content = struct.pack(">HBB", 0, 8, array.ndim)
        content += struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
        name = pattern.format(name)
        (folder / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("below", ["", "mnist"])
@pytest.mark.parametrize("pattern", ["{}.gz", "{}"])
def test_files_at_hand(small, offline, tmp_path, monkeypatch, below, pattern):
    save(tmp_path / below, small, pattern)
    assert_same(mnist.load_mnist(tmp_path), small)
    monkeypatch.setenv("DECOUPLED_DATA", str(tmp_path))
    assert_same(mnist.load_mnist(), small)


def test_download_is_kept(small, openml, tmp_path):
    assert_same(mnist.load_mnist(), small)
    assert [name for name, _ in openml] == ["mnist_784"]
    kept = tmp_path / "cache" / "decoupled-descent" / "mnist"
    assert sorted(path.name for path in kept.iterdir()) == sorted(f"{n}.gz" for n in mnist.PARTS)
    assert_same(mnist.load_mnist(), small)
    assert len(openml) == 1


def test_a_download_that_is_something_else(small, openml, monkeypatch, tmp_path):
    name = "t10k-images-idx3-ubyte"
    monkeypatch.setitem(mnist.PARTS, name, "0" * 64)
    with pytest.raises(ValueError, match=f"download from openml.org is not MNIST's {name}"):
        mnist.load_mnist()
    assert not (tmp_path / "cache").exists()


def test_an_interrupted_download_leaves_nothing_behind(small, openml, monkeypatch, tmp_path):
    def full_disk(self, target):
        raise OSError("disk full")

    monkeypatch.setattr("pathlib.Path.replace", full_disk)
    with pytest.raises(OSError, match="disk full"):
        mnist.load_mnist()
    assert not list((tmp_path / "cache" / "decoupled-descent" / "mnist").iterdir())


def test_no_network(offline):
    with pytest.raises(OSError, match=r"could not be downloaded.*no route to host.*DECOUPLED_DATA"):
        mnist.load_mnist()


def test_a_folder_without_mnist_is_not_replaced_by_a_download(openml, tmp_path):
    with pytest.raises(FileNotFoundError, match="no MNIST in"):
        mnist.load_mnist(tmp_path)
    assert not openml


def test_wrong_values_are_refused(small, tmp_path):
    other = small._replace(test_labels=small.test_labels + 1)
    save(tmp_path, other)
    with pytest.raises(ValueError, match=r"t10k-labels-idx1-ubyte\.gz is not MNIST's"):
        mnist.load_mnist(tmp_path)


@pytest.mark.parametrize("pattern", ["{}.gz", "{}"])
def test_truncated_files(small, tmp_path, pattern):
    save(tmp_path, small, pattern)
    path = tmp_path / pattern.format("train-images-idx3-ubyte")
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(ValueError, match=r"train-images.*fetch it again"):
        mnist.load_mnist(tmp_path)


def test_not_an_idx_file(tmp_path):
    (tmp_path / "file").write_bytes(b"<html>not found</html>")
    with pytest.raises(ValueError, match="is not an IDX file of bytes: it starts with b'<htm'"):
        mnist.read_idx(tmp_path / "file")


@pytest.mark.parametrize("shape", [(3,), (2, 5), (2, 3, 4)])
def test_idx_round_trip(tmp_path, shape):
    values = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    mnist.write_idx(tmp_path / "new" / "values.gz", values)
    np.testing.assert_array_equal(mnist.read_idx(tmp_path / "new" / "values.gz"), values)


def test_two_digits():
    labels = np.array([0, 3, 8, 8, 1, 0], np.uint8)
    images = np.full((6, 2, 2), 51, np.uint8) * np.arange(6, dtype=np.uint8)[:, None, None]
    rows, targets = mnist.two_digits(images, labels)
    assert targets.tolist() == [0, 1, 1, 0]
    expected = torch.tensor([0, 0.4, 0.6, 1.0]).unsqueeze(1).expand(4, 4)
    torch.testing.assert_close(rows, expected)


def test_noise_is_the_papers():
    d = 784
    images = torch.rand(300, d, generator=torch.Generator().manual_seed(0))
    noise = (mnist.add_noise(images, 30.0, seed=1) - 30 / d * images) * d**0.5
    values, counts = noise.mul(1e3).round().unique(return_counts=True)
    assert values.tolist() == [-1414, 0, 1414]
    shares, exact = counts / noise.numel(), torch.tensor([0.25, 0.5, 0.25])
    assert bool(((shares - exact).abs() < 5 * (exact * (1 - exact) / noise.numel()).sqrt()).all())
    assert torch.equal(mnist.add_noise(images, 30.0, 1), mnist.add_noise(images, 30.0, 1))
    assert not torch.equal(mnist.add_noise(images, 30.0, 1), mnist.add_noise(images, 30.0, 2))


@pytest.mark.data
def test_the_real_thing():
    whole = mnist.load_mnist(real_data("mnist"))
    counts = [
        [int((labels == digit).sum()) for digit in (0, 8)]
        for labels in (whole.train_labels, whole.test_labels)
    ]
    assert counts == [[5923, 5851], [980, 974]]
    rows, targets = mnist.two_digits(whole.test_images, whole.test_labels)
    assert rows.shape == (1954, 784)
    assert (rows.min(), rows.max(), targets.sum()) == (0, 1, 974)
    assert whole.train_labels[:5].tolist() == [5, 0, 4, 1, 9]
