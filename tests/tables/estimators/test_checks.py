"""scikit-learn's own checks of estimators."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import decoupled_descent as dd

ESTIMATORS = [
    dd.DecoupledClassifier(features="linear", ridge=0.1),  # with the search: the slow test below
    dd.DecoupledRegressor(features="linear"),
]
#: Checks that a row of weight 2 is the row twice. Parameters for a given ridge are the same, the
#: estimate is not: copies that are not one group are predicted by models that have seen them.
EQUIVALENT = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)


def expected_failures(_):
    reason = "weights are copies of one group: ridge and probabilities depend on left-out rows"
    return dict.fromkeys(EQUIVALENT, reason)


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_check(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [dd.DecoupledClassifier(), dd.DecoupledRegressor()], expected_failed_checks=expected_failures
)
def test_check_with_all_features(estimator, check):
    check(estimator)
