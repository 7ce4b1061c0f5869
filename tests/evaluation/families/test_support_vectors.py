"""Support vector machines without each row."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import SVC, SVR

import decoupled_descent as dd
from tests.evaluation.families.problems import check_near, classes, numbers

X, y = numbers(100)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_regression_is_near_to_literal_refits(kernel):
    check_near(SVR(kernel=kernel), X, y)


def test_rows_train_the_models_for_each_other():
    """The variance because of that, beside what leaving out two rows by refits gives."""
    by_formula, by_refits = [], []
    for seed in range(4):
        rows, target = numbers(30, seed=seed)
        model = SVR(tol=1e-8).fit(rows, target)
        by_formula.append(dd.evaluate(model, rows, target, refits=0).pairs)

        def loss(*out, rows=rows, target=target):
            kept = np.setdiff1d(np.arange(30), out)
            one = SVR(tol=1e-8).fit(rows[kept], target[kept])
            return (one.predict(rows[[out[0]]])[0] - target[out[0]]) ** 2

        alone = [loss(i) for i in range(30)]
        effects = np.array([
            [loss(i, j) - alone[i] if i != j else 0.0 for j in range(30)] for i in range(30)
        ])  # fmt: skip
        effects -= effects.mean(0) + effects.mean(1, keepdims=True) - effects.mean()
        np.fill_diagonal(effects, 0)
        by_refits.append((effects * effects.T).sum() / (30 * 29))
    assert np.mean(by_refits) > 0
    assert 0.5 < np.mean(by_formula) / np.mean(by_refits) < 2


@pytest.mark.parametrize(
    "model",
    [SVC(), SVC(kernel="linear", C=0.1), SVC(kernel="poly", class_weight="balanced")],
    ids=repr,
)
def test_decisions(model):
    for count in (2, 3):
        rows, labels = classes(90, count=count)
        model.fit(rows, labels)
        formula, every = (dd.evaluate(model, rows, labels, refits=m) for m in (0, 90))
        assert formula.how == "formula"
        assert np.mean(formula.predictions != every.predictions) <= 0.06


def test_the_model_itself_decides_as_scikit_learn_does():
    """Votes of the pairs of classes: with far groups of rows, nothing moves when one leaves."""
    rows = np.repeat(10.0 * np.eye(4), 8, axis=0)
    rows += 0.1 * np.random.default_rng(0).normal(size=rows.shape)
    labels = np.repeat(np.arange(4), 8)
    model = SVC().fit(rows, labels)
    np.testing.assert_array_equal(dd.evaluate(model, rows, labels).predictions, model.predict(rows))


def test_other_rows_are_refused():
    with pytest.raises(ValueError, match="fitted to 100"):
        dd.evaluate(SVR().fit(X, y), X[:50], y[:50])
    with pytest.raises(ValueError, match="not the table"):
        dd.evaluate(SVR().fit(X, y), X[::-1], y)


@pytest.mark.parametrize("kind", [SVC, SVR])
def test_sparse_rows_are_as_dense_ones(kind):
    rows, labels = (X, y) if kind is SVR else classes(100)
    rows = np.where(np.abs(rows) < 0.5, 0, rows)
    sparse = sp.csr_matrix(rows)
    dense = dd.evaluate(kind(gamma=0.1, tol=1e-8).fit(rows, labels), rows, labels)
    found = dd.evaluate(kind(gamma=0.1, tol=1e-8).fit(sparse, labels), sparse, labels)
    assert found.how == dense.how
    np.testing.assert_allclose(found.losses, dense.losses, rtol=1e-6)
    with pytest.raises(ValueError, match="not the table"):
        dd.evaluate(kind(gamma=0.1).fit(sparse, labels), sparse[::-1], labels)


def test_a_kernel_that_was_computed_before_is_left_to_folds():
    model = SVR(kernel=lambda a, b: a @ b.T).fit(X, y)
    assert dd.evaluate(model, X, y, refits=0).how == "formula"
