"""scikit-learn's own checks of estimators."""

from sklearn.utils.estimator_checks import parametrize_with_checks

import decoupled_descent as dd

ESTIMATORS = [
    dd.DecoupledClassifier(),
    dd.DecoupledRegressor(),
    dd.DecoupledClassifier(method="orthogonal", max_iter=20),
    dd.DecoupledRegressor(method="orthogonal", max_iter=50),
]


@parametrize_with_checks(ESTIMATORS)
def test_check(estimator, check):
    check(estimator)
