"""Columns on one scale, against NumPy, SciPy and scikit-learn."""

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri
from scipy.stats import norm, rankdata

from decoupled_descent.rows import inputs
from decoupled_descent.tables.features import scaling
from decoupled_descent.tables.features.scaling import (
    CLIP,
    SORTED,
    ColumnScales,
    row_weights,
    sorted_rows,
)


def table(n=40, d=4, seed=0):
    """Columns of unlike scale, one with a long tail, one with ties, one constant."""
    rng = np.random.default_rng(seed)
    X = rng.normal(3, 1, (n, d)) * 10.0 ** np.arange(d)
    X[:, 1] = np.exp(2 * rng.normal(size=n))
    X[:, 2] = rng.integers(0, 4, n)
    return np.column_stack([X, np.full(n, 7.3)])


def counts(n=60, d=30, seed=0):
    """A sparse matrix with an empty and a constant column."""
    X = np.random.default_rng(seed).poisson(0.2, (n, d)).astype(float)
    X[:, 3], X[:, 5] = 0, 2
    X[0, 7] = 400
    return X


def test_dense_columns_are_standardised_and_cut():
    X = table()
    X[0, 0] = 1e4
    expected = np.clip((X - X.mean(0))[:, :4] / X.std(0)[:4], -CLIP, CLIP)
    columns = ColumnScales.learn(X)
    np.testing.assert_allclose(columns.apply(X), expected, rtol=1e-12, atol=1e-12)
    assert columns.keep.tolist() == [0, 1, 2, 3]
    assert float(columns.apply(X).max()) == CLIP


def test_ranks_become_normal_scores():
    X = table()
    n = len(X)
    scores = norm.ppf((rankdata(X[:, :4], axis=0) - 0.5) / n)
    expected = (scores - scores.mean(0)) / scores.std(0)
    np.testing.assert_allclose(ColumnScales.learn(X, ranks=True).apply(X), expected, atol=1e-10)


def test_ranks_of_new_rows_are_interpolated_and_clamped():
    X = np.array([[0.0], [1.0], [4.0]])
    columns = ColumnScales.learn(X, ranks=True)
    selected = columns.apply(X).ravel()
    new = columns.apply(np.array([[-50.0], [0.25], [2.5], [99.0]])).ravel()
    np.testing.assert_allclose(new[[0, 3]], selected[[0, 2]])
    np.testing.assert_allclose(new[1], 0.75 * selected[0] + 0.25 * selected[1])
    np.testing.assert_allclose(new[2], 0.5 * selected[1] + 0.5 * selected[2], atol=1e-15)


def test_a_value_in_none_of_the_sorted_rows_is_no_knot():
    """Ranks are learnt from some of many rows, in which a rare column may be constant."""
    X = np.random.default_rng(0).normal(size=(2 * SORTED, 3))
    X[:, 1] = 0
    seen = sorted_rows(torch.ones(len(X)))
    X[np.setdiff1d(np.arange(len(X)), seen)[0], 1] = 1
    columns = ColumnScales.learn(X, ranks=True)
    assert columns.keep.tolist() == [0, 2]
    assert bool(torch.isfinite(columns.apply(X)).all())
    with pytest.raises(ValueError, match="every column of X is constant"):
        ColumnScales.learn(X[:, 1:2], ranks=True)


