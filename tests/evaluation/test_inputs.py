"""Wrong use gets one line, with the remedy."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

import decoupled_descent as dd
from tests.evaluation.families.problems import classes, numbers

X, y = numbers(100)
A, label = classes(100)


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
        ((LogisticRegression().fit(*classes(100, seed=3)), A, label), "not the rows"),
        ((LogisticRegression().fit(A, label), A, label, np.where(label, 9, 1)), "not the rows"),
        ((Ridge().fit(X, y), X + 1, y[::-1]), "not the rows"),
        ((Ridge().fit(X, y), X, y.astype(str)), "predicts numbers"),
        ((StandardScaler().fit(X), X, y), "no predict"),
        ((Ridge, X, y), "no fitted model"),
        ((Ridge().fit(X, y), X, y, np.full(100, -1.0)), "sample_weight must be 100 numbers"),
        ((Ridge().fit(X, y), X, y, None, [1, 2]), "groups has 2 entries"),
        ((Ridge().fit(X, y), X, y, None, np.zeros(100)), "fewer than 3 groups"),
        ((Ridge().fit(X, y), X, y, None, ["a", None] * 50), "groups has 50 missing values"),
        ((Ridge().fit(X, y), X, y, None, None, -1), "refits=-1"),
        ((Ridge().fit(X, y), np.where(X > 2, np.nan, X), y), "X has missing or infinite values"),
        ((GridSearchCV(Ridge(), {"alpha": [1, 2]}, refit=False).fit(X, y), X, y), "refit=True"),
    ],
)
def test_wrong_use_gets_one_line(arguments, message):
    with pytest.raises(ValueError, match=message) as raised:
        dd.evaluate(*arguments)
    assert "\n" not in str(raised.value)
