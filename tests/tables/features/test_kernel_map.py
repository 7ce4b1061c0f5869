"""Features of kernels: exact, with landmarks, linear, sparse; saved and restored."""

import json
import tracemalloc
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from decoupled_descent.tables.features import Kernel, decomposition, kernel_map, restore
from decoupled_descent.tables.features.kernels import KERNELS
from tests.tables.features.test_decomposition import centred_gram, check_features

NAMES = [(kind, ranks) for kind in KERNELS for ranks in (False, True)]


def table(n=60, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** np.arange(d) + 5
    X[:, 0] = rng.integers(0, 5, n)
    return X


def counts(n, d, seed=0):
    X = np.random.default_rng(seed).poisson(0.3, (n, d)).astype(float)
    X[:, 2] = 0
    return X


def gram(phi):
    return (phi @ phi.T).numpy()


@pytest.mark.parametrize("landmarks", [2000, 25])
@pytest.mark.parametrize(("kind", "ranks"), NAMES)
def test_features_are_centred_and_uncorrelated(kind, ranks, landmarks):
    X = table()
    w = np.random.default_rng(1).uniform(0.2, 3, len(X))
    kernel = Kernel(kind, ranks=ranks, landmarks=landmarks)
    phi = kernel.fit_transform(X, sample_weight=w)
    check_features(phi, torch.from_numpy(w), kernel.map_.values)
    np.testing.assert_allclose(kernel.transform(X), phi, atol=1e-8)
    np.testing.assert_allclose(kernel.transform(X[7:9]), phi[7:9], atol=1e-8)


def test_products_of_features_are_the_centred_kernel():
    X, w = table(), np.random.default_rng(1).uniform(0.2, 3, 60)
    mean = np.average(X, axis=0, weights=w)
    A = (X - mean) / np.sqrt(np.average((X - mean) ** 2, axis=0, weights=w))
    assert np.abs(A).max() < 5
    K = rbf_kernel(A, gamma=1 / (2 * 0.7**2 * 2 * 4))
    centring = np.eye(60) - np.outer(np.ones(60), w) / w.sum()
    C = centring @ K @ centring.T
    expected = C / np.average(np.diag(C), weights=w)
    phi = Kernel("rbf", 0.7).fit_transform(X, sample_weight=w)
    np.testing.assert_allclose(gram(phi), expected, atol=1e-8)


@pytest.mark.parametrize("kind", KERNELS)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000))
def test_order_and_unit_do_not_matter_and_weights_count_rows(kind, seed):
    rng = np.random.default_rng(seed)
    X, w = table(20, seed=seed), rng.integers(0, 4, 20)
    w[:3] = 2
    kernel = Kernel(kind)
    phi = kernel.fit_transform(X, sample_weight=w)
    rows = rng.permutation(np.repeat(np.arange(20), w))
    again = Kernel(kind)
    repeated = again.fit_transform(X[rows] * 7 - 3)
    np.testing.assert_allclose(gram(repeated), gram(phi[rows]), atol=1e-7)
    new = table(6, seed=seed + 1)
    np.testing.assert_allclose(
        gram(again.transform(new * 7 - 3)), gram(kernel.transform(new)), atol=1e-6
    )


@pytest.mark.parametrize("kind", ["rbf", "laplace1"])
def test_enough_landmarks_are_exact(kind):
    X = table(50)
    exact = Kernel(kind, landmarks=50)
    phi = exact.fit_transform(X)
    nearly = Kernel(kind, landmarks=49)  # one row fewer: approximate, and close for most rows
    assert np.median(np.abs(gram(nearly.fit_transform(X)) - gram(phi))) < 0.02
    many = Kernel(kind, landmarks=60)
    assert torch.equal(many.fit_transform(X), phi)
    repeated = np.repeat(X, 2, 0)  # landmarks that include every distinct row are exact as well
    forced = Kernel(kind, landmarks=99)
    np.testing.assert_allclose(gram(forced.fit_transform(repeated))[::2, ::2], gram(phi), atol=1e-6)


def test_more_landmarks_come_closer():
    X = table(300)
    exact = gram(Kernel("rbf").fit_transform(X))
    errors = [
        np.abs(gram(Kernel("rbf", landmarks=m).fit_transform(X)) - exact).mean()
        for m in (10, 50, 250)
    ]
    assert errors[0] > 2 * errors[1] > 8 * errors[2]


