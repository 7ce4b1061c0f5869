"""Pipelines: the last step on what the earlier steps give."""

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler, TargetEncoder
from sklearn.random_projection import GaussianRandomProjection
from sklearn.tree import DecisionTreeRegressor

import decoupled_descent as dd
from tests.evaluation.families.problems import by_refits, numbers

X, y = numbers(60)
#: The last of six columns has the numbers of four classes.
ENCODER = make_column_transformer((TargetEncoder(), [5]), remainder="passthrough")


def test_steps_that_learn_nothing_change_nothing():
    model = make_pipeline(PolynomialFeatures(2), Ridge(2.0)).fit(X, y)
    evaluation = dd.evaluate(model, X, y, refits=0)
    np.testing.assert_allclose(evaluation.predictions, by_refits(model, X, y), atol=1e-8)


def test_refits_train_all_steps():
    model = make_pipeline(StandardScaler(), Ridge(2.0)).fit(X, y)
    evaluation = dd.evaluate(model, X, y, refits=60)
    np.testing.assert_allclose(evaluation.predictions, by_refits(model, X, y), atol=1e-8)


@pytest.mark.parametrize(
    ("steps", "uses"),
    [
        ((StandardScaler(), PCA(3)), False),
        ((GaussianRandomProjection(3, random_state=0), StandardScaler()), False),
        ((GaussianRandomProjection(3), StandardScaler()), False),  # random at every fit
        ((StandardScaler(), SelectKBest(f_regression, k=2)), True),
        ((ENCODER, StandardScaler()), True),
    ],
    ids=["components", "projection", "random projection", "selection", "encoder"],
)
def test_steps_that_use_the_labels_are_left_to_folds(steps, uses):
    rows = np.concatenate([X, np.arange(60)[:, None] % 4], 1)
    model = make_pipeline(*steps, Ridge()).fit(rows, y)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    evaluation = dd.evaluate(model, rows, y, refits=0 if not uses else "auto")
    if not uses:  # else folds have drawn from it
        assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    assert ("use the labels" in evaluation.reason) is uses
    assert (evaluation.how == "folds") is uses


def test_sparse_steps():
    rng = np.random.default_rng(0)
    words = np.array(["cat", "dog", "cow", "hen", "pig"])
    text, label = [" ".join(one) for one in rng.choice(words, (60, 2))], np.arange(60) % 2
    plain = make_pipeline(CountVectorizer(), LogisticRegression()).fit(text, label)
    assert dd.evaluate(plain, text, label).how.startswith("formula")
    chosen = make_pipeline(CountVectorizer(), SelectKBest(k=1), LogisticRegression())
    assert "use the labels" in dd.evaluate(chosen.fit(text, label), text, label).reason


def test_a_last_step_without_a_formula():
    model = make_pipeline(StandardScaler(), DecisionTreeRegressor(max_depth=2)).fit(X, y)
    assert dd.evaluate(model, X, y).reason == "DecisionTreeRegressor has no formula"


@pytest.mark.parametrize("groups", [None, np.repeat(np.arange(15), 4)])
def test_a_far_row_changes_the_scale_of_its_column(groups):
    """Exact for a ridge: the coefficients without the row have another penalty."""
    rows = X.copy()
    rows[0, 0], rows[8, 2] = 40.0, -15.0
    model = make_pipeline(StandardScaler(), Ridge(20.0)).fit(rows, y)
    found = dd.evaluate(model, rows, y, groups=groups, refits=0).predictions
    literal = by_refits(model, rows, y, groups=groups)
    far = [0, 8]
    np.testing.assert_allclose(found[far], literal[far], atol=1e-10)
    fixed = dd.evaluate(model[-1], model[:-1].transform(rows), y, groups=groups, refits=0)
    assert (np.abs(fixed.predictions - literal)[far] > 0.01).all()


def test_a_far_row_of_several_classes():
    """One Newton step is nearer than the old scale."""
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(90, 4)), np.arange(90) % 3
    rows[:, 0] += labels
    rows[0, 0] = 12.0
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1)).fit(rows, labels)
    found = dd.evaluate(model, rows, labels, refits=0)
    fixed = dd.evaluate(model[-1], model[:-1].transform(rows), labels, refits=0)
    literal = -np.log(by_refits(model, rows, labels)[0, 0])
    assert abs(found.losses[0] - literal) < 0.5 * abs(fixed.losses[0] - literal)