@pytest.mark.parametrize("ranks", [False, True])
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000))
def test_weights_count_rows(ranks, seed):
    rng = np.random.default_rng(seed)
    X, weights = table(25, seed=seed), rng.integers(0, 4, 25)
    weights[:2] = 1, 2
    weighted = ColumnScales.learn(X, ranks, weights)
    repeated = ColumnScales.learn(np.repeat(X, weights, 0), ranks)
    new = table(10, seed=seed + 1)
    np.testing.assert_allclose(weighted.apply(new), repeated.apply(new), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("ranks", [False, True])
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), factor=st.floats(1e-6, 1e6), shift=st.floats(-10, 10))
def test_unit_and_order_of_rows_do_not_matter(ranks, seed, factor, shift):
    X = table(25, seed=seed)[:, :3]
    order = np.random.default_rng(seed).permutation(25)
    moved = (factor * (X + shift))[order]
    result = ColumnScales.learn(moved, ranks).apply(moved)
    np.testing.assert_allclose(result, ColumnScales.learn(X, ranks).apply(X)[order], atol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_sparse_columns_are_divided_by_their_root_mean_square(weighted):
    X = counts()
    weights = np.random.default_rng(1).integers(0, 3, len(X)) if weighted else np.ones(len(X))
    columns = ColumnScales.learn(scipy.sparse.csr_matrix(X), sample_weight=weights)
    result = columns.apply(scipy.sparse.csr_array(X))
    keep = [j for j in range(X.shape[1]) if len(np.unique(X[weights > 0, j])) > 1]
    root = np.sqrt(np.average(X**2, axis=0, weights=weights))
    np.testing.assert_allclose(
        result.toarray(), np.clip(X[:, keep] / root[keep], -CLIP, CLIP), rtol=1e-12
    )
    assert columns.keep.tolist() == keep
    np.testing.assert_allclose(columns.apply(X), result.toarray())  # dense new rows are welcome


def test_zeros_of_sparse_rows_stay_zeros():
    X = scipy.sparse.random_array((50, 1000), density=0.01, rng=np.random.default_rng(0)).tocsr()
    assert ColumnScales.learn(X).apply(X).nnz <= X.nnz


@pytest.mark.parametrize("ranks", [False, True])
def test_scales_are_saved_and_restored(ranks):
    columns = ColumnScales.learn(table(), ranks)
    plain, tensors = columns.state()
    assert all(tensor.dtype == torch.float64 for tensor in tensors.values())
    copy = ColumnScales.restore(plain, tensors)
    new = table(seed=5)
    assert torch.equal(copy.apply(new), columns.apply(new))


BAD = {
    "constant": (np.ones((5, 2)), {}, "every column of X is constant"),
    "nan": (np.array([[1.0], [np.nan]]), {}, r"X\[1, 0\] is nan"),
    "sparse nan": (scipy.sparse.csr_matrix([[1.0], [np.inf]]), {}, "NaN or infinite"),
    "sparse ranks": (scipy.sparse.csr_matrix(np.eye(3)), {"ranks": True}, "needs dense rows"),
    "one row": (np.ones((1, 2)), {}, "1 row"),
}


@pytest.mark.parametrize("power", [-1000, -700, 700, 1000])
@pytest.mark.parametrize("kind", ["dense", "ranks", "sparse", "in pieces"])
def test_the_unit_of_a_column_does_not_matter(kind, power, monkeypatch):
    """Multiplying by a power of two is exact, and so is what follows, to the last bit."""
    if kind == "in pieces":
        monkeypatch.setattr(inputs, "PIECE_BYTES", 0)  # 64 rows at a time
    X = table(100)
    factors = np.ones(X.shape[1])
    factors[1:3] = 2.0**power
    result = []
    for rows in (X, X * factors):
        given = scipy.sparse.csr_array(rows) if kind == "sparse" else rows
        scaled = ColumnScales.learn(given, ranks=kind == "ranks").apply(given)
        result.append(scaled.toarray() if kind == "sparse" else scaled.numpy())
    np.testing.assert_array_equal(*result)


def test_the_smallest_numbers_vary():
    X = np.array([[1.0], [3.0], [2.0]])
    np.testing.assert_allclose(
        ColumnScales.learn(X * 1e-310).apply(X * 1e-310), ColumnScales.learn(X).apply(X), rtol=1e-9
    )


@pytest.mark.parametrize("name", BAD)
def test_bad_columns_are_refused(name):
    X, options, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        ColumnScales.learn(X, **options)


def test_rows_of_another_kind_are_refused():
    columns = ColumnScales.learn(table())
    with pytest.raises(ValueError, match="X has 2 columns but 5 were seen"):
        columns.apply(np.ones((3, 2)))
    with pytest.raises(ValueError, match="training rows were dense"):
        columns.apply(scipy.sparse.csr_matrix(table()))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 1], "shape"),
        ([1, -1, 1], r"sample_weight\[1\] is -1"),
        ([1, 1, np.nan], r"sample_weight\[2\] is nan"),
        ([0, 0, 0], "zero everywhere"),
    ],
)
def test_bad_weights_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        row_weights(weights, 3)


@pytest.mark.parametrize("numbers", [1, 500, 2**20])
def test_knots_of_all_columns_are_those_of_each(monkeypatch, numbers):
    """Blocks of any size; columns of few values, of many, and of more than there are knots."""
    monkeypatch.setattr(scaling, "NUMBERS", numbers)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5, 1200))
    x[1], x[2], x[3] = (x[1] > 1), x[2].round(1), 0.0
    x[3, 7] = 4.0
    share = rng.random(1200)
    share /= share.sum()
    result = scaling._knots(torch.from_numpy(x), torch.from_numpy(share)).numpy()
    for column, knots in zip(x, result.transpose(1, 0, 2), strict=True):
        values, place = np.unique(column, return_inverse=True)
        mass = np.bincount(place, weights=share)
        scores = ndtri(mass.cumsum() - mass / 2)
        if len(values) <= scaling.KNOTS:
            np.testing.assert_array_equal(knots[0, : len(values)], values)
            np.testing.assert_allclose(knots[1, : len(values)], scores, atol=1e-12)
            assert (knots[:, len(values) :] == knots[:, len(values) - 1 : len(values)]).all()
        else:
            assert np.isin(knots[0], values).all()
            expected = scores[np.searchsorted(values, knots[0])]
            np.testing.assert_allclose(knots[1], expected, atol=1e-12)
            assert (knots[0, 0], knots[0, -1]) == (values[0], values[-1])
