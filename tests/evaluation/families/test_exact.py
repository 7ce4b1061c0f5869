"""Families whose rows are left out exactly: the same numbers as by literal refits."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.naive_bayes import (
    BernoulliNB,
    CategoricalNB,
    ComplementNB,
    GaussianNB,
    MultinomialNB,
)
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor, NearestCentroid

import decoupled_descent as dd
from decoupled_descent.evaluation.families import family_of
from decoupled_descent.evaluation.inputs import foreign_model
from tests.evaluation.families.problems import by_refits, classes, numbers

X, y = numbers()
A, label = classes(count=3)
COUNTS = np.abs(A * 3).round()
CODES = np.clip((A + 2).astype(int), 0, 4)
WEIGHTS = np.random.default_rng(1).uniform(0.5, 2, 60)
GROUPS = np.repeat(np.arange(20), 3)

REGRESSORS = [
    LinearRegression(),
    LinearRegression(fit_intercept=False),
    Ridge(2.0),
    KernelRidge(alpha=0.7, kernel="rbf", gamma=0.2),
    GaussianProcessRegressor(RBF(2.0) + WhiteKernel(0.5), optimizer=None),
    KNeighborsRegressor(4),
    KNeighborsRegressor(4, weights="distance"),
]
CLASSIFIERS = [
    (KNeighborsClassifier(5), A),
    (KNeighborsClassifier(5, weights="distance"), A),
    (LinearDiscriminantAnalysis(), A),
    (LinearDiscriminantAnalysis(solver="lsqr"), A),
    (LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.3), A),
    (LinearDiscriminantAnalysis(solver="eigen"), A),
    (LinearDiscriminantAnalysis(priors=[0.2, 0.3, 0.5]), A),
    (QuadraticDiscriminantAnalysis(), A),
    (QuadraticDiscriminantAnalysis(reg_param=0.3), A),
    (GaussianNB(), A),
    (GaussianNB(priors=[0.2, 0.3, 0.5]), A),
    (MultinomialNB(), COUNTS),
    (ComplementNB(), COUNTS),
    (BernoulliNB(), A),
    (CategoricalNB(min_categories=5), CODES),
    (NearestCentroid(), A),
    (NearestCentroid(priors="empirical"), A),
]


def left_out(model, rows, labels, weights=None, groups=None):
    """Predictions by the family, before the shares of classes are restored."""
    task = foreign_model(model, rows, labels, weights, groups).task
    return family_of(model).leave_out(model, task).predictions


@pytest.mark.parametrize("model", REGRESSORS, ids=repr)
def test_regressors(model):
    model.fit(X, y)
    evaluation = dd.evaluate(model, X, y, refits=0)
    np.testing.assert_allclose(evaluation.predictions, by_refits(model, X, y), atol=1e-9)
    assert evaluation.error == pytest.approx(np.square(y - by_refits(model, X, y)).mean())


@pytest.mark.parametrize("model", REGRESSORS[:4], ids=repr)
def test_regressors_with_weights_and_groups(model):
    model.fit(X, y, sample_weight=WEIGHTS)
    evaluation = dd.evaluate(model, X, y, WEIGHTS, refits=0)
    said = by_refits(model, X, y, WEIGHTS)
    np.testing.assert_allclose(evaluation.predictions, said, atol=1e-9)
    assert evaluation.error == pytest.approx(np.average((y - said) ** 2, weights=WEIGHTS))
    model.fit(X, y)
    grouped = dd.evaluate(model, X, y, groups=GROUPS, refits=0)
    np.testing.assert_allclose(
        grouped.predictions, by_refits(model, X, y, groups=GROUPS), atol=1e-9
    )


@pytest.mark.parametrize(("model", "rows"), CLASSIFIERS, ids=lambda one: repr(one)[:60])
def test_classifiers(model, rows):
    model.fit(rows, label)
    np.testing.assert_allclose(
        left_out(model, rows, label), by_refits(model, rows, label), atol=1e-10
    )


@pytest.mark.parametrize("model", [GaussianNB(), MultinomialNB(), BernoulliNB()], ids=repr)
def test_naive_bayes_with_weights_and_groups(model):
    rows = COUNTS
    model.fit(rows, label, sample_weight=WEIGHTS)
    np.testing.assert_allclose(
        left_out(model, rows, label, WEIGHTS, GROUPS),
        by_refits(model, rows, label, WEIGHTS, GROUPS),
        atol=1e-10,
    )


def test_neighbours_outside_of_the_group():
    model = KNeighborsClassifier(5).fit(A, label)
    np.testing.assert_allclose(
        left_out(model, A, label, groups=GROUPS),
        by_refits(model, A, label, groups=GROUPS),
        atol=1e-12,
    )


def test_more_columns_than_rows():
    wide, target = numbers(30, 80)
    model = Ridge(3.0).fit(wide, target)
    evaluation = dd.evaluate(model, wide, target, refits=0)
    np.testing.assert_allclose(evaluation.predictions, by_refits(model, wide, target), atol=1e-8)


def test_several_targets():
    both = np.stack([y, y[::-1]], 1)
    model = Ridge(2.0).fit(X, both)
    evaluation = dd.evaluate(model, X, both, refits=0)
    np.testing.assert_allclose(evaluation.predictions, by_refits(model, X, both), atol=1e-9)


def test_interpolation_is_left_to_folds():
    wide, target = numbers(20, 40)
    evaluation = dd.evaluate(LinearRegression().fit(wide, target), wide, target)
    assert evaluation.how == "folds"
    assert "as many coefficients as rows" in evaluation.reason


def test_no_refits_are_made_where_rows_are_left_out_exactly():
    evaluation = dd.evaluate(GaussianNB().fit(A, label), A, label)
    assert evaluation.refits == 0
    assert evaluation.how == "counts without the row"
