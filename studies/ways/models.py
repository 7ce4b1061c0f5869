"""Ways through ``dd.evaluate``: models and predictions of others."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import decoupled_descent as dd
from studies.ways.common import on_new, refused, way
from studies.ways.tables import numbers

PART = "evaluate"


def rows(seed=0, n=150, d=6, signal=1.0):
    """Rows whose class depends on the first two columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (signal * (X[:, 0] + X[:, 1]) + rng.logistic(size=n) > 0).astype(int)


def checked(model, X, y, **options):
    """What is said of a model, beside its error on new rows."""
    new, labels = rows(1000, 4000, X.shape[1])
    return refused(
        lambda: dd.evaluate(model, X, y, **options), lambda e: on_new(model, e, new, labels)
    )


def _other_rows(model):
    X, y = rows(0)
    return checked(model.fit(X, y), *rows(1))


@way(PART, "other rows than those of the fit: logistic regression")
def other_rows_logistic():
    return _other_rows(LogisticRegression())


@way(PART, "other rows: support vectors")
def other_rows_svc():
    return _other_rows(SVC())


@way(PART, "other rows: a forest", "log loss 0.623 for 0.594, *trust*")
def other_rows_forest():
    return _other_rows(RandomForestClassifier(random_state=0))


@way(PART, "other rows: nearest neighbours")
def other_rows_neighbours():
    return _other_rows(KNeighborsClassifier(5))


@way(PART, "other rows: naive Bayes")
def other_rows_bayes():
    return _other_rows(GaussianNB())


@way(PART, "other rows: boosting")
def other_rows_boosting():
    return _other_rows(GradientBoostingClassifier(n_estimators=20, random_state=0))


def _half(model):
    """The rows of the fit are the first half of those that are passed."""
    X, y = rows(0)
    return checked(model.fit(X[:75], y[:75]), X, y)


@way(PART, "fitted to half of the rows: logistic regression")
def half_logistic():
    return _half(LogisticRegression())


@way(PART, "fitted to half of the rows: a pipeline with a forest")
def half_forest():
    return _half(make_pipeline(StandardScaler(), RandomForestClassifier(random_state=0)))


def _reordered(model):
    X, y = rows(0, 200, signal=0.0)
    model.fit(X, y)
    order = np.random.default_rng(1).permutation(200)
    new, labels = rows(1000, 4000, signal=0.0)
    return refused(
        lambda: dd.evaluate(model, X[order], y[order]), lambda e: on_new(model, e, new, labels)
    )


@way(
    PART,
    "rows in another order than in the fit: a forest, random labels",
    "log loss 0.214 for 0.733, *trust*",
)
def reordered_forest():
    return _reordered(RandomForestClassifier(random_state=0))


@way(PART, "the same: bagging of trees", "log loss 0.211 for 0.751, *trust*")
def reordered_bagging():
    return _reordered(BaggingClassifier(DecisionTreeClassifier(), 100, random_state=0))


@way(PART, "the same: logistic regression")
def reordered_logistic():
    return _reordered(LogisticRegression())


@way(PART, "labels in another order than the rows")
def reordered_labels():
    X, y = rows(0)
    model = LogisticRegression().fit(X, y)
    return checked(model, X, y[np.random.default_rng(1).permutation(len(y))])


@way(PART, "columns in another order, without names")
def reordered_columns():
    X, y = rows(0)
    return checked(LogisticRegression().fit(X, y), X[:, ::-1], y)


@way(PART, "a model that is not fitted")
def unfitted():
    return checked(LogisticRegression(), *rows(0))


def _in_sample(model, call="predict_proba"):
    X, y = rows(0) if call == "predict_proba" else numbers(150)
    fitted = getattr(model.fit(X, y), call)(X)
    new = rows(1000, 4000) if call == "predict_proba" else numbers(4000, seed=1000)
    return refused(lambda: dd.evaluate(predictions=fitted, y=y), lambda e: on_new(model, e, *new))


@way(PART, "`predictions=` of the training rows: a forest")
def in_sample_forest():
    return _in_sample(RandomForestClassifier(random_state=0))


@way(PART, "the same: one nearest neighbour")
def in_sample_neighbour():
    return _in_sample(KNeighborsClassifier(1))


@way(PART, "the same: least squares with 60 columns")
def in_sample_least_squares():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 60)), rng.normal(size=150)
    new, labels = rng.normal(size=(4000, 60)), rng.normal(size=4000)
    model = LinearRegression().fit(X, y)
    return refused(
        lambda: dd.evaluate(predictions=model.predict(X), y=y),
        lambda e: on_new(model, e, new, labels),
    )
