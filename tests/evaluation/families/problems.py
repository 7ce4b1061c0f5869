"""Small tables for models of all kinds, and literal leave-one-out of models of scikit-learn."""

import warnings

import numpy as np
from sklearn.base import clone

from tests.oracles.left_out import literal


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
