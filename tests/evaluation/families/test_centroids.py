"""The nearest centroid without each row."""

import pytest
from sklearn.neighbors import NearestCentroid

import decoupled_descent as dd
from tests.evaluation.families.problems import GROUPS, check_exact, classes

A, label = classes(60, count=3)


@pytest.mark.parametrize("priors", ["uniform", "empirical", [0.2, 0.3, 0.5]])
def test_literally(priors):
    check_exact(NearestCentroid(priors=priors), A, label)


def test_medians_and_groups_are_left_to_folds():
    model = NearestCentroid(metric="manhattan").fit(A, label)
    assert dd.evaluate(model, A, label).how == "folds"
    assert dd.evaluate(NearestCentroid().fit(A, label), A, label, groups=GROUPS[:60]).how == "folds"


def test_other_rows_are_refused():
    with pytest.raises(ValueError, match="not the rows"):
        dd.evaluate(NearestCentroid().fit(A, label), A[::-1], label)
