"""Families of models: how a row is left out of a fitted model, by what the model is.

A family is a class with one method. The table has the names of classes of models; a model of a
class that inherits from one of them belongs to the same family.
"""

from __future__ import annotations

from typing import Any

from decoupled_descent.evaluation.families.centroids import NearestCentroid
from decoupled_descent.evaluation.families.discriminant import (
    LinearDiscriminant,
    QuadraticDiscriminant,
)
from decoupled_descent.evaluation.families.ensembles import Bagging, Forest
from decoupled_descent.evaluation.families.gaussian_process import GaussianProcess
from decoupled_descent.evaluation.families.generalised import GeneralisedLinear
from decoupled_descent.evaluation.families.huber import Huber
from decoupled_descent.evaluation.families.interface import Family, LeftOut, NoFormulaError
from decoupled_descent.evaluation.families.kernel_ridge import KernelRidge
from decoupled_descent.evaluation.families.kinks import LinearSupport, Quantile
from decoupled_descent.evaluation.families.lasso import Lasso
from decoupled_descent.evaluation.families.least_squares import BayesianRidge, LeastSquares
from decoupled_descent.evaluation.families.logistic import LogisticRegression
from decoupled_descent.evaluation.families.naive_bayes import CountingBayes, GaussianBayes
from decoupled_descent.evaluation.families.neighbours import Neighbours
from decoupled_descent.evaluation.families.pipelines import Pipeline
from decoupled_descent.evaluation.families.support_vectors import SupportVectors

__all__ = ["Family", "LeftOut", "NoFormulaError", "family_of", "register"]

#: The family of each class of models, by its name.
FAMILIES: dict[str, Family] = {
    "LinearRegression": LeastSquares(),
    "Ridge": LeastSquares(),
    "RidgeCV": LeastSquares(),
    "RidgeClassifier": LeastSquares(),
    "RidgeClassifierCV": LeastSquares(),
    "BayesianRidge": BayesianRidge(),
    "ElasticNet": Lasso(),  # and the lasso, which inherits from it
    "Lasso": Lasso(),
    "LassoCV": Lasso(),
    "ElasticNetCV": Lasso(),
    "LogisticRegression": LogisticRegression(),  # and LogisticRegressionCV
    "PoissonRegressor": GeneralisedLinear(1.0),
    "GammaRegressor": GeneralisedLinear(2.0),
    "TweedieRegressor": GeneralisedLinear(),
    "HuberRegressor": Huber(),
    "KernelRidge": KernelRidge(),
    "GaussianProcessRegressor": GaussianProcess(),
    "LinearSVC": LinearSupport(),
    "LinearSVR": LinearSupport(),
    "SVC": SupportVectors(),
    "SVR": SupportVectors(),
    "QuantileRegressor": Quantile(),
    "KNeighborsClassifier": Neighbours(),
    "KNeighborsRegressor": Neighbours(),
    "LinearDiscriminantAnalysis": LinearDiscriminant(),
    "QuadraticDiscriminantAnalysis": QuadraticDiscriminant(),
    "GaussianNB": GaussianBayes(),
    "MultinomialNB": CountingBayes(),
    "ComplementNB": CountingBayes(),
    "BernoulliNB": CountingBayes(),
    "CategoricalNB": CountingBayes(),
    "NearestCentroid": NearestCentroid(),
    "RandomForestClassifier": Forest(),
    "RandomForestRegressor": Forest(),
    "ExtraTreesClassifier": Forest(),
    "ExtraTreesRegressor": Forest(),
    "BaggingClassifier": Bagging(),
    "BaggingRegressor": Bagging(),
    "Pipeline": Pipeline(),
}


def register(name: str, family: Family) -> None:
    """Say how rows are left out of the models of a class.

    Args:
        name: The name of the class of models; classes that inherit from it belong to it, too.
        family: An object with ``leave_out(model, task)``.

    Example:
        >>> register("MyRidge", FAMILIES["Ridge"])
    """
    FAMILIES[name] = family


def family_of(model: Any) -> Family | None:
    """The family of a model by the names of its classes; None if there is none."""
    names = [base.__name__ for base in type(model).__mro__]
    if "StatsmodelsModel" in names:  # made of results, so the module is imported
        from decoupled_descent.evaluation.families.statsmodels_results import StatsmodelsFamily

        return StatsmodelsFamily()
    return next((FAMILIES[name] for name in names if name in FAMILIES), None)