def test_landmarks_follow_the_seed():
    X = table(80)
    one, same, other = (Kernel(landmarks=9, seed=s).fit_transform(X) for s in (0, 0, 1))
    assert torch.equal(one, same)
    assert not np.allclose(gram(one), gram(other))


def test_blocks_change_nothing(monkeypatch):
    X = table(100)
    complete = Kernel("matern", landmarks=30)
    phi = complete.fit_transform(X)
    monkeypatch.setattr(decomposition, "BLOCK_BYTES", 8 * 30 * 7)
    small = Kernel("matern", landmarks=30)
    np.testing.assert_allclose(gram(small.fit_transform(X)), gram(phi), atol=1e-9)
    np.testing.assert_allclose(complete.transform(X), phi, atol=1e-8)


def test_memory_is_bounded_by_fewer_landmarks(monkeypatch):
    monkeypatch.setattr(kernel_map, "MEMORY", 8 * 500 * 20)
    kernel = Kernel("rbf")
    assert kernel.fit_transform(table(500)).shape[1] <= 20
    assert len(kernel.landmark_rows_) == 20
    sparse = Kernel("linear").fit_transform(scipy.sparse.csr_matrix(counts(500, 60)))
    assert sparse.shape[1] == 20
    assert Kernel("linear").fit_transform(counts(500, 60)).shape[1] == 59  # no larger than X


@pytest.mark.parametrize("shape", [(50, 8), (12, 40), (20, 20)])
def test_linear_features_are_rotated_columns(shape):
    X = np.random.default_rng(0).normal(2, 1, shape)
    kernel = Kernel("linear")
    phi = kernel.fit_transform(X)
    np.testing.assert_allclose(gram(phi), centred_gram((X - X.mean(0)) / X.std(0), np.ones(len(X))))
    assert kernel.map_.projection.shape == (shape[1], phi.shape[1])
    np.testing.assert_allclose(kernel.transform(X), phi, atol=1e-8)


@pytest.mark.parametrize("landmarks", [2000, 15])
@pytest.mark.parametrize("shape", [(90, 30), (30, 90)])
def test_sparse_rows_are_dense_rows(shape, landmarks):
    X = counts(*shape)
    w = np.random.default_rng(1).uniform(0.2, 3, len(X))
    kernel = Kernel("linear", landmarks=landmarks)
    phi = kernel.fit_transform(scipy.sparse.csr_array(X), sample_weight=w)
    check_rows = scipy.sparse.csc_matrix(X[:5])
    np.testing.assert_allclose(kernel.transform(check_rows), phi[:5], atol=1e-8)
    np.testing.assert_allclose(kernel.transform(X), phi, atol=1e-8)
    keep = X.std(0) > 0
    scaled = X[:, keep] / np.sqrt(np.average(X[:, keep] ** 2, axis=0, weights=w))
    expected = centred_gram(np.clip(scaled, -5, 5), w)
    if landmarks == 2000:
        np.testing.assert_allclose(gram(phi), expected, atol=1e-9)
    else:  # nearly the best approximation of that rank
        w = torch.from_numpy(w)
        best = torch.linalg.eigvalsh(w.sqrt() * torch.from_numpy(expected) * w.sqrt()[:, None])
        kept = float(best[-15:].sum() / best.sum())
        result = kernel.map_.values / kernel.map_.values[0] * best[-1]
        assert phi.shape[1] == 15
        assert 0.95 * kept < float(result.sum() / best.sum()) < 1.05 * kept


@pytest.mark.parametrize("landmarks", [2000, 20])
@pytest.mark.parametrize("shape", [(3000, 400), (400, 3000)])
def test_sparse_rows_are_never_made_dense(shape, landmarks):
    rng = np.random.default_rng(0)
    X = scipy.sparse.random_array(shape, density=0.01, rng=rng, format="csr")
    kernel = Kernel("linear", landmarks=landmarks)
    with allocations() as sizes:
        kernel.fit_transform(X)
    assert len(kernel.columns_.keep) > 0.9 * shape[1]  # nearly all columns vary
    assert shape not in sizes
    assert max(np.prod(size) for size in sizes) <= 400**2  # moments or products of rows only
    tracemalloc.start()
    Kernel("linear", landmarks=20).fit_transform(X)
    peak = tracemalloc.get_traced_memory()[1]  # of NumPy and SciPy
    tracemalloc.stop()
    assert peak < 8 * np.prod(shape) / 2


