"""Naive Bayes: counts and moments from which rows are taken away."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from decoupled_descent.evaluation.families.interface import Family, LeftOut, with_shares
from decoupled_descent.evaluation.foreign import taken
from decoupled_descent.evaluation.task import Task

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


class NaiveBayes(Family):
    """What all have in common: a copy of the model forgets a unit, predicts it and learns it."""

    def leave_out(self, model: Any, task: Task) -> LeftOut:
        """Predict every row by counts without it."""
        _check_same(model, task)
        weights, result = task.row_weights, np.empty((task.n, len(task.classes)))
        state = self.start(copy.deepcopy(model), task)
        for own in task.units:
            result[own] = self.without(state, task, own, weights[own])
        given = any(getattr(model, name, None) is not None for name in ("priors", "class_prior"))
        fixed = given or not getattr(model, "fit_prior", True)
        kept = None if fixed else with_shares(task, result)
        return LeftOut(result, "counts without the row", kept=kept, is_exact=True)

    @abstractmethod
    def start(self, model: Any, task: Task) -> Any:
        """What is kept from unit to unit."""

    @abstractmethod
    def without(self, state: Any, task: Task, own: Codes, weights: Floats) -> Floats:
        """Probabilities of a unit without its rows."""


def _check_same(model: Any, task: Task) -> None:
    """Refuse rows that give other counts than the model has."""
    given = {} if task.weights is None else {"sample_weight": task.weights}
    again = clone(model).fit(task.X, task.y, **given)
    if not np.allclose(again.predict_proba(task.X), model.predict_proba(task.X), atol=1e-6):
        raise ValueError(
            "X and y are not the rows that the model was fitted to: their counts are others; pass "
            "the same rows and sample_weight"
        )


class CountingBayes(NaiveBayes):
    """Multinomial, complement, Bernoulli and categorical naive Bayes, by their own counting."""

    def start(self, model: Any, task: Task) -> Any:
        """The copy of the model."""
        return model

    def without(self, state: Any, task: Task, own: Codes, weights: Floats) -> Floats:
        """Count the rows with the opposite sign, and count them again."""
        rows = state._check_X(taken(task.X, own))
        marks = task.one_hot()[own] * weights[:, None]
        self._count(state, rows, -marks)
        result = np.asarray(state.predict_proba(taken(task.X, own)))
        self._count(state, rows, marks)
        return result

    @staticmethod
    def _count(model: Any, rows: Any, marks: Floats) -> None:
        with np.errstate(divide="ignore"):
            model._count(rows, marks)
            model._update_feature_log_prob(model._check_alpha())
            model._update_class_log_prior(class_prior=model.class_prior)


class GaussianBayes(NaiveBayes):
    """Gaussian naive Bayes."""

    def start(self, model: Any, task: Task) -> Any:
        """The model, and centred sums of weights, values and squares of each class."""
        X = task.matrix - task.matrix.mean(0)
        marks = task.one_hot() * task.row_weights[:, None]
        squares = np.square(X)
        sums = (marks.sum(0), marks.T @ X, marks.T @ squares, X.sum(0), squares.sum(0))
        return model, X, marks, squares, task.matrix.mean(0), sums

    def without(self, state: Any, task: Task, own: Codes, weights: Floats) -> Floats:
        """Means and variances from the sums without the rows."""
        model, X, marks, squares, centre, sums = state
        mine, left = marks[own], task.n - len(own)
        total = sums[0] - mine.sum(0)
        kept = total > 1e-12 * sums[0]
        means = (sums[1] - mine.T @ X[own])[kept] / total[kept, None]
        second = (sums[2] - mine.T @ squares[own])[kept] / total[kept, None]
        first = (sums[3] - X[own].sum(0)) / left
        spread = (sums[4] - squares[own].sum(0)) / left - first**2
        model.theta_ = means + centre
        model.var_ = second - means**2 + model.var_smoothing * spread.max()
        model.class_prior_ = total[kept] / total.sum()
        if model.priors is not None:
            model.class_prior_ = np.asarray(model.priors)[kept]
        model.classes_ = np.flatnonzero(kept)
        result = np.zeros((len(own), len(kept)))
        result[:, kept] = model.predict_proba(task.matrix[own])
        return result
