"""``evaluate``: formulas corrected by refits, folds for the rest, and one line for wrong use."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import Lasso, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import decoupled_descent as dd
from decoupled_descent.evaluation.difference import ENOUGH
from tests.evaluation.families.problems import classes, numbers, selection

X, y = numbers(100)
A, label = classes(100)


def test_folds_take_over_where_refits_disagree():
    rng = np.random.default_rng(0)
    rows, target = rng.normal(size=(60, 100)), rng.normal(size=60)
    model = make_pipeline(StandardScaler(), PCA(30), Ridge()).fit(rows, target)  # of far rows
    evaluation = dd.evaluate(model, rows, target)
    assert evaluation.how == "folds"
    assert "the formula misses" in evaluation.reason
    assert evaluation.refits > 10


def test_folds_replace_formulas_where_earlier_steps_use_the_labels():
    """Few rows change which columns are selected: four refits mostly miss them."""
    z = []
    for seed in range(6):
        model, rows, target = selection(seed, 100)
        evaluation = dd.evaluate(model, rows, target)
        assert (evaluation.how, evaluation.refits) == ("folds", 10)
        assert evaluation.reason == "steps before the last one use the labels"
        new = np.random.default_rng(100 + seed)
        losses = np.square(model.predict(new.normal(size=(2000, 200))) - new.normal(size=2000))
        z.append((evaluation.error - losses.mean()) / evaluation.stderr)
    assert abs(np.mean(z)) < 3 / 6**0.5
    assert max(map(abs, z)) < 3


def test_a_right_formula_needs_few_refits():
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(A, label)
    evaluation = dd.evaluate(model, A, label)
    literal = dd.evaluate(model, A, label, refits=100)
    assert evaluation.refits <= 4
    assert evaluation.verdict == "trust"
    assert abs(evaluation.error - literal.error) < ENOUGH * literal.stderr


def test_a_frame_with_text_through_a_column_transformer():
    frame = pd.DataFrame(A, columns=list("abcde"))
    frame["town"] = np.where(np.arange(100) % 3, "Ulm", "Bonn")
    columns = ColumnTransformer([
        ("numbers", StandardScaler(), list("abcde")),
        ("text", OneHotEncoder(), ["town"]),
    ])  # fmt: skip
    words = np.where(label, "yes", "no")
    model = make_pipeline(columns, LogisticRegression()).fit(frame, words)
    evaluation = dd.evaluate(model, frame, words)
    assert evaluation.how.startswith("formula")
    assert list(evaluation.classes) == ["no", "yes"]
    weights = np.linspace(0.5, 2, 100)
    model.fit(frame, words, logisticregression__sample_weight=weights)
    weighted = dd.evaluate(model, frame, words, weights)
    literal = dd.evaluate(model, frame, words, weights, refits=100)
    assert abs(weighted.error - literal.error) < ENOUGH * literal.stderr


def test_sparse_rows():
    model = Lasso(0.1).fit(sparse.csr_array(X), y)
    dense = dd.evaluate(Lasso(0.1).fit(X, y), X, y, refits=0)
    found = dd.evaluate(model, sparse.csr_array(X), y, refits=0)
    assert found.error == pytest.approx(dense.error)


def test_any_other_model_is_left_to_folds():
    model = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(A, label)
    evaluation = dd.evaluate(model, A, label)
    assert (evaluation.how, evaluation.refits) == ("folds", 10)
    assert evaluation.reason == "GradientBoostingClassifier has no formula"
    groups = np.repeat(np.arange(25), 4)
    grouped = dd.evaluate(model, A, label, groups=groups)
    assert grouped.how == "folds"
    assert len(grouped.values) == 25


def test_rows_that_move_the_model_most():
    rows, target = X.copy(), y.copy()
    rows[7], target[7] = 6.0, -30.0
    evaluation = dd.evaluate(Ridge().fit(rows, target), rows, target)
    assert evaluation.influence.argmax() == 7
    assert json.loads(evaluation.to_json())["how"] == "formula and 4 refits"


def test_the_result_is_the_same_at_every_call():
    model, rows, target = selection(3)
    first, second = (dd.evaluate(model, rows, target).to_json() for _ in range(2))
    assert first == second


def test_other_rows_than_those_of_the_fit():
    others, labels = classes(100, seed=5)
    neighbours = KNeighborsClassifier().fit(A, label)
    with pytest.raises(ValueError, match="not the table that the model was fitted to"):
        dd.evaluate(neighbours, others, labels)
    boosting = GradientBoostingClassifier(n_estimators=30, random_state=0).fit(A, label)
    assert dd.evaluate(boosting, A, label).verdict == "trust"
    evaluation = dd.evaluate(boosting, A, 1 - label)
    assert evaluation.verdict == "caution"
    assert any("as in the fit" in one.advice for one in evaluation.findings)
