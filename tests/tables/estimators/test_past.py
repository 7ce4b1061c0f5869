"""Models of the past leave out what they must not know."""

import numpy as np

import decoupled_descent as dd
from decoupled_descent.tables.estimators.past import Past

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = X[:, 0] + RNG.normal(size=60)
PAST, PIECE = np.arange(40), np.arange(40, 60)


def estimator():
    return dd.DecoupledRegressor(features="linear", ridge=1.0)


def test_groups_of_the_piece_are_left_out_of_the_past():
    groups = np.where(np.arange(60) < 10, "a", np.arange(60) // 3)
    groups[45] = "a"
    predicted = Past(estimator(), X, Y, groups=groups).predict(PAST, PIECE)
    model = estimator().fit(X[10:39], Y[10:39], groups=groups[10:39])  # row 39 is of row 40's group
    np.testing.assert_allclose(predicted.predictions, model.predict(X[40:]))


def test_a_past_without_variation_is_refused():
    assert Past(estimator(), X, np.where(np.arange(60) < 40, 1.0, Y)).predict(PAST, PIECE) is None
