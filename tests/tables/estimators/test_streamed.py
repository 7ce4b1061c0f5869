"""Estimators on rows that are read block by block: the numbers of rows in memory."""

import os

import numpy as np
import pytest
import scipy.sparse
import torch
from torch.utils.data import DataLoader, TensorDataset

import decoupled_descent as dd
from decoupled_descent.rows import inputs, sources, store
from decoupled_descent.tables.estimators import inputs as estimator_inputs
from decoupled_descent.tables.search import ranking, ridge_fits

N, D = 240, 6


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    """Features are fitted to all rows after the ranking, as with many rows."""
    monkeypatch.setattr(ranking, "RANKED", 100)


@pytest.fixture
def on_disk(monkeypatch):
    """Makes nothing small enough to be read as a whole; pieces have a few rows."""

    def streaming():
        monkeypatch.setattr(inputs, "HELD", 0)
        monkeypatch.setattr(inputs, "PIECE_BYTES", 64 * 8 * D)
        monkeypatch.setattr(sources, "READ_BYTES", 50 * 8 * D)
        for module in (store, estimator_inputs):
            monkeypatch.setattr(module, "SMALL", 0)

    return streaming


def table(classes=2, n=N, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, D)) * np.arange(1, D + 1) + 3
    signal = X[:, 0] + 0.5 * (X[:, 1] - 3) ** 2 + rng.standard_normal(n)
    if classes == 0:
        return X.astype(dtype), signal
    return X.astype(dtype), np.digitize(
        signal, np.quantile(signal, np.arange(1, classes) / classes)
    )


class Sliced:
    """What HDF5 and Zarr arrays have in common."""

    def __init__(self, X):
        self.X, self.shape, self.dtype = X, X.shape, X.dtype

    def __getitem__(self, which):
        return self.X[which]


class Blocks:
    """Yields blocks of unequal size, anew each time."""

    def __init__(self, X):
        self.X = X

    def __iter__(self):
        yield self.X[:101]
        yield self.X[101:]


