"""Forests and bagging: each row is predicted by the parts that did not draw it."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.evaluation.families.interface import (
    Family,
    LeftOut,
    NoFormulaError,
    not_known,
    with_shares,
)
from decoupled_descent.evaluation.kinds import PROBABILITIES
from decoupled_descent.evaluation.task import Task
from decoupled_descent.objective.links import LEAST

Floats = NDArray[np.float64]

#: A row must be out of this many bags.
FEWEST = 3
#: So many trees are compared with the labels of their bags …
COMPARED = 3
#: … if they predict means.
MEANS = ("gini", "entropy", "log_loss", "squared_error", "friedman_mse", "poisson")


class OutOfBag(Family):
    """What forests and bagging have in common."""

    @abstractmethod
    def drawn(self, model: Any, task: Task) -> list[Any]:
        """The rows in the bag of each part."""

    @abstractmethod
    def said(self, model: Any, part: int, task: Task) -> Floats:
        """What a part predicts for all rows, shape (n, C)."""

    def leave_out(self, model: Any, task: Task) -> LeftOut:
        """Average the parts without a row, or its group, in their bag."""
        bags = self.drawn(model, task)
        units = np.arange(task.n) if task.groups is None else task.groups
        count = np.zeros(task.n)
        sums: Any = 0.0
        squares: Any = 0.0
        for part, bag in enumerate(bags):
            inside = np.zeros(int(units.max()) + 1, bool)
            inside[units[bag]] = True
            out = ~inside[units]
            said = self.said(model, part, task)
            count += out
            sums = sums + out[:, None] * said
            squares = squares + out[:, None] * said**2
        if count.min() < FEWEST:
            raise NoFormulaError("some rows are in nearly all bags")
        mean = sums / count[:, None]
        variance = (squares / count[:, None] - mean**2).clip(0) * (count / (count - 1))[:, None]
        extra = variance * (1 / count - 1 / len(bags))[:, None]
        excess = _excess(task, mean, extra, count, len(bags))
        if task.kind != PROBABILITIES:
            mean = mean.reshape(task.labels.shape)
        weighted = task.kind != PROBABILITIES or getattr(model, "class_weight", None) is not None
        kept = None if weighted else with_shares(task, mean)
        return LeftOut(mean, "out of bag", kept=kept, pairs=not_known, excess=excess, is_exact=True)


def _excess(task: Task, mean: Floats, extra: Floats, count: Floats, parts: int) -> Floats:
    """How much too large losses are, because fewer parts are averaged than in the model.

    A class that none of m parts predicts has probability 0, and the largest loss. None of all M
    parts predicts it with probability √((m + ½)/(M + ½)) (Jeffreys' prior); otherwise about one
    does.
    """
    if task.classes is None:
        return np.asarray(extra.mean(1))
    own, chance = (one[np.arange(task.n), task.labels] for one in (extra, mean))
    never = np.sqrt((count + 0.5) / (parts + 0.5))
    saved = (1 - never) * (-math.log(LEAST) - math.log(parts))
    usual = np.log1p(own / np.maximum(chance, 1e-9) ** 2) / 2
    return np.where(chance > 0, usual, saved)


def _check_order(model: Any, bags: list[Any], task: Task) -> None:
    """Refuse rows in another order than in the fit: trees would have seen the rows out of bag.

    The root of a tree has the mean of the labels in its bag. It is not known with weights of
    classes, nor where it is a median.
    """
    labels = task.labels if task.classes is None else task.one_hot()
    for part, bag in zip(model.estimators_[:COMPARED], bags, strict=False):
        weighted = [getattr(one, "class_weight", None) is not None for one in (model, part)]
        if getattr(part, "criterion", "") not in MEANS or any(weighted):
            return
        root = part.tree_.value[0].reshape(-1)
        chosen = labels[bag].reshape(len(bag), -1)
        ways = [np.ones(len(bag)), task.row_weights[bag]]  # weights change draws, or count
        means = [own @ chosen / max(own.sum(), LEAST) for own in ways]
        if len(root) != chosen.shape[1]:
            return
        if not any(np.allclose(root, one, rtol=1e-6, atol=1e-9) for one in means):
            raise ValueError(
                "X and y are in another order than in the fit, or not its rows: the trees have "
                "other labels; pass X and y as in the fit"
            )


class Forest(OutOfBag):
    """Random forests and extra trees with bootstrap samples."""

    def drawn(self, model: Any, task: Task) -> list[Any]:
        """The draws, by the random state of each tree."""
        if not model.bootstrap:
            raise NoFormulaError("bootstrap=False: every tree has seen all rows")
        from sklearn.ensemble._forest import _generate_sample_indices

        size = model._n_samples_bootstrap
        weights = (getattr(model, "_sample_weight", None),)
        try:
            bags = [
                _generate_sample_indices(tree.random_state, task.n, size, *weights)
                for tree in model.estimators_
            ]
        except TypeError:  # before scikit-learn 1.9, weights did not change the draws
            bags = [
                _generate_sample_indices(tree.random_state, task.n, size)
                for tree in model.estimators_
            ]
        sizes = {int(tree.tree_.n_node_samples[0]) for tree in model.estimators_}
        if len(np.unique(bags[0])) != model.estimators_[0].tree_.n_node_samples[0]:
            raise ValueError(
                f"X has {task.n} rows, and the model was fitted to others (about {max(sizes)} in "
                "each tree); pass the rows of its fit"
            )
        _check_order(model, bags, task)
        return bags

    def said(self, model: Any, part: int, task: Task) -> Floats:
        """What a tree predicts."""
        tree, X = model.estimators_[part], task.matrix
        if task.classes is None:
            return np.asarray(tree.predict(X), np.float64).reshape(task.n, -1)
        return np.asarray(tree.predict_proba(X), np.float64)


class Bagging(OutOfBag):
    """Bagging of any estimator."""

    def drawn(self, model: Any, task: Task) -> list[Any]:
        """The draws, as the model gives them."""
        if model._n_samples != task.n:
            raise ValueError(f"X has {task.n} rows, and the model was fitted to {model._n_samples}")
        bags = list(model.estimators_samples_)
        if not model.bootstrap and len(np.unique(bags[0])) == task.n:
            raise NoFormulaError("every part has seen all rows")
        _check_order(model, bags, task)
        return bags

    def said(self, model: Any, part: int, task: Task) -> Floats:
        """What an estimator predicts on its columns."""
        one, columns = model.estimators_[part], model.estimators_features_[part]
        X = np.asarray(task.X)[:, columns]
        if task.classes is None:
            return np.asarray(one.predict(X), np.float64).reshape(task.n, -1)
        result = np.zeros((task.n, len(task.classes)))
        if hasattr(one, "predict_proba"):
            result[:, np.asarray(one.classes_, np.int64)] = one.predict_proba(X)
        else:
            result[np.arange(task.n), one.predict(X).astype(np.int64)] = 1.0
        return result
