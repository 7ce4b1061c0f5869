"""Results of statsmodels, with the interface of scikit-learn, and how rows are left out of them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from decoupled_descent.evaluation.families.interface import NoFormulaError
from decoupled_descent.evaluation.families.linear import Linear, Penalised, columns_of
from decoupled_descent.evaluation.families.losses import FamilyLoss, HalfTweedie, Logistic, Squared
from decoupled_descent.evaluation.task import Task

#: The classes of results that are known.
RESULTS = {"RegressionResultsWrapper", "GLMResultsWrapper", "BinaryResultsWrapper"}
#: Losses by the names of families and links.
LOSSES: dict[tuple[str, str], FamilyLoss] = {
    ("Gaussian", "Identity"): Squared(),
    ("Poisson", "Log"): HalfTweedie(1.0),
    ("Gamma", "Log"): HalfTweedie(2.0),
    ("InverseGaussian", "Log"): HalfTweedie(3.0),
    ("Binomial", "Logit"): Logistic(),
}


class StatsmodelsModel(BaseEstimator):  # type: ignore[misc]
    """A model of statsmodels. Its options are those of the results that it was made of."""

    fit_intercept = False  # the columns have a constant, if there is one

    def __init__(self, kind: Any = None, options: Any = None) -> None:
        self.kind = kind
        self.options = options

    @classmethod
    def of(cls, results: Any) -> StatsmodelsModel:
        """The fitted model of results."""
        model = results.model
        options = {
            name: value
            for name, value in model._get_init_kwds().items()
            if name in ("family",) and value is not None
        }
        binary = type(results).__name__ == "BinaryResultsWrapper" or (
            "family" in options and type(options["family"]).__name__ == "Binomial"
        )
        kind = StatsmodelsClasses if binary else StatsmodelsModel
        return kind(type(model), options)._with(results)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit again, with weights where the model takes them."""
        options = dict(self.options)
        if sample_weight is not None:
            options["freq_weights" if "family" in options else "weights"] = sample_weight
        quiet = {} if self.kind.__name__ in ("OLS", "WLS") else {"disp": False}
        return self._with(self.kind(y, X, **options).fit(**quiet))

    def _with(self, results: Any) -> Self:
        self.coef_ = np.asarray(results.params, np.float64)
        self.intercept_ = np.zeros(1)
        self.n_features_in_ = len(self.coef_)
        self._predict = results.predict
        return self

    def predict(self, X: Any) -> Any:
        """Expected values."""
        return np.asarray(self._predict(X))


class StatsmodelsClasses(StatsmodelsModel):
    """A model of the probability of 1."""

    classes_ = np.array([0, 1])

    def predict_proba(self, X: Any) -> Any:
        """Probabilities of 0 and 1."""
        second = super().predict(X)
        return np.stack([1 - second, second], 1)


class StatsmodelsFamily(Linear):
    """OLS, WLS, GLM and Logit: no penalty, and the constant is a column."""

    def problem(self, model: Any, task: Task) -> Penalised:
        """The deviance."""
        name = model.kind.__name__
        family = model.options.get("family")
        if family is not None:
            names = type(family).__name__, type(family.link).__name__
        else:
            names = {"Logit": ("Binomial", "Logit")}.get(name, ("Gaussian", "Identity"))
        if names not in LOSSES or name not in ("OLS", "WLS", "GLM", "Logit"):
            raise NoFormulaError(f"{name} of {' with link '.join(names)} has no formula")
        return Penalised(
            LOSSES[names], columns_of(model.coef_), model.intercept_, 0.0, 0.0,
            task.row_weights, False,
        )  # fmt: skip
