"""Ways through ``dd.evaluate``: tables and fits that make an error look too low."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import decoupled_descent as dd
from studies.ways.common import Now, on_new, refused, several, told, way, without_trust
from studies.ways.models import PART, checked, rows
from studies.ways.tables import numbers, persons


def _copies(model):
    X, y = rows(0, 80, signal=0.0)
    new, labels = rows(1000, 4000, signal=0.0)
    X, y = np.tile(X, (2, 1)), np.tile(y, 2)
    model.fit(X, y)
    return refused(lambda: dd.evaluate(model, X, y), lambda e: on_new(model, e, new, labels))


@way(PART, "every row twice, random labels: nearest neighbour", "log loss 0.502 for 5.49, *trust*")
def copies_neighbours():
    return _copies(KNeighborsClassifier(5))


@way(PART, "every row twice, random labels: a forest", "log loss 0.197 for 0.779, *trust*")
def copies_forest():
    return _copies(RandomForestClassifier(random_state=0))


@way(PART, "every row twice, random labels: support vectors", "error rate 0.063 for 0.489, *trust*")
def copies_svc():
    return _copies(SVC(C=10))


def _persons(model, **options):
    X, y = persons(40, 6, 0)
    new, labels = persons(3000, 1, 1)
    evaluation = dd.evaluate(model.fit(X, y), X, y, **options)
    return on_new(model, evaluation, new, labels)


@way(PART, "groups that are not given: support vectors", "error rate 0.125 for 0.493, *trust*")
def groups_svc():
    return _persons(SVC())


@way(PART, "groups that are not given: a forest", "log loss 0.266 for 0.883, *trust*")
def groups_forest():
    return _persons(RandomForestClassifier(random_state=0))


@way(PART, "groups that are given: a forest")
def groups_given():
    return _persons(RandomForestClassifier(random_state=0), groups=np.repeat(np.arange(40), 6))


@way(PART, "a column that knows the answer", "log loss 0.075, *trust*")
def leak():
    X, y = rows(0)
    X[:, 5] = y + 0.01 * np.arange(150) / 150
    return without_trust(dd.evaluate(RandomForestClassifier(random_state=0).fit(X, y), X, y))


def _noise(seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(100, 1000)), np.arange(100) % 2


@way(PART, "columns that were chosen with the labels, outside of the pipeline")
def selection_outside():
    X, y = _noise()
    model, chosen = LogisticRegression(C=0.1), SelectKBest(f_classif, k=10).fit(X, y)
    model.fit(chosen.transform(X), y)
    new = np.random.default_rng(1).normal(size=(4000, 10))
    evaluation = dd.evaluate(model, chosen.transform(X), y)
    return on_new(model, evaluation, new, np.arange(4000) % 2)


@way(PART, "the same, in the pipeline")
def selection_inside():
    X, y = _noise()
    model = make_pipeline(SelectKBest(f_classif, k=10), LogisticRegression(C=0.1)).fit(X, y)
    new = np.random.default_rng(1).normal(size=(4000, 1000))
    return on_new(model, dd.evaluate(model, X, y), new, np.arange(4000) % 2)


@way(PART, "a third of 500 weak columns, chosen in the pipeline, 400 rows",
     "log loss too low by 8 standard errors, *trust* (0.27 for 0.69, tweets)")  # fmt: skip
def selection_of_many():
    z, verdicts = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, new = ((rng.random((n, 500)) < 0.04).astype(float) for n in (400, 3000))
        slopes = rng.normal(size=500)
        y, labels = (
            (rows @ slopes + rng.logistic(size=len(rows)) > 0).astype(int) for rows in (X, new)
        )
        steps = StandardScaler(), SelectKBest(f_classif, k=166), LogisticRegression(max_iter=1000)
        model = make_pipeline(*steps).fit(X, y)
        evaluation = dd.evaluate(model, X, y)
        losses = -np.log(np.maximum(model.predict_proba(new)[np.arange(3000), labels], 1e-15))
        noise = losses.std() / 3000**0.5
        z.append((evaluation.error - losses.mean()) / np.hypot(evaluation.stderr, noise))
        verdicts.append(evaluation.verdict)
    return several(z, verdicts)


@way(PART, "too few iterations: logistic regression, 3")
def few_iterations():
    X, y = rows(0, d=40)
    X[:, 3] *= 300
    return checked(LogisticRegression(max_iter=3).fit(X, y), X, y)


@way(PART, "too few iterations: support vectors, 20")
def few_iterations_svc():
    X, y = rows(0)
    return checked(SVC(C=100, max_iter=20).fit(X, y), X, y)


@way(PART, "early stopping by a part of the rows: boosting")
def early_boosting():
    X, y = rows(0)
    model = HistGradientBoostingClassifier(early_stopping=True, max_iter=30, random_state=0)
    return checked(model.fit(X, y), X, y)


@way(PART, "early stopping by a part of the rows: a network")
def early_network():
    X, y = rows(0)
    return checked(MLPClassifier(early_stopping=True, random_state=0).fit(X, y), X, y)


@way(PART, "weights of the fit that are not passed")
def weights_not_passed():
    X, y = rows(0)
    weights = np.random.default_rng(0).exponential(size=150) ** 2
    return checked(LogisticRegression().fit(X, y, sample_weight=weights), X, y)


@way(PART, "one row of weight 1000")
def one_heavy_row():
    X, y = rows(0, signal=0.0)
    weights = np.ones(150)
    weights[7] = 1000
    model = LogisticRegression().fit(X, y, sample_weight=weights)
    return without_trust(dd.evaluate(model, X, y, sample_weight=weights))


@way(PART, "the best of 60 candidates, random labels: GridSearchCV")
def many_candidates():
    z, verdicts = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(100, 30)), np.arange(100) % 2
        grid = {"C": np.logspace(-3, 2, 20), "gamma": [0.01, 0.1, 1]}
        evaluation = dd.evaluate(GridSearchCV(SVC(), grid, cv=5).fit(X, y), X, y)
        z.append((evaluation.error - 0.5) / evaluation.stderr)
        verdicts.append(evaluation.verdict)
    return several(z, verdicts)


@way(PART, "the best of 200 random `predictions=`")
def many_predictions():
    z, verdicts = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 2, 100)
        tried = {str(k): rng.integers(0, 2, 100) for k in range(200)}
        evaluation = dd.evaluate(predictions=tried, y=y, out_of_fold=True)
        z.append((evaluation.error - 0.5) / evaluation.stderr)
        verdicts.append(evaluation.verdict)
    return several(z, verdicts)


@way(PART, "a regression of y + 1e15")
def far_numbers():
    X, y = numbers(150)
    true = dd.evaluate(Ridge().fit(X, y), X, y).estimate("r2").value
    model = Ridge().fit(X, y + 1e15)
    return refused(lambda: dd.evaluate(model, X, y + 1e15), lambda e: told(e.estimate("r2"), true))


@way(PART, "a few far rows make up the error")
def far_rows():
    z, verdicts = [], []
    for seed in range(6):
        X, y = numbers(120, seed=seed)
        far = np.random.default_rng(seed).random(120) < 1 / 60
        evaluation = dd.evaluate(LinearRegression().fit(X, y + 100 * far), X, y + 100 * far)
        low, high = evaluation.interval  # it is not symmetric: a half of it is two standard errors
        true = 1 + 100**2 / 60 * (1 - 1 / 60)
        half = high - evaluation.error if true > evaluation.error else evaluation.error - low
        z.append((evaluation.error - true) / (half / 2))
        verdicts.append(evaluation.verdict)
    return several(z, verdicts)


@way(PART, "twelve rows")
def twelve_rows():
    X, y = rows(0, 12)
    return refused(lambda: dd.evaluate(LogisticRegression().fit(X, y), X, y), without_trust)


@way(PART, "one label")
def one_label():
    return refused(lambda: dd.evaluate(predictions=np.zeros(150), y=np.zeros(150)), without_trust)


@way(PART, "scores that are no probabilities, as `predictions=`")
def scores():
    X, y = rows(0)
    score = cross_val_predict(LogisticRegression(), X, y, method="decision_function")
    evaluation = dd.evaluate(predictions=score, y=y)
    named = evaluation.error_name == "mean squared error"  # which it is
    return Now(f"{evaluation!r}".split("(", 1)[1].rstrip(")"), named)
