"""The error of the model that a search has chosen, with the price of choosing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from decoupled_descent.evaluation.comparison import price_of_choice
from decoupled_descent.evaluation.evaluation import Evaluation
from decoupled_descent.evaluation.families import family_of
from decoupled_descent.evaluation.families.folds import FOLDS, TWICE
from decoupled_descent.evaluation.families.interface import NoFormulaError
from decoupled_descent.evaluation.foreign import Foreign

#: The most candidates of a search that are fitted again for the price of choosing.
MOST = 200
#: How long a search may be repeated, in seconds.
SECONDS = 600.0


def of_search(
    foreign: Foreign, evaluate_model: Callable[[Foreign], Evaluation], losses: Callable[..., Any]
) -> Evaluation:
    """Evaluate the refitted best model, and add the price of choosing among all candidates.

    Every candidate is fitted once to all rows, and each row is left out of it. Raises
    ``NoFormulaError`` if rows cannot be left out of candidates without refits.

    Args:
        foreign: The search.
        evaluate_model: Evaluates the best model.
        losses: The losses of the left-out predictions of a model.
    """
    search = foreign.model
    if not hasattr(search, "best_estimator_"):
        raise NoFormulaError("refit=False keeps no model")
    best = replace(foreign, model=search.best_estimator_)
    settings = list(search.cv_results_["params"])
    if family_of(best.model) is None or len(settings) > MOST:
        raise NoFormulaError("its candidates have no formula, or are too many")
    from sklearn.base import clone

    each = []
    for one in settings:
        model = clone(search.estimator).set_params(**clone_all(one))
        fitted = replace(foreign, model=model).fitted(
            np.arange(foreign.task.n), foreign.task.weights
        )
        each.append(losses(replace(foreign, model=fitted)))
    price = price_of_choice(each, foreign.task.weights, foreign.task.groups)
    result = evaluate_model(best)
    return replace(
        result, losses=result.losses + price, optimism=price, refits=result.refits + len(each)
    )


def affordable_folds(search: Any, seconds: float) -> int:
    """How many folds of a search are expected to take this time: ten at most.

    Each takes as long as the search; so do the two divisions into halves for the standard error.
    """
    results = search.cv_results_
    fits = np.nan_to_num(results["mean_fit_time"] + results["mean_score_time"])
    each = float(fits.sum()) * search.n_splits_ + float(getattr(search, "refit_time_", 0.0))
    return int(min(FOLDS, seconds / max(each, 1e-9) - TWICE))


def clone_all(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings, of which models are cloned."""
    from sklearn.base import clone

    return {name: clone(value, safe=False) for name, value in settings.items()}
