"""What ``evaluate`` is given, checked: errors are one line with the argument and the remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from decoupled_descent.evaluation.foreign import Foreign, codes_of, kind_of, taken_labels
from decoupled_descent.evaluation.task import Task

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def foreign_model(
    fitted: Any, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
) -> Foreign:
    """A model with its rows, or ``ValueError``."""
    name = type(fitted).__name__
    if name.endswith("ResultsWrapper"):
        fitted, X, y = _of_statsmodels(fitted, X, y)
    _check_fitted(fitted, name)
    if X is None or y is None:
        raise ValueError(f"X and y are missing: pass the rows that the {name} was fitted to")
    n, y = len(taken_labels(X)), np.asarray(y)
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if len(y) != n or n < 3:
        raise ValueError(f"X has {n} rows and y {len(y)}; give the same 3 or more")
    shape: tuple[int, ...] = getattr(X, "shape", (n,))
    expected = getattr(fitted, "n_features_in_", None)
    if expected is not None and len(shape) == 2 and shape[1] != expected:
        raise ValueError(f"X has {shape[1]} columns, and the {name} was fitted to {expected}")
    weights = as_weights(sample_weight, n)
    return Foreign(fitted, _task(fitted, X, y, weights, as_groups(groups, n)))


def _of_statsmodels(results: Any, X: Any, y: Any) -> tuple[Any, Any, Any]:
    """Results of statsmodels as a model, with the rows that they keep if none are given."""
    from decoupled_descent.evaluation.families.statsmodels_results import RESULTS, StatsmodelsModel

    if type(results).__name__ not in RESULTS:
        raise ValueError(
            f"fitted={type(results).__name__} is not known; give results of OLS, WLS, GLM or Logit"
        )
    X = results.model.exog if X is None else np.asarray(X, np.float64)
    y = results.model.endog if y is None else y
    return StatsmodelsModel.of(results), X, y


def _check_fitted(fitted: Any, name: str) -> None:
    """Refuse what is not a fitted model that predicts."""
    if fitted is None:
        raise ValueError("fitted is missing: pass a fitted model, or predictions=")
    if isinstance(fitted, type) or not hasattr(fitted, "fit"):
        raise ValueError(f"fitted={name} is no fitted model: it must have fit and predict")
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(fitted)
    except NotFittedError:
        raise ValueError(f"the {name} is not fitted: call fit(X, y) before") from None
    if not hasattr(fitted, "predict"):
        remedy = "pass a classifier or a regressor"
        if hasattr(fitted, "cv_results_"):
            remedy = "fit it with refit=True, so that it has its best model"
        raise ValueError(f"the {name} has no predict: {remedy}")


def _task(fitted: Any, X: Any, y: Any, weights: Floats | None, groups: Codes | None) -> Task:
    """The rows with their labels as the model has them."""
    kind, name = kind_of(fitted), type(fitted).__name__
    if not kind.has_classes:
        if y.dtype.kind not in "biuf":
            raise ValueError(f"y holds {y.flat[0].item()!r}, and the {name} predicts numbers")
        y = y.astype(np.float64)
        if not np.isfinite(y).all():
            raise ValueError("y has values that are not finite; drop these rows")
        return Task(X, y, y, kind, None, weights, groups)
    if isinstance(fitted.classes_, list) or y.ndim > 1:
        raise ValueError(f"the {name} predicts several targets: evaluate a classifier of one")
    labels = codes_of(y, fitted.classes_)
    if (labels < 0).any():
        unknown = y[int(np.argmin(labels))].item()
        raise ValueError(
            f"y has {unknown!r}, which is not one of the {len(fitted.classes_)} classes of the "
            f"{name}; pass the labels that it was fitted to"
        )
    return Task(X, y, labels, kind, np.asarray(fitted.classes_), weights, groups)


def as_weights(sample_weight: Any, n: int) -> Floats | None:
    """The weights of the rows, or None for equal ones."""
    if sample_weight is None:
        return None
    weights = np.array(sample_weight, np.float64)  # a copy, which may be written to
    if weights.shape != (n,) or not np.isfinite(weights).all() or weights.min() < 0:
        raise ValueError(f"sample_weight must be {n} numbers of at least 0, one for each row")
    if not (weights > 0).sum() > 1:
        raise ValueError("sample_weight is 0 for all rows but one; pass other weights")
    return weights


def as_groups(groups: Any, n: int) -> Codes | None:
    """The number of the group of each row."""
    if groups is None:
        return None
    codes = pd.factorize(np.asarray(groups).reshape(-1), sort=True)[0]
    if missing := int((codes < 0).sum()):
        raise ValueError(f"groups has {missing} missing values; give each of these rows its group")
    if len(codes) != n:
        raise ValueError(f"groups has {len(codes)} entries, and X {n} rows; give one for each row")
    if codes.max() < 2:
        raise ValueError("groups has fewer than 3 groups, which say nothing about others")
    return np.asarray(codes, np.int64)
