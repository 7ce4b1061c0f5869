"""scikit-learn's own checks of estimators."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import decoupled_descent as dd

ESTIMATORS = [
    dd.DecoupledClassifier(features="linear", ridge=0.1),  # with the search: the slow test below
    dd.DecoupledRegressor(features="linear"),
    dd.DecoupledClassifier(method="orthogonal", max_iter=20),
    dd.DecoupledRegressor(method="orthogonal", max_iter=50),
]
#: Checks that pass weights to ``fit``, which the descents refuse in one line.
WEIGHTED = (
    "check_sample_weights_pandas_series",
    "check_sample_weights_not_an_array",
    "check_sample_weights_list",
    "check_all_zero_sample_weights_error",
    "check_sample_weights_shape",
    "check_sample_weights_not_overwritten",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
    "check_classifiers_one_label_sample_weights",
    "check_class_weight_classifiers",
)


#: Checks that a row of weight 2 is the row twice. Parameters for a given ridge are the same, the
#: estimate is not: copies that are not one group are predicted by models that have seen them.
EQUIVALENT = WEIGHTED[6:8]


def expected_failures(estimator):
    if estimator.method == "orthogonal":
        return dict.fromkeys(WEIGHTED, "only the Newton method takes weights")
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
