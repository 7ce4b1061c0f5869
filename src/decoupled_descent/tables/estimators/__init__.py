"""scikit-learn estimators: a model and an estimate of its test error from the same rows."""

from decoupled_descent.tables.estimators.classifier import DecoupledClassifier
from decoupled_descent.tables.estimators.regressor import DecoupledRegressor

__all__ = ["DecoupledClassifier", "DecoupledRegressor"]
