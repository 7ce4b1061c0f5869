"""Centring and rotating kernel matrices and columns, against NumPy."""

import numpy as np
import pytest
import scipy.sparse
import torch

from decoupled_descent.tables.features import decomposition
from decoupled_descent.tables.features.decomposition import (
    IndefiniteError,
    blocks,
    from_columns,
    from_kernel,
    from_sparse_columns,
    leading_directions,
)
from tests.problems import normal


def weights(n, seed=3):
    return torch.from_numpy(np.random.default_rng(seed).uniform(0.2, 3, n))


def parts(X):
    """Goes through rows, dense or sparse, in blocks."""
    return lambda: ((span, X[span]) for span in blocks(*X.shape))


def check_features(phi, w, values):
    """Centred, uncorrelated, largest first, mean squared norm 1."""
    total = float(w.sum())
    np.testing.assert_allclose(w @ phi, 0, atol=1e-9 * total)
    moment = phi.T @ (w[:, None] * phi)
    np.testing.assert_allclose(moment, np.diag(values), atol=1e-9 * total)
    assert (values.diff() <= 1e-12 * total).all()
    np.testing.assert_allclose(float(w @ phi.square().sum(1)), total, rtol=1e-8)


def centred_gram(X, w):
    """Products of rows minus their weighted mean, over the weighted mean squared norm."""
    X, w = np.asarray(X), np.asarray(w)
    centred = X - np.average(X, axis=0, weights=w)
    gram = centred @ centred.T
    return gram / np.average(np.diag(gram), weights=w)


@pytest.mark.parametrize("shape", [(30, 5), (12, 40)])
def test_kernel_and_columns_give_the_same_features(shape):
    X, w = normal(*shape) + 3, weights(shape[0])
    by_kernel, phi = from_kernel(X @ X.T, w, 100)
    check_features(phi, w, by_kernel.values)
    np.testing.assert_allclose(phi @ phi.T, centred_gram(X, w), atol=1e-10)
    np.testing.assert_allclose(by_kernel(X @ X.T), phi, atol=1e-10)
    by_columns = from_columns(parts(X), w, 100)
    check_features(by_columns(X), w, by_columns.values)
    np.testing.assert_allclose(by_columns(X) @ by_columns(X).T, phi @ phi.T, atol=1e-10)
    sparse = from_sparse_columns(scipy.sparse.csr_matrix(X.numpy()), w, 100)
    np.testing.assert_allclose(sparse.values, by_columns.values, rtol=1e-10)
    np.testing.assert_allclose(sparse(X) @ sparse(X).T, phi @ phi.T, atol=1e-10)


def test_only_the_largest_directions_are_kept():
    X, w = normal(30, 8), weights(30)
    complete, few = from_columns(parts(X), w, 8), from_columns(parts(X), w, 3)
    assert torch.equal(few.values, complete.values[:3])
    assert from_kernel(X @ X.T, w, 3)[1].shape == (30, 3)


def test_repeated_columns_are_dropped():
    X = normal(30, 4)
    assert len(from_columns(parts(torch.cat((X, X), 1)), weights(30), 8).values) == 4


def test_blocks_cover_all_rows(monkeypatch):
    X, w = normal(50, 6), weights(50)
    complete = from_columns(parts(X), w, 6)
    monkeypatch.setattr(decomposition, "BLOCK_BYTES", 8 * 6 * 7)
    spans = list(blocks(50, 6))
    assert [span.stop - span.start for span in spans] == [7] * 7 + [1]
    np.testing.assert_allclose(from_columns(parts(X), w, 6).values, complete.values, rtol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
def test_leading_directions_span_the_largest_singular_vectors(sparse):
    X = normal(80, 60) * 0.6 ** torch.arange(60) + 2
    w = weights(80)
    raw = scipy.sparse.csr_matrix(X.numpy()) if sparse else X
    basis = leading_directions(parts(raw), w, 20, seed=0)
    centred = (X - w @ X / w.sum()) * w.sqrt()[:, None]
    true = torch.linalg.svd(centred, full_matrices=False)[2][:5].T
    np.testing.assert_allclose(basis @ (basis.T @ true), true, atol=1e-8)
    np.testing.assert_allclose(basis.T @ basis, np.eye(20), atol=1e-12)


def test_indefinite_and_constant_matrices_are_refused():
    ones = torch.ones(4, dtype=torch.float64)
    with pytest.raises(IndefiniteError, match="has the eigenvalue -"):
        from_kernel(torch.diag(torch.tensor([3.0, 1, 1, -1]).double()), ones, 4)
    with pytest.raises(ValueError, match="same for all pairs"):
        from_kernel(torch.ones(4, 4).double(), ones, 4)
