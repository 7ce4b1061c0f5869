"""Estimators of scikit-learn as members."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

import decoupled_descent as dd
from decoupled_descent.tables.members.any_estimator import AnyEstimator, EstimatorRecipe
from tests.tables.members.problems import rows, table


def test_numbers():
    given = table("squared", outputs=2)
    (fit,) = EstimatorRecipe(Ridge(2.0)).train(given, 0)
    assert fit.name == "Ridge(alpha=2.0)"
    fresh, folds = rows(7, seed=4), given.folds.numpy() % 10
    every = Ridge(2.0).fit(given.X, given.y)
    np.testing.assert_allclose(fit.model.predict(fresh), every.predict(fresh), rtol=1e-12)
    kept = fit.model.kept_rows(given, torch.tensor([3, 40]))
    changes = fit.model.changes(fresh, kept)
    for place, row in enumerate((3, 40)):
        other = folds != folds[row]
        without = Ridge(2.0).fit(given.X[other], given.y[other])
        own = without.predict(given.X[row : row + 1])[0]
        np.testing.assert_allclose(fit.predictions[row], own, rtol=1e-8)  # of columns near 1e9
        moved = without.predict(fresh) - every.predict(fresh)
        np.testing.assert_allclose(changes[:, place], moved, rtol=1e-9, atol=1e-12)
    own = fit.predictions[3] - fit.model.predict(given.X[3:4])[0]
    torch.testing.assert_close(fit.model.changes(None, kept)[0, 0], own)


def test_classes_with_weights():
    weights = torch.linspace(1, 2, 80, dtype=torch.float64)
    given = table("cross_entropy", outputs=3, weights=weights)
    (fit,) = EstimatorRecipe(DecisionTreeClassifier(max_depth=2, random_state=0)).train(given, 0)
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    tree.fit(given.X, given.classes, sample_weight=weights)
    np.testing.assert_array_equal(fit.model.predict(given.X), tree.predict_proba(given.X))
    np.testing.assert_allclose(fit.predictions.sum(1), 1)


def test_a_class_that_was_not_seen():
    given = table("cross_entropy", outputs=4)
    y = given.y.clone()
    y[0] = 3
    (fit,) = EstimatorRecipe(KNeighborsClassifier()).train(given._replace(y=y), 0)
    assert fit.predictions[0, 3] == 0


def test_what_cannot_be_used():
    with pytest.raises(ValueError, match="no predict_proba"):
        EstimatorRecipe(LinearSVC()).train(table(), 0)
    weighted = table(weights=torch.ones(80).double())
    with pytest.raises(ValueError, match="no sample_weight"):
        EstimatorRecipe(KNeighborsClassifier()).train(weighted, 0)
    with pytest.raises(ValueError, match="file cannot hold"):
        AnyEstimator.restore({}, {}, 1)


def test_in_an_estimator(tmp_path):
    given = table(n=150)
    X, y = given.X, given.y.numpy().astype(int)
    members = [DecisionTreeClassifier(min_samples_leaf=5, random_state=0), "naive Bayes"]
    model = dd.DecoupledClassifier(features="linear", members=members).fit(X, y)
    record = model.candidates_[-2]
    assert record["features"].startswith("DecisionTreeClassifier")
    assert record["share"] > 0.3
    assert not hasattr(members[0], "tree_")  # it is not changed
    assert clone(model).members[1] == "naive Bayes"
    with pytest.raises(ValueError, match="cannot be saved"):
        dd.save_model(model, tmp_path / "m.safetensors")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="not one of"):
        dd.DecoupledClassifier(members=[SVC]).fit(X, y)


def test_intervals_in_an_estimator():
    given = table("squared", n=60)
    model = dd.DecoupledRegressor(features="linear", members=[Ridge(1.0)]).fit(given.X, given.y)
    ends = model.predict_interval(rows(5, seed=3))
    assert (ends[:, 0] < ends[:, 1]).all()
