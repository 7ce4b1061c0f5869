"""Literal leave-one-out of real tables: what formulas with refits must be near to."""

import warnings

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import ElasticNet, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

import decoupled_descent as dd
from tests.real_data import real_data

ROWS = 60
#: This part of the sampling error is exceeded in this share of the cases.
NEAR, SHARE = 0.25, 0.05
#: Columns and labels of each table: an array, and classes or numbers.
CLASSES = ["phoneme", "ionosphere", "spam", "vehicle", "crabs", "italypowerdemand"]
NUMBERS = ["concrete", "biomass", "tecator"]
OF_CLASSES = {
    "logistic": LogisticRegression(max_iter=2000),
    "support vectors": SVC(),
    "discriminant": LinearDiscriminantAnalysis(),
    "neighbours": KNeighborsClassifier(5),
}
OF_NUMBERS = {"ridge": Ridge(), "elastic net": ElasticNet(alpha=0.1), "support vectors": SVR()}


def table(name):
    with np.load(real_data("tables") / "tables" / f"{name}.npz") as arrays:
        X, y = arrays["X"].astype(float), arrays["y"]
    rows = np.random.default_rng(0).permutation(len(y))[:ROWS]
    X, y = X[rows], y[rows]
    X = X[:, X.std(0) > 0][:, :30]
    return X, (y - y.mean()) / y.std() if name in NUMBERS else y


def gap(model, X, y):
    """The error minus that of literal leave-one-out, in units of the sampling error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a column of zeros, without a row
        fitted = make_pipeline(StandardScaler(), model).fit(X, y)
        evaluation = dd.evaluate(fitted, X, y)
        exact = dd.evaluate(fitted, X, y, refits=ROWS)
    assert exact.refits >= ROWS - 1 or exact.how == "folds"
    return (evaluation.error - exact.error) / (exact.losses.std() / ROWS**0.5)


@pytest.mark.slow
@pytest.mark.data
def test_formulas_and_refits_are_near_to_literal_leave_one_out():
    gaps = {}
    for name in CLASSES + NUMBERS:
        X, y = table(name)
        for family, model in (OF_NUMBERS if name in NUMBERS else OF_CLASSES).items():
            gaps[name, family] = gap(model, X, y)
    far = {key: value for key, value in gaps.items() if not abs(value) <= NEAR}
    assert len(gaps) == 33
    assert len(far) <= binom.ppf(0.99, len(gaps), SHARE), far
    every = np.array(list(gaps.values()))
    assert abs(every.mean()) < 3 * every.std(ddof=1) / len(every) ** 0.5
