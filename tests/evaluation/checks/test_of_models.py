"""Similar rows and leaks of models that were fitted before."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import SVC

import decoupled_descent as dd
from tests.evaluation.families.problems import numbers

SIMILAR, LEAK = "unusually similar rows", "column that leaks the target"
MODELS = {
    "neighbours": KNeighborsClassifier(3),
    "formula": SVC(C=10),
    "out of bag": RandomForestClassifier(random_state=0),
    "folds": GradientBoostingClassifier(n_estimators=60, max_depth=5, random_state=0),
}


def persons(count, each, seed=0):
    """Rows of persons whose class depends on nothing but the person."""
    rng = np.random.default_rng(seed)
    X = np.repeat(rng.normal(size=(count, 5)), each, 0)
    X += 0.2 * rng.normal(size=X.shape)
    order = rng.permutation(len(X))
    y, who = (np.repeat(one, each) for one in (rng.integers(0, 2, count), np.arange(count)))
    return X[order], y[order], who[order]


def status(evaluation, name):
    found = {one.name: one for one in evaluation.findings}
    return found[name].status if name in found else None


@pytest.mark.parametrize("name", MODELS)
def test_rows_of_one_person_are_noticed(name):
    X, y, who = persons(120, 3)
    model = MODELS[name].fit(X, y)
    alone = dd.evaluate(model, X, y)
    assert alone.error < 0.7 * dd.evaluate(model, X, y, groups=who).error
    assert status(alone, SIMILAR) == "caution"
    assert any("pass groups=" in one for one in [f.advice for f in alone.findings])
    assert status(dd.evaluate(model, X, y, groups=who), SIMILAR) is None


@pytest.mark.parametrize("name", MODELS)
def test_copies_of_rows_are_noticed(name):
    rng = np.random.default_rng(1)
    X, y = np.tile(rng.normal(size=(80, 5)), (2, 1)), np.tile(rng.integers(0, 2, 80), 2)
    assert dd.evaluate(MODELS[name].fit(X, y), X, y).verdict != "trust"


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_independent_rows_are_not_similar(name):
    for seed in range(3):
        X, y, _ = persons(150, 1, seed)
        y = (X[:, 0] * X[:, 1] > 0).astype(int)
        evaluation = dd.evaluate(MODELS[name].fit(X, y), X, y)
        assert status(evaluation, SIMILAR) in ("ok", None)
        assert evaluation.verdict == "trust"


def table():
    X, _, _ = persons(150, 1)
    frame = pd.DataFrame({"a": X[:, 0], "town": np.where(X[:, 1] > 0, "Ulm", "Bonn")})
    frame["words"] = [f"row {k}" for k in range(150)]  # no category
    return frame, (X[:, 0] + X[:, 2] > 0).astype(int)


def test_categories_count_as_columns_and_gaps_as_means():
    frame, y = table()
    frame.loc[3, "town"] = np.nan
    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["town"]), ("passthrough", ["a"])
    )
    model = make_pipeline(encode, LogisticRegression()).fit(frame, y)
    assert status(dd.evaluate(model, frame, y), SIMILAR) == "ok"
    twice = pd.concat([frame, frame], ignore_index=True)
    labels = np.tile(np.random.default_rng(0).integers(0, 2, 150), 2)
    neighbours = make_pipeline(encode, KNeighborsClassifier(1)).fit(twice, labels)
    evaluation = dd.evaluate(neighbours, twice, labels)
    assert evaluation.estimate("accuracy").value > 0.9  # of random labels
    assert status(evaluation, SIMILAR) == "caution"


def test_a_column_that_knows_the_labels_is_named():
    frame, y = table()
    frame["result"] = np.where(y == 1, "positive", "negative")
    encode = make_column_transformer((OneHotEncoder(), ["town", "result"]), ("passthrough", ["a"]))
    evaluation = dd.evaluate(make_pipeline(encode, LogisticRegression()).fit(frame, y), frame, y)
    assert evaluation.verdict == "caution"
    assert "'result_positive'" in evaluation.reasons[0]
    X, target = numbers(80)
    X[:, 2] = target + 0.01 * np.random.default_rng(0).normal(size=80)
    evaluation = dd.evaluate(Ridge().fit(X, target), X, target)
    assert "'X[:, 2]'" in evaluation.reasons[0]
