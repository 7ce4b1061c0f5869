"""Rows from disk, from sparse matrices, from datasets and from blocks: the same as in memory."""

import gc
import mmap
import pickle
import re
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import decoupled_descent as dd
from decoupled_descent.rows import sources as module
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.sources import HELD, Repeated, Sliced, as_source, read_size
from tests.problems import binary, two_layer

N, D = 50, 16


class Blocks:
    """Yields blocks of unequal size, again and again."""

    def __init__(self, X, sizes=(7, 12, 1, 9, 21), y=None):
        self.parts = [X.split(sizes)] + ([] if y is None else [y.split(sizes)])

    def __iter__(self):
        return zip(*self.parts, strict=True) if len(self.parts) == 2 else iter(self.parts[0])


class ArrayLike:
    """What HDF5 and Zarr have in common: shape, dtype, slices, ascending indices."""

    def __init__(self, X):
        self._X, self.shape, self.dtype = X.numpy(), tuple(X.shape), X.numpy().dtype
        self.chunks = (5, X.shape[1])

    def __getitem__(self, which):
        assert isinstance(which, slice) or (np.diff(which) > 0).all()
        return self._X[which]


class Items(Dataset):
    """A dataset of single rows, which are lists."""

    def __init__(self, X):
        self.X = X

    def __len__(self):
        return len(self.X)

    def __getitem__(self, k):
        return self.X[k].numpy()


def mapped(X, folder, mode="r"):
    path = folder / "X.npy"
    np.save(path, X.numpy())
    return np.load(path, mmap_mode=mode)


def hdf5(X, folder):
    h5py = pytest.importorskip("h5py")
    return h5py.File(folder / "X.h5", "w").create_dataset("X", data=X.numpy(), chunks=(5, 4))


def zarr_array(X, folder):
    zarr = pytest.importorskip("zarr")
    result = zarr.create_array(
        str(folder / "X.zarr"), shape=X.shape, dtype="float64", chunks=(5, 4)
    )
    result[:] = X.numpy()
    return result


KINDS = {
    "memory map": mapped,
    "view of a map": lambda X, f: mapped(torch.cat([X[:3], X]), f)[3:],
    "array-like": lambda X, f: ArrayLike(X),
    "HDF5": hdf5,
    "Zarr": zarr_array,
    "CSR": lambda X, f: scipy.sparse.csr_array(X.numpy()),
    "CSC": lambda X, f: scipy.sparse.csc_matrix(X.numpy()),
    "dataset": lambda X, f: Items(X),
    "blocks": lambda X, f: Blocks(X),
    "loader": lambda X, f: DataLoader(X, batch_size=6),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def rows(kind, tmp_path):
    X, y = binary(N, D)
    return Rows(KINDS[kind](X, tmp_path), y, block_size=10)


@every_kind
def test_blocks_are_the_rows(kind, rows):
    X, y = binary(N, D)
    assert not rows.in_memory
    assert (rows.n, rows.d, rows.like.dtype) == (N, D, torch.float64)
    for _ in range(2):
        blocks = list(rows.blocks())
        assert torch.equal(torch.cat([block.X for block in blocks]), X)
        assert torch.equal(torch.cat([rows.y[block.span] for block in blocks]), y)
        assert all(torch.equal(X[block.span], block.X) for block in blocks)
    torch.testing.assert_close(rows.squares, X.square().sum(1))


@every_kind
def test_single_rows(kind, rows):
    index = torch.tensor([40, 3, 3, 17, 0])
    assert torch.equal(rows.take(index), binary(N, D)[0][index])
    assert rows.in_order_only == (kind in ("blocks", "loader"))
    if rows.in_order_only:
        algorithm = dd.DecoupledDescent(0.05, batch_size=5)
        with pytest.raises(ValueError, match=r"come in one order only.*array on disk"):
            dd.fit(rows, None, two_layer(), algorithm, 2)


@every_kind
def test_training_is_that_in_memory(kind, rows):
    (X, y), objective = binary(N, D), two_layer()
    test = (KINDS["array-like"](X[:20], None), y[:20])
    for algorithm in (dd.DecoupledDescent(0.05), dd.OrthogonalDecoupledDescent(0.05)):
        run = dd.fit(rows, None, objective, algorithm, 6, test=test)
        same = dd.fit(X, y, objective, algorithm, 6, test=(X[:20], y[:20]))
        torch.testing.assert_close(run.state, same.state, rtol=1e-11, atol=1e-12)
        torch.testing.assert_close(run.train_error, same.train_error, rtol=1e-12, atol=0)
        torch.testing.assert_close(run.test_error, same.test_error, rtol=1e-12, atol=0)


def test_few_blocks_are_kept_in_memory(tmp_path):
    X, y = binary(N, D)
    rows = Rows(mapped(X, tmp_path), y)
    assert rows.in_memory
    assert torch.equal(rows.X, X)
    assert Rows(Blocks(X, (20, 20, 10)), y).in_memory
    assert not Rows(Blocks(X, (20, 10, 10, 10)), y).in_memory


def test_at_most_three_blocks_are_in_memory():
    alive, most = [], 0

    class Array(np.ndarray):  # plain arrays take no weak references
        pass

    class Counted(ArrayLike):
        def __getitem__(self, which):
            part = super().__getitem__(which)
            result = Array(part.shape)  # owns its memory
            result[:] = part
            alive.append(which)
            weakref.finalize(result, alive.remove, which)
            return result

    X, y = binary(N, D)
    for block in Rows(Counted(X), y, block_size=5).blocks():
        gc.collect()
        most = max(most, len(alive))
        assert len(block.X) == 5
    assert 2 <= most <= HELD


def test_one_thread_reads_ahead_and_ends():
    X, y = binary(N, D)
    names = set()

    class Watched(ArrayLike):
        def __getitem__(self, which):
            names.add(threading.current_thread().name)
            return super().__getitem__(which)

    rows = Rows(Watched(X), y, block_size=5)
    names.clear()
    list(rows.blocks())
    assert len(names) == 1
    assert "MainThread" not in names
    next(rows.blocks())  # given up half-way
    gc.collect()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("rows")]


