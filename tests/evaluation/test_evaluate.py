"""``evaluate``: formulas corrected by refits, folds for the rest, and one line for wrong use."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.linear_model import Lasso, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import decoupled_descent as dd
from decoupled_descent.evaluation import families
from tests.evaluation.families.problems import by_refits, classes, numbers

X, y = numbers(100)
A, label = classes(100)


def selection(seed, n=60):
    """Columns of noise, and a pipeline that chooses those that look best."""
    rng = np.random.default_rng(seed)
    rows, target = rng.normal(size=(n, 200)), rng.normal(size=n)
    model = make_pipeline(SelectKBest(f_regression, k=10), Ridge(1.0))
    return model.fit(rows, target), rows, target


def test_all_refits_are_literal_leave_one_out():
    model, rows, target = selection(0)
    literal = np.square(target - by_refits(model, rows, target))
    evaluation = dd.evaluate(model, rows, target, refits=60)
    assert evaluation.error == pytest.approx(literal.mean())
    assert (evaluation.refits, evaluation.how) == (60, "formula and 60 refits")


def test_a_formula_with_refits_is_unbiased_where_the_formula_is_not():
    """The selection of columns saw every row, which the formula does not know."""
    wrong, corrected = [], []
    for seed in range(30):
        model, rows, target = selection(seed)
        literal = np.square(target - by_refits(model, rows, target)).mean()
        wrong.append(dd.evaluate(model, rows, target, refits=0).error - literal)
        corrected.append(dd.evaluate(model, rows, target, refits=12).error - literal)
    stderr = np.std(corrected, ddof=1) / 30**0.5
    assert np.mean(wrong) < -10 * np.std(wrong, ddof=1) / 30**0.5
    assert np.mean(corrected) == pytest.approx(0, abs=3 * stderr)
    assert stderr < 0.2 * abs(np.mean(wrong))


def test_the_variance_of_few_refits_is_in_the_standard_error():
    model, rows, target = selection(1)
    formula, few = (dd.evaluate(model, rows, target, refits=m) for m in (0, 6))
    assert few.stderr > 1.2 * formula.stderr
    assert few.verdict != "trust"
    assert any("too few to say by how much" in reason for reason in few.reasons)


def test_folds_take_over_where_refits_disagree():
    model, rows, target = selection(2)
    evaluation = dd.evaluate(model, rows, target)
    assert evaluation.how == "folds"
    assert "the formula misses" in evaluation.reason
    assert evaluation.refits > 10


def test_a_right_formula_needs_few_refits():
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(A, label)
    evaluation = dd.evaluate(model, A, label)
    literal = dd.evaluate(model, A, label, refits=100)
    assert evaluation.refits <= 4
    assert evaluation.verdict == "trust"
    assert abs(evaluation.error - literal.error) < 0.1 * literal.stderr


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
    assert abs(weighted.error - literal.error) < 0.1 * literal.stderr


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


def test_a_search_pays_for_its_choice():
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(60, 30)), np.arange(60) % 2
    settings = {"C": np.geomspace(1e-4, 1e2, 13)}
    search = GridSearchCV(LogisticRegression(max_iter=1000), settings, cv=5).fit(rows, labels)
    evaluation = dd.evaluate(search, rows, labels)
    assert evaluation.optimism > 0
    best = dd.evaluate(search.best_estimator_, rows, labels)
    assert evaluation.error == pytest.approx(best.error + evaluation.optimism)


def test_a_search_over_models_without_a_formula_is_repeated_in_folds():
    boosting = GradientBoostingClassifier(n_estimators=3, random_state=0)
    search = GridSearchCV(boosting, {"max_depth": [1, 2]}, cv=3).fit(A, label)
    evaluation = dd.evaluate(search, A, label)
    assert evaluation.how == "folds"
    assert "no formula" in evaluation.reason


class Mean(RegressorMixin, BaseEstimator):
    """The mean of the labels."""

    def fit(self, X, y):
        self.mean_ = np.mean(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


class MeanFamily(families.Family):
    def leave_out(self, model, task):
        left = (task.labels.sum() - task.labels) / (task.n - 1)
        return families.LeftOut(left, "mean without the row", is_exact=True)


def test_a_family_from_outside_of_the_package():
    model = Mean().fit(X, y)
    assert dd.evaluate(model, X, y).how == "folds"
    families.register("Mean", MeanFamily())
    try:
        evaluation = dd.evaluate(model, X, y)
    finally:
        del families.FAMILIES["Mean"]
    assert evaluation.how == "mean without the row"
    assert evaluation.error == pytest.approx(np.var(y) * (100 / 99) ** 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "fitted is missing"),
        ((LogisticRegression(), A, label), "not fitted: call fit"),
        ((LogisticRegression().fit(A, label), A[:, :3], label), "X has 3 columns"),
        ((LogisticRegression().fit(A, label), A), "X and y are missing"),
        ((LogisticRegression().fit(A, label), A, label[:50]), "X has 100 rows and y 50"),
        ((LogisticRegression().fit(A, label), A, label + 5), "not one of the 2 classes"),
        ((LogisticRegression().fit(A, label), A[::-1], label), "not the rows"),
        ((LogisticRegression().fit(A[:50], label[:50]), A[50:], label[50:]), "not the rows"),
        ((LogisticRegression().fit(A, label), A, label, np.repeat([9, 1], 50)), "not the rows"),
        ((Ridge().fit(X, y), X + 1, y[::-1]), "not the rows"),
        ((Ridge().fit(X, y), X, y.astype(str)), "predicts numbers"),
        ((StandardScaler().fit(X), X, y), "no predict"),
        ((Ridge, X, y), "no fitted model"),
        ((Ridge().fit(X, y), X, y, np.full(100, -1.0)), "sample_weight must be 100 numbers"),
        ((Ridge().fit(X, y), X, y, None, [1, 2]), "groups has 2 entries"),
        ((Ridge().fit(X, y), X, y, None, np.zeros(100)), "fewer than 3 groups"),
        ((Ridge().fit(X, y), X, y, None, None, -1), "refits=-1"),
    ],
)
def test_wrong_use_gets_one_line(arguments, message):
    with pytest.raises(ValueError, match=message) as raised:
        dd.evaluate(*arguments)
    assert "\n" not in str(raised.value)


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
