"""Whitening: the appendix's formulas, degenerate data, and scikit-learn's own checks."""

import numpy as np
import pytest
from scipy import linalg
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from decoupled_descent.datasets.whitening import Whitening


def rows(count, seed, mean):
    """Correlated columns of unlike scales."""
    mixing = np.random.default_rng(0).normal(size=(6, 6))
    draws = np.random.default_rng(seed).normal(size=(count, 6))
    return draws @ mixing * [1, 10, 0.1, 1, 1, 3] + mean


TRAIN, TEST = rows(40, 1, 5), rows(30, 2, 4)


def by_hand(train, rows, joint=None):
    """The appendix: standardise by train statistics, multiply by Σ^{−1/2}, divide by √d."""
    mean, deviation = train.mean(0), train.std(0)
    seen = (train - mean) / deviation
    if joint is not None:
        seen = np.vstack([seen, (joint - mean) / deviation])
    covariance = seen.T @ seen / (len(seen) - 1)
    return (rows - mean) / deviation @ linalg.inv(linalg.sqrtm(covariance)) / rows.shape[1] ** 0.5


@parametrize_with_checks([Whitening("zca"), Whitening("vanilla")])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize("rows", [TRAIN, TEST])
def test_vanilla_standardises_and_scales(rows):
    found = Whitening("vanilla").fit(TRAIN).transform(rows)
    np.testing.assert_allclose(found, (rows - TRAIN.mean(0)) / TRAIN.std(0) / 6**0.5, rtol=1e-12)


@pytest.mark.parametrize("rows", [TRAIN, TEST])
def test_zca_of_the_train_rows(rows):
    whitening = Whitening("zca").fit(TRAIN)
    np.testing.assert_allclose(whitening.transform(rows), by_hand(TRAIN, rows), atol=1e-10)


def test_zca_makes_the_train_rows_white():
    white = Whitening("zca").fit_transform(TRAIN)
    np.testing.assert_allclose(white.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(np.cov(white.T), np.eye(6) / 6, atol=1e-10)


def test_joint_zca_shares_the_covariance_but_not_the_statistics():
    whitening = Whitening("zca").fit(TRAIN, pool=TEST)
    for rows in (TRAIN, TEST):
        np.testing.assert_allclose(
            whitening.transform(rows), by_hand(TRAIN, rows, TEST), atol=1e-10
        )
    white = np.vstack([whitening.transform(TRAIN), whitening.transform(TEST)])
    np.testing.assert_allclose(white.T @ white / (len(white) - 1), np.eye(6) / 6, atol=1e-10)
    np.testing.assert_array_equal(whitening.mean_, TRAIN.mean(0))


def test_zero_phase_means_a_symmetric_map():
    whitening = Whitening("zca").fit(TRAIN)
    np.testing.assert_allclose(whitening.whitening_, whitening.whitening_.T, atol=1e-12)
    np.testing.assert_allclose(whitening.whitening_ @ whitening.dewhitening_, np.eye(6), atol=1e-9)


@pytest.mark.parametrize("method", ["vanilla", "zca"])
@pytest.mark.parametrize("rows", [TRAIN, TEST])
def test_inverse(method, rows):
    whitening = Whitening(method).fit(TRAIN)
    np.testing.assert_allclose(
        whitening.inverse_transform(whitening.transform(rows)), rows, rtol=1e-9
    )


def test_fewer_rows_than_columns():
    few = TRAIN[:4]
    whitening = Whitening("zca").fit(few)
    white = whitening.transform(few)
    assert whitening.rank_ == 3
    assert np.abs(whitening.transform(TEST)).max() < 1e3
    spectrum = np.linalg.eigvalsh(np.cov(white.T) * 6)
    np.testing.assert_allclose(spectrum, [0, 0, 0, 1, 1, 1], atol=1e-9)
    np.testing.assert_allclose(whitening.inverse_transform(white), few, rtol=1e-9)


def test_constant_and_repeated_columns():
    rows = np.column_stack([TRAIN, np.full(40, 0.1), TRAIN[:, 0]])
    whitening = Whitening("zca").fit(rows)
    white = whitening.transform(rows)
    assert whitening.rank_ == 6
    assert np.isfinite(white).all()
    np.testing.assert_allclose(white[:, 6], 0, atol=1e-9)
    np.testing.assert_allclose(whitening.inverse_transform(white), rows, rtol=1e-8)


def test_all_columns_constant():
    rows = np.full((5, 3), 2.0)
    whitening = Whitening("zca").fit(rows)
    np.testing.assert_array_equal(whitening.transform(rows), 0)
    np.testing.assert_array_equal(whitening.inverse_transform(np.zeros((2, 3))), 2)


def test_tolerance_drops_weak_directions():
    strengths = np.linalg.eigvalsh(np.corrcoef(TRAIN.T))
    between = (strengths[1] + strengths[2]) / 2 / strengths[-1]
    assert Whitening("zca", tolerance=between).fit(TRAIN).rank_ == 4


def test_precision_follows_the_rows():
    whitening = Whitening("zca").fit(TRAIN)
    single = whitening.transform(TEST.astype(np.float32))
    assert single.dtype == np.float32
    assert whitening.inverse_transform(single).dtype == np.float32
    np.testing.assert_allclose(single, whitening.transform(TEST), rtol=1e-4, atol=1e-5)


def test_in_a_pipeline():
    pipeline = make_pipeline(clone(Whitening("zca"))).fit(TRAIN)
    np.testing.assert_allclose(pipeline.transform(TEST), by_hand(TRAIN, TEST), atol=1e-10)
    assert list(pipeline.get_feature_names_out([*"abcdef"])) == [*"abcdef"]


@pytest.mark.parametrize(
    ("options", "pool", "message"),
    [
        ({"method": "pca"}, None, "method='pca' must be one of vanilla, zca"),
        ({"tolerance": 1.0}, None, r"tolerance=1.0 must lie in \[0, 1\)"),
        ({}, TEST[:, :5], "X has 5 features, but Whitening is expecting 6"),
    ],
)
def test_bad_input(options, pool, message):
    with pytest.raises(ValueError, match=message):
        Whitening(**options).fit(TRAIN, pool=pool)


def test_inverse_of_the_wrong_width():
    with pytest.raises(ValueError, match="X has 5 features, but Whitening is expecting 6 features"):
        Whitening().fit(TRAIN).inverse_transform(TEST[:, :5])
