"""Folds: each class in all of them, whole groups in one."""

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

import decoupled_descent as dd
from decoupled_descent.evaluation.families.folds import by_folds, pairs_by_halves
from decoupled_descent.evaluation.inputs import foreign_model
from tests.evaluation.families.problems import GROUPS, classes, numbers


def test_rows_are_predicted_by_models_of_the_other_folds():
    X, y = numbers(50)
    left = by_folds(foreign_model(DummyRegressor().fit(X, y), X, y))
    assert (left.refits, left.how) == (10, "folds")
    assert len(np.unique(left.predictions)) == 10
    for said in np.unique(left.predictions):
        assert said == pytest.approx(y[left.predictions != said].mean())


def test_classes_keep_their_shares():
    X, y = classes(100)
    left = by_folds(foreign_model(DummyClassifier(strategy="prior").fit(X, y), X, y))
    np.testing.assert_allclose(left.predictions, 0.5)


def test_areas_compare_rows_of_one_fold():
    """Models of different folds predict on different levels: only their own rows are compared."""
    X, y = classes(60)
    found = dd.evaluate(GradientBoostingClassifier(n_estimators=5).fit(X, y), X, y)
    right = pairs = 0.0
    for fold in np.unique(found.models):
        own = found.models == fold
        score, high = found.predictions[own, 1], y[own] == 1
        gaps = score[high][:, None] - score[~high]
        right, pairs = right + (gaps > 0).sum() + (gaps == 0).sum() / 2, pairs + gaps.size
    assert found.estimate("auc").value == pytest.approx(right / pairs, abs=1e-12)


def test_groups_are_in_one_fold():
    for labels, model in (
        (classes(100)[1], DummyClassifier()),
        (numbers(100)[1], DummyRegressor()),
    ):
        X = numbers(100)[0]
        foreign = foreign_model(model.fit(X, labels), X, labels, groups=GROUPS[:100])
        said = by_folds(foreign).predictions.reshape(25, 4, -1)
        np.testing.assert_array_equal(said, said[:, :1].repeat(4, 1))


def test_a_class_with_one_row_is_refused():
    X, y = classes(30)
    y[0] = 2
    with pytest.raises(ValueError, match="a class with 1 row"):
        by_folds(foreign_model(DummyClassifier().fit(X, y), X, y))


def test_the_variance_in_common_of_means_is_known():
    """Left-out losses of the mean have b_ij = 2 (y_i - m)(y_j - m)/n: the variance is 4/n²."""
    n, found = 200, []
    for seed in range(100):
        y = np.random.default_rng(seed).normal(size=n)
        X = np.zeros((n, 1))
        found.append(pairs_by_halves(foreign_model(DummyRegressor().fit(X, y), X, y)))
    stderr = np.std(found, ddof=1) / 10
    assert np.mean(found) == pytest.approx(4 / n**2, abs=3 * stderr + 4 / n**2 * 5 / n)


def test_halves_agree_with_the_formula():
    halves, formula = [], []
    for seed in range(40):
        X, y = numbers(200, 4, seed)
        model = Ridge().fit(X, y)
        halves.append(pairs_by_halves(foreign_model(model, X, y)))
        formula.append(dd.evaluate(model, X, y, refits=0).pairs)
    far = np.array(halves) - np.array(formula)
    # 96 instead of 196 degrees of freedom make effects larger by 4/196 - 4/96
    assert abs(far.mean()) < 3 * far.std(ddof=1) / 40**0.5 + 0.02 * np.mean(formula)


def test_models_that_need_more_than_half_of_the_rows_have_none():
    X, y = numbers(30)
    model = KNeighborsRegressor(20).fit(X, y)
    assert pairs_by_halves(foreign_model(model, X, y)) == 0.0
    assert dd.evaluate(model, X, y).stderr > 0


@pytest.mark.slow
def test_the_standard_error_of_boosting_has_the_right_size():
    """Without the variance that rows have in common, z² has the mean 1.3."""
    z = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(2100, 6))
        y = rows[:, 0] + rows[:, 1] * rows[:, 2] + rng.normal(size=2100)
        model = GradientBoostingRegressor(n_estimators=20, random_state=0)
        model.fit(rows[:100], y[:100])
        evaluation = dd.evaluate(model, rows[:100], y[:100])
        truth = np.square(model.predict(rows[100:]) - y[100:])
        stderr = np.hypot(evaluation.stderr, truth.std() / 2000**0.5)
        z.append((evaluation.error - truth.mean()) / stderr)
    squares = np.square(z)
    assert squares.mean() == pytest.approx(1, abs=3 * squares.std(ddof=1) / 10)
