"""Naive Bayes without each row."""

import numpy as np
import pytest
from sklearn.naive_bayes import (
    BernoulliNB,
    CategoricalNB,
    ComplementNB,
    GaussianNB,
    MultinomialNB,
)

import decoupled_descent as dd
from tests.evaluation.families.problems import by_refits, check_exact, classes

A, label = classes(60, count=3)
COUNTS = np.abs(A * 3).round()
CODES = np.clip((A + 2).astype(int), 0, 4)


@pytest.mark.parametrize(
    ("model", "rows"),
    [
        (GaussianNB(), A),
        (GaussianNB(priors=[0.2, 0.3, 0.5]), A),
        (GaussianNB(var_smoothing=0.1), A),
        (MultinomialNB(), COUNTS),
        (ComplementNB(), COUNTS),
        (BernoulliNB(), A),
        (CategoricalNB(min_categories=5), CODES),
    ],
    ids=repr,
)
def test_literally(model, rows):
    check_exact(model, rows, label, weights=True, groups=True)


def test_classes_keep_their_shares():
    """Bayes' rule: as refits with the shares of all rows, with weights and groups as well."""
    groups = np.repeat(np.arange(15), 4)
    shares = np.bincount(label) / len(label)
    found = dd.evaluate(GaussianNB().fit(A, label), A, label, groups=groups)
    wanted = by_refits(GaussianNB(priors=shares), A, label, groups=groups)
    np.testing.assert_allclose(found.predictions, wanted, atol=1e-10)


@pytest.mark.parametrize("model", [GaussianNB(), MultinomialNB()])
def test_other_rows_are_refused(model):
    model.fit(COUNTS, label)
    for rows, weights in ((COUNTS[::-1], None), (COUNTS, np.arange(60) + 1.0)):
        with pytest.raises(ValueError, match="not the rows"):
            dd.evaluate(model, rows, label, weights)