def test_errors_of_the_reading_thread_arrive():
    class Broken(ArrayLike):
        def __getitem__(self, which):
            if isinstance(which, slice) and which.start >= 30:
                raise OSError("the disk is gone")
            return super().__getitem__(which)

    with pytest.raises(OSError, match="the disk is gone"):
        Rows(Broken(binary(N, D)[0]), binary(N, D)[1], block_size=10)


@pytest.mark.parametrize("paired", [TensorDataset, lambda X, y: Blocks(X, y=y)])
def test_labels_come_with_the_rows(paired):
    X, y = binary(N, D)
    rows = Rows(paired(X, y), block_size=8)
    assert torch.equal(rows.y, y)
    with pytest.raises(ValueError, match="y must be None when X yields rows with their labels"):
        Rows(paired(X, y), y)


class SingleRows(IterableDataset):
    def __iter__(self):
        return iter(binary(N, D)[0])


class Fewer:
    """Fewer rows each time."""

    def __init__(self):
        self.size = N

    def __iter__(self):
        self.size -= 1
        return iter(binary(N, D)[0][: self.size].split(7))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda X: iter(X.split(5)), "can be iterated only once"),
        (lambda X: Blocks(X[:0], ()), "yields no rows"),
        (lambda X: SingleRows(), r"blocks of shape \(16,\).*DataLoader"),
        (lambda X: iter_of([X[:9], X[9:, :4]]), "blocks of 16 and of 4 columns"),
        (lambda X: ArrayLike(torch.where(X[33, 2] == X, torch.nan, X)), r"X\[33, 2\] is nan"),
    ],
)
def test_bad_sources(given, message):
    X, y = binary(N, D)
    with pytest.raises(ValueError, match=message):
        Rows(given(X), y, block_size=10)


def iter_of(parts):
    """An object that yields the same parts each time."""
    return type("Parts", (), {"__iter__": lambda self: iter(parts)})()


def test_rows_that_change_are_noticed():
    rows = Rows(Fewer(), binary(N - 2, D)[1])
    with pytest.raises(ValueError, match="yielded 47 rows or more, and 48 before"):
        list(rows.blocks())


