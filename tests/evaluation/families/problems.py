"""Small tables for models of all kinds, and literal leave-one-out of models of scikit-learn."""

import warnings

import numpy as np
from sklearn.base import clone
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import decoupled_descent as dd
from decoupled_descent.evaluation.difference import ENOUGH
from decoupled_descent.evaluation.families import family_of
from decoupled_descent.evaluation.inputs import foreign_model
from decoupled_descent.evaluation.means import mean_with_stderr
from tests.oracles.left_out import literal

WEIGHTS = np.random.default_rng(1).uniform(0.5, 2, 200)
GROUPS = np.repeat(np.arange(50), 4)
#: Training until the minimum.
EXACT = {"tol": 1e-9, "max_iter": 10000}


def numbers(n=60, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=d) + rng.normal(size=n)


def classes(n=60, d=5, count=2, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % count
    return rng.normal(size=(n, d)) + 0.8 * rng.normal(size=(count, d))[y], y


def by_refits(model, X, y, weights=None, groups=None):
    """Predictions of each row by clones that were fitted without it or its group."""

    def fit(rows, labels, left):
        options = {} if left is None else {"sample_weight": left}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one = clone(model).fit(rows, labels, **options)
        return getattr(one, "predict_proba", one.predict)

    return literal(fit, X, y, weights, groups)


def left_out(model, rows, labels, weights=None, groups=None):
    """Predictions by the family, before the shares of the classes are restored."""
    task = foreign_model(model, rows, labels, weights, groups).task
    return family_of(model).leave_out(model, task).predictions


def check_miss(model, rows, labels, weights=None, groups=None):
    """What a formula misses of literal refits is less than refits would count as enough.

    The mean over rows is allowed three of its standard errors beside that.
    """
    formula = dd.evaluate(model, rows, labels, weights, groups, refits=0)
    assert formula.how == "formula"
    literal = by_refits(model, rows, labels, weights, groups)
    missed = formula.losses - formula.kind.losses(formula.labels, literal)
    mean, stderr = mean_with_stderr(missed, weights, formula.groups)
    assert abs(mean) < ENOUGH * formula.stderr + 3 * stderr


def check_exact(model, rows, labels, tolerance=1e-10, weights=False, groups=False):
    """All predictions are those of literal refits: plain, with weights and with groups."""
    n = len(rows)
    ways = [(None, None)]
    ways += [(WEIGHTS[:n], None)] * weights + [(None, GROUPS[:n])] * groups
    for own, belong in ways:
        model.fit(rows, labels, **({} if own is None else {"sample_weight": own}))
        np.testing.assert_allclose(
            left_out(model, rows, labels, own, belong),
            by_refits(model, rows, labels, own, belong),
            atol=tolerance,
        )


def check_near(model, rows, labels):
    """The error is near to that of literal refits: plain, with groups and with weights."""
    n = len(rows)
    check_miss(model.fit(rows, labels), rows, labels)
    check_miss(model, rows, labels, groups=GROUPS[:n])
    model.fit(rows, labels, sample_weight=WEIGHTS[:n])
    check_miss(model, rows, labels, WEIGHTS[:n])


def selection(seed, n=60):
    """Columns of noise, and a pipeline that chooses those that look best."""
    rng = np.random.default_rng(seed)
    rows, target = rng.normal(size=(n, 200)), rng.normal(size=n)
    model = make_pipeline(SelectKBest(f_regression, k=10), Ridge(1.0))
    return model.fit(rows, target), rows, target