def mapped(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


def sources_of(X, y, folder):
    pairs = TensorDataset(torch.from_numpy(X), torch.from_numpy(y))
    return {
        "map": (mapped(X, folder), y),
        "sliced": (Sliced(X), y),
        "blocks": (Blocks(X), y),
        "dataset": (pairs, None),
        "loader": (DataLoader(pairs, batch_size=37), None),
    }


FEATURES = ["linear", dd.features.Kernel("rbf", landmarks=40), "laplace1/ranks"]


def same(model, other, name):
    np.testing.assert_allclose(getattr(model, name), getattr(other, name), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", ["map", "sliced", "blocks", "dataset", "loader"])
def test_every_kind_of_rows_gives_the_classifier_of_memory(kind, on_disk, tmp_path):
    X, y = table()
    model = dd.DecoupledClassifier(features=FEATURES[:2], ridge=0.1)
    model.fit(X, y)
    predictions = model.predict_proba(X)
    on_disk()
    given, labels = sources_of(X, y, tmp_path)[kind]
    result = dd.DecoupledClassifier(features=FEATURES[:2], ridge=0.1).fit(given, labels)
    for name in ("estimated_test_error_", "estimated_test_error_stderr_", "corrected_proba_"):
        same(result, model, name)
    assert result.diagnostics_.verdict == model.diagnostics_.verdict
    np.testing.assert_allclose(result.predict_proba(given), predictions, atol=1e-8)
    assert (result.predict(given) == predictions.argmax(1)).all()


def test_memory_and_disk_choose_the_same_model(on_disk, monkeypatch, tmp_path):
    X, y = table()
    monkeypatch.setattr(ridge_fits, "SAMPLED", 150)
    in_memory = dd.DecoupledClassifier(features=FEATURES[::2]).fit(X, y)
    on_disk()
    result = dd.DecoupledClassifier(features=FEATURES[::2]).fit(mapped(X, tmp_path), y)
    for name in ("estimated_test_error_", "corrected_proba_"):
        same(result, in_memory, name)
    kept = [{k: one[k] for k in ("features", "ridge")} for one in result.candidates_]
    assert kept == [{k: one[k] for k in ("features", "ridge")} for one in in_memory.candidates_]


@pytest.mark.parametrize("classes", [0, 3])
def test_numbers_and_several_classes(classes, on_disk, tmp_path):
    X, y = table(classes)
    kind = dd.DecoupledRegressor if classes == 0 else dd.DecoupledClassifier
    model, result = (kind(features=FEATURES[:2], ridge=0.1) for _ in range(2))
    model.fit(X, y)
    ends = model.predict_interval(X) if classes == 0 else None
    on_disk()
    result.fit(mapped(X, tmp_path), y)
    # the weights of the mixture of classes are known to 1e-5, where expectation-maximisation ends
    errors = result.estimated_test_error_, model.estimated_test_error_
    np.testing.assert_allclose(*errors, rtol=1e-5 if classes else 1e-6)
    if classes == 0:
        same(result, model, "corrected_prediction_")
        np.testing.assert_allclose(result.predict_interval(Blocks(X)), ends, rtol=1e-5)


@pytest.mark.parametrize("options", [
    {"features": "rbf", "ridge": 0.1}, {"features": ["linear", "linear/ranks"], "ridge": 0.1},
])  # fmt: skip
def test_sparse_rows_come_in_dense_blocks_where_they_must(options, on_disk):
    X, y = table()
    X[X < 0.3] = 0
    model, result = (dd.DecoupledClassifier(**options) for _ in range(2))
    model.fit(X, y)
    on_disk()
    result.fit(scipy.sparse.csr_array(X), y)
    np.testing.assert_allclose(result.train_error_curve_, model.train_error_curve_, rtol=1e-5)
    same(result, model, "estimated_test_error_")
    expected = model.predict_proba(X)
    for other in (X, scipy.sparse.csr_array(X), scipy.sparse.csc_matrix(X)):
        np.testing.assert_allclose(result.predict_proba(other), expected, rtol=1e-5)
        np.testing.assert_allclose(model.predict_proba(other), expected, rtol=1e-5)


def test_features_on_disk_are_those_of_memory(on_disk, monkeypatch, tmp_path):
    X, y = table()
    model = dd.DecoupledClassifier(features=FEATURES[:2], ridge=0.1).fit(X, y)
    on_disk()
    monkeypatch.setattr(store, "MEMORY", 0)
    result = dd.DecoupledClassifier(features=FEATURES[:2], ridge=0.1).fit(mapped(X, tmp_path), y)
    same(result, model, "corrected_proba_")


def test_a_full_disk_is_one_line(on_disk, monkeypatch, tmp_path):
    X, y = table()
    on_disk()
    monkeypatch.setattr(store, "MEMORY", 0)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match=r"do not fit \(No space left on device\); set TMPDIR"):
        dd.DecoupledClassifier(features="linear", ridge=1.0).fit(mapped(X, tmp_path), y)


def test_single_precision_gives_nearly_the_same(on_disk):
    X, y = table()
    options = {"features": FEATURES[:2], "ridge": 0.1}
    result = dd.DecoupledClassifier(**options).fit(X, y)
    on_disk()
    model = dd.DecoupledClassifier(**options).fit(X.astype(np.float32), y)
    np.testing.assert_allclose(model.corrected_proba_, result.corrected_proba_, atol=2e-5)


def test_what_cannot_be_done_is_said_in_one_line(on_disk, tmp_path):
    X, y = table()
    on_disk()
    rows = mapped(X, tmp_path)
    weights = np.ones(N)
    weights[3] = 0
    with pytest.raises(ValueError, match=r"sample_weight is 0 in row 3; .* leave them out of X"):
        dd.DecoupledClassifier(ridge=1.0).fit(rows, y, sample_weight=weights)
    with pytest.raises(ValueError, match="y must be None"):
        dd.DecoupledClassifier().fit(TensorDataset(torch.from_numpy(X), torch.from_numpy(y)), y)
    with pytest.raises(ValueError, match="239"):
        dd.DecoupledClassifier().fit(rows, y[1:])
    from sklearn.preprocessing import PolynomialFeatures

    with pytest.raises(ValueError, match="all of X in memory"):
        dd.DecoupledClassifier(features=PolynomialFeatures(2), ridge=1.0).fit(rows, y)
    model = dd.DecoupledClassifier(features="linear", ridge=1.0).fit(rows, y)
    with pytest.raises(ValueError, match="learning_curve needs X in memory"):
        model.learning_curve(rows, y)
    with pytest.raises(ValueError, match="3 features"):
        model.predict(Blocks(X[:, :3]))


def test_weights_and_groups_of_rows_on_disk(on_disk, tmp_path):
    X, y = table()
    rng = np.random.default_rng(1)
    given = {"sample_weight": rng.integers(1, 3, N), "groups": rng.integers(0, 60, N)}
    options = {"features": "linear", "ridge": 0.5}
    model = dd.DecoupledClassifier(**options).fit(X, y, **given)
    on_disk()
    result = dd.DecoupledClassifier(**options).fit(mapped(X, tmp_path), y, **given)
    same(result, model, "corrected_proba_")
    same(result, model, "estimated_test_error_stderr_")
