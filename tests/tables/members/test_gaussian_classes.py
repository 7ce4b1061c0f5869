"""Normal distributions of classes: those of scikit-learn, without the fold, in files."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.naive_bayes import GaussianNB

from decoupled_descent.tables.members.gaussian_classes import GAUSSIANS, GaussianClasses
from decoupled_descent.tables.members.interface import TableSize
from decoupled_descent.tables.members.standardised import column_moments
from decoupled_descent.tables.prediction.predictor import standardised
from tests.tables.members.problems import rows, table

QUADRATIC, NAIVE = GAUSSIANS


def scaled(given, X):
    return standardised(X, *column_moments(given))


def test_naive_bayes_is_that_of_scikit_learn():
    given = table("cross_entropy", outputs=3)
    Z, classes = scaled(given, given.X), given.classes.numpy()
    variances = [Z[classes == one].var(0) for one in range(3)]
    other = GaussianNB(var_smoothing=0.0).fit(Z, classes)
    np.testing.assert_allclose(other.var_, variances)
    other.var_ = other.var_ + NAIVE.ridge
    (fit,) = NAIVE.train(given, 0)
    fresh = rows(9, seed=3)
    chances = other.predict_proba(scaled(given, fresh))
    np.testing.assert_allclose(fit.model.predict(fresh).numpy(), chances, rtol=1e-9, atol=1e-12)


def test_quadratic_discriminants_are_normal_densities():
    given = table("logistic")
    Z, classes, fresh = scaled(given, given.X), given.classes.numpy(), rows(9, seed=3)
    logs = []
    for one in (0, 1):
        own = Z[classes == one]
        moments = 0.99 * np.cov(own.T, bias=True) + 0.01 * np.eye(4)
        density = multivariate_normal(own.mean(0), moments).logpdf(scaled(given, fresh))
        logs.append(density + np.log(len(own) / 80))
    expected = np.exp(logs[1] - np.logaddexp(*logs))
    (fit,) = QUADRATIC.train(given, 0)
    np.testing.assert_allclose(fit.model.predict(fresh)[:, 1].numpy(), expected, rtol=1e-9)


@pytest.mark.parametrize("recipe", GAUSSIANS)
def test_rows_are_predicted_without_their_fold(recipe):
    given = table("logistic")
    y = given.y.clone()
    first = given.folds % 10 == 0
    y[first] = y[first].flip(0)  # the same shares of classes
    one, other = (recipe.train(given._replace(y=each), 0)[0] for each in (given.y, y))
    torch.testing.assert_close(one.predictions[first], other.predictions[first])
    assert not torch.equal(one.predictions[~first], other.predictions[~first])


def test_a_class_of_one_row_is_impossible_without_it():
    given = table("cross_entropy", outputs=4)
    y = given.y.clone()
    y[0] = 3
    (fit,) = NAIVE.train(given._replace(y=y), 0)
    assert float(fit.predictions[0, 3]) < 1e-100
    np.testing.assert_allclose(fit.predictions.sum(1), 1, rtol=1e-12)


def test_numbers_and_many_columns():
    assert QUADRATIC.train(table("squared"), 0) == []
    given = table("logistic")
    wide = given._replace(X=np.tile(given.X, (1, 51)))
    assert QUADRATIC.train(wide, 0) == []
    assert len(NAIVE.train(wide, 0)) == 1


@pytest.mark.parametrize("recipe", GAUSSIANS)
def test_files(recipe):
    given = table("logistic")
    model = recipe.train(given, 0)[0].model
    settings, tensors = model.state()
    again = GaussianClasses.restore(settings, tensors, 2)
    torch.testing.assert_close(again.predict(given.X), model.predict(given.X), rtol=0, atol=0)
    with pytest.raises(ValueError, match="no intervals"):
        model.changes(None, None)


def test_operations_grow_with_rows_classes_and_columns():
    size = TableSize(10**5, 20, 1, has_classes=True)
    for recipe, factor in zip(GAUSSIANS, (4, 2), strict=True):
        small = recipe.operations(size)
        assert recipe.operations(size._replace(rows=2 * 10**5)) == pytest.approx(
            2 * small, rel=1e-3
        )
        assert recipe.operations(size._replace(outputs=10)) == pytest.approx(5 * small)
        more = recipe.operations(size._replace(columns=40))
        assert more == pytest.approx(factor * small, rel=1e-3)