@contextmanager
def allocations():
    """Record the shape of everything sparse that is made dense."""
    sizes = [(0, 0)]
    with pytest.MonkeyPatch.context() as patch:
        for kind in (scipy.sparse.csr_array, scipy.sparse.csr_matrix, scipy.sparse.csc_array):
            for name in ("toarray", "todense"):
                original = getattr(kind, name)

                def recorded(self, *args, original=original, **options):
                    sizes.append(self.shape)
                    return original(self, *args, **options)

                patch.setattr(kind, name, recorded)
        yield sizes


def test_own_kernel_function():
    def own(A, B):
        return rbf_kernel(A, B, gamma=1 / (2 * 2 * 4))

    X = table()
    kernel = Kernel(own)
    phi = kernel.fit_transform(X)
    np.testing.assert_allclose(gram(phi), gram(Kernel("rbf").fit_transform(X)), atol=1e-8)
    np.testing.assert_allclose(kernel.transform(X[:9]), phi[:9], atol=1e-8)
    assert kernel.name == "own"
    with pytest.raises(ValueError, match="own is a function, which cannot be saved"):
        kernel.state()


@pytest.mark.parametrize("landmarks", [2000, 25])
@pytest.mark.parametrize(("kind", "ranks"), NAMES)
def test_saved_and_restored(kind, ranks, landmarks):
    kernel = Kernel(kind, ranks=ranks, landmarks=landmarks).fit(table())
    plain, tensors = kernel.state()
    assert all(t.dtype == torch.float64 and t.is_contiguous() for t in tensors.values())
    copy = restore(json.loads(json.dumps(plain)), tensors)
    new = table(7, seed=9)
    assert torch.equal(copy.transform(new), kernel.transform(new))
    assert copy.get_params() == kernel.get_params()


def test_works_with_scikit_learn():
    X = table(80)
    y = X[:, 1] > np.median(X[:, 1])
    kernel = Kernel("rbf", scale=0.5)
    copy = clone(kernel).set_params(scale=2.0)
    assert (kernel.scale, copy.scale) == (0.5, 2.0)
    model = make_pipeline(copy, LogisticRegression()).fit(X, y)
    assert model.score(X, y) > 0.9
    check_is_fitted(model[0])
    assert repr(kernel) == "Kernel(scale=0.5)"


def indefinite(A, B):
    return -(A @ B.T)


def sine(A, B):
    return torch.sin(A.sum(1)[:, None] + B.sum(1))


BAD = {
    "kind": (Kernel("rbff"), "kind='rbff' must be a function"),
    "list": (Kernel(["rbf"]), "must be a function"),
    "scale": (Kernel(scale=0.0), "scale=0.0 must be positive"),
    "text": (Kernel(scale="1"), "scale='1' must be a finite number"),
    "linear": (Kernel("linear", scale=2.0), "has no effect with linear"),
    "ranks": (Kernel(ranks="yes"), "ranks='yes' must be True or False"),
    "landmarks": (Kernel(landmarks=1), "landmarks=1 must be a whole number of at least 2"),
    "seed": (Kernel(seed=-1), "seed=-1"),
    "sine": (Kernel(sine), "kernel sine is not positive semi-definite.*eigenvalue -"),
    "indefinite": (Kernel(indefinite), "kernel indefinite is not positive semi-definite.*eigenval"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_settings_are_refused(name):
    kernel, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        kernel.fit(table())


def test_bad_rows_are_refused():
    with pytest.raises(ValueError, match="only linear features"):
        Kernel("rbf").fit(scipy.sparse.csr_matrix(counts(9, 4)))
    with pytest.raises(ValueError, match="not fitted"):
        Kernel("rbf").transform(table())
    with pytest.raises(ValueError, match="at least 2"):
        Kernel("rbf").fit(table(3), sample_weight=[0, 1, 0])
    with pytest.raises(ValueError, match="X has 2 columns but 4 were seen"):
        Kernel("rbf").fit(table()).transform(table()[:, :2])