def test_what_needs_all_rows_says_so():
    X, y = binary(N, D)
    rows = Rows(ArrayLike(X), y, block_size=10)
    with pytest.raises(ValueError, match=r"all of X in memory, but X \(50 × 16.*block by block"):
        _ = rows.X


def test_whole_numbers_and_single_precision():
    X, y = binary(N, D)
    assert Rows(ArrayLike((X * 10).int()), y, 10).like.dtype == torch.get_default_dtype()
    assert Rows(ArrayLike(X.float()), y, 10).like.dtype == torch.float32


def test_private_maps_keep_their_changes(tmp_path):
    X, y = binary(N, D)
    changed = mapped(X, tmp_path, "c")
    changed[7] = 0.0
    rows = Rows(changed, y, block_size=10)
    for _ in range(2):
        assert torch.cat([block.X for block in rows.blocks()])[7].abs().max() == 0


def test_predictions_come_block_by_block(monkeypatch):
    X, y = binary(N, D)
    run = dd.fit(X, y, two_layer(), dd.DecoupledDescent(0.05), 3)
    monkeypatch.setattr(module, "READ_BYTES", 8 * D * 16)
    torch.testing.assert_close(run.predict(ArrayLike(X)), run.predict(X), rtol=1e-12, atol=0)
    with pytest.raises(ValueError, match=r"X\[33, 2\] is inf"):
        run.predict(ArrayLike(torch.where(X[33, 2] == X, torch.inf, X)))


def test_blocks_are_whole_chunks():
    class Chunked:
        chunks = (100, 4)

    assert read_size(Chunked(), 40_000) == 400
    assert read_size(np.zeros(3), 40_000) == 419
    assert read_size(np.zeros(3), 2**30) == 16


def test_kinds():
    X, _ = binary(6, 4)
    assert all(as_source(one) is None for one in (X, X.numpy(), X.tolist(), None, "X"))
    assert isinstance(as_source(Items(X)), Sliced)
    assert isinstance(as_source(DataLoader(X)), Repeated)


def test_rows_are_sent_to_processes():
    X, y = binary(N, D)
    rows = pickle.loads(pickle.dumps(Rows(scipy.sparse.csr_array(X.numpy()), y, block_size=10)))
    assert torch.equal(torch.cat([block.X for block in rows.blocks()]), X)


VIEWS = {
    "all": slice(None), "later": slice(7, None), "every other": slice(None, None, 2),
    "backwards": slice(None, None, -1),
}  # fmt: skip


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the system does not say")
@pytest.mark.parametrize("view", VIEWS)
def test_pages_of_a_map_are_given_back(view, tmp_path):
    """Whatever part of the file the rows are, at most a page at each end stays."""
    X = np.arange(4096 * 100, dtype=np.float32).reshape(4096, 100)
    np.save(tmp_path / "rows.npy", X)
    held = np.load(tmp_path / "rows.npy", mmap_mode="r")
    source = as_source(held[VIEWS[view]])
    read = [part.X.numpy().copy() for part in source.parts(300)]
    np.testing.assert_array_equal(np.concatenate(read), X[VIEWS[view]])
    text = Path("/proc/self/smaps").read_text().split(str(tmp_path / "rows.npy"))[1]
    resident = int(re.search(r"Rss:\s+(\d+) kB", text)[1])
    assert resident <= 2 * mmap.PAGESIZE // 1024
    some = torch.tensor([5, 1000, 3])
    np.testing.assert_array_equal(source.take(some).numpy(), X[VIEWS[view]][some.numpy()])
    kept = [part.X for part in source.parts(300)]  # longer than is needed: the pages come back
    np.testing.assert_array_equal(torch.cat(kept).numpy(), X[VIEWS[view]])


def test_rows_of_a_map_are_not_copied(tmp_path):
    np.save(tmp_path / "rows.npy", np.ones((100, 10), np.float32))
    held = np.load(tmp_path / "rows.npy", mmap_mode="r")
    addresses = [part.X.data_ptr() - held.ctypes.data for part in as_source(held).parts(30)]
    assert addresses == [0, 1200, 2400, 3600]
