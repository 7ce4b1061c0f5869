"""A model beside a linear model and guessing, all predicting the rows as if they were new."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from decoupled_descent.checks import Z95
from decoupled_descent.evaluation.comparison import Comparison
from decoupled_descent.evaluation.evaluation import Evaluation
from decoupled_descent.quiet import ignoring

Floats = NDArray[np.float64]

#: The level of "better than guessing": each of two tests has half of it, on one side.
LEVEL = 0.05


class Baseline(NamedTuple):
    """A simple model, compared with the model on the same rows."""

    name: str
    evaluation: Evaluation
    #: How much larger its loss is than the model's; that of logarithms where these are fitted.
    gap: Comparison
    loss: float  # its mean loss in the comparison

    @property
    def is_worse(self) -> bool:
        """Whether the model is better, at the level of 2.5 % on one side."""
        return self.gap.difference > Z95 * self.gap.stderr


def baselines(
    model: Any, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, time: Any = None
) -> list[Baseline]:
    """A linear model and guessing, evaluated on the same rows as a fitted estimator.

    Args:
        model: A fitted :class:`DecoupledClassifier` or :class:`DecoupledRegressor`.
        X: The rows of ``fit``, and so on for the other arguments.
        y: Labels or targets.
        sample_weight: Weights.
        groups: Groups.
        time: Times; all are then compared on later rows.

    Returns:
        The linear model and the guess.

    Example:
        >>> from sklearn.datasets import load_diabetes
        >>> import decoupled_descent as dd
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = dd.DecoupledRegressor(features="linear", ridge=1.0).fit(X, y)
        >>> linear, guess = baselines(model, X, y)
        >>> guess.name, guess.is_worse
        ('always the mean', True)
    """
    own: Evaluation = model._rows_of_fit()
    linear, tried = model, {one["features"] for one in model.candidates_}
    if tried != {"linear"}:
        linear = clone(model).set_params(features="linear", stack=False, members=(), verbose=False)
        options = {"sample_weight": sample_weight, "groups": groups, "time": time}
        with ignoring(UserWarning):  # the fit of the model has warned already
            linear.fit(X, y, **{name: one for name, one in options.items() if one is not None})
    log = bool(getattr(model, "log_target", False))
    if own.periods is None:
        name, predictions = _guesses(own, log)
    else:
        labels = np.asarray(y)[model.time_estimate_.earlier]
        if own.classes is not None:
            labels = np.searchsorted(np.asarray(own.classes), labels)
        name, predictions = _guesses_over_time(own, labels, log)
    plain = replace(own, models=None, right=None, decided=None, pairs=0.0, variance=None)
    losses = own.kind.losses(own.labels, predictions)
    guess = replace(plain, predictions=predictions, losses=losses, how="shares of the labels")
    named = (("linear model", linear.evaluation_), (name, guess))
    return [
        Baseline(which, one, *_compared(*(_logarithms(each, log) for each in (one, own))))
        for which, one in named
    ]


def better_than_guessing(model: Evaluation, guess: Baseline) -> bool:
    """Whether a model is better than guessing: by its loss, or by how it ranks two classes.

    Each of the two tests has the level of 2.5 % on one side, so both together have at most 5 %.
    """
    if guess.is_worse:
        return True
    ranks = model.kind.has_classes and np.ndim(model.predictions) == 2
    if not ranks or model.predictions.shape[1] != 2:
        return False
    try:
        return model.estimate("auc").interval[0] > 0.5
    except ValueError:  # a class of one row has no area without it
        return False


def _compared(one: Evaluation, own: Evaluation) -> tuple[Comparison, float]:
    return one.compare(own), one.error


def _logarithms(evaluation: Evaluation, log: bool) -> Evaluation:
    """The same for logarithms: a few large errors do not decide then."""
    if not log:
        return evaluation
    labels, predictions = np.log(evaluation.labels), np.log(evaluation.predictions)
    losses = evaluation.kind.losses(labels, predictions)
    return replace(
        evaluation, labels=labels, predictions=predictions, losses=losses, variance=None, pairs=0.0
    )


def _guesses(evaluation: Evaluation, log: bool) -> tuple[str, Floats]:
    """The mean among the rows of all other groups, or the share of each class.

    Classes keep their shares when rows are left out, as they do in the model. Half a row of each
    class is added, so that no share is 0 (Krichevsky and Trofimov).
    """
    weights, units, labels = evaluation.row_weights, evaluation.units, evaluation.labels
    if evaluation.kind.has_classes:
        assert evaluation.classes is not None
        shares = _shares(labels, weights, len(evaluation.classes))
        name = f"always {evaluation.classes[_decided(shares, evaluation)]!s:.40}"
        return name, np.tile(shares, (len(labels), 1))
    values = np.log(labels) if log else labels
    columns = values.reshape(len(values), -1) * weights[:, None]
    own, rest = np.zeros((int(units.max()) + 1, columns.shape[1])), weights.sum()
    np.add.at(own, units, columns)
    counted = np.bincount(units, weights)
    means = (columns.sum(0) - own[units]) / (rest - counted[units])[:, None]
    means = means.reshape(np.shape(labels))
    return ("always the geometric mean", np.exp(means)) if log else ("always the mean", means)


def _guesses_over_time(evaluation: Evaluation, earlier: Any, log: bool) -> tuple[str, Floats]:
    """The mean, or the shares of the classes, of all rows before each period."""
    periods, labels = evaluation.periods, evaluation.labels
    assert periods is not None
    name, parts = "", []
    for one in range(int(periods.max()) + 1):
        known = np.concatenate([earlier, labels[periods < one]])
        count = int((periods == one).sum())
        if evaluation.classes is not None:
            middle = _shares(known, np.ones(len(known)), len(evaluation.classes))
            name = f"always {evaluation.classes[_decided(middle, evaluation)]!s:.40}"
        else:
            middle = np.exp(np.log(known).mean(0)) if log else known.mean(0)
            name = "always the geometric mean" if log else "always the mean"
        parts.append(np.broadcast_to(middle, (count, *np.shape(middle))))
    return name, np.concatenate(parts)


def _decided(shares: Floats, evaluation: Evaluation) -> int:
    """The most frequent class, or the median of grades."""
    rule = evaluation.rule
    return int(rule.decide(shares[None])[0] if rule.ordered else shares.argmax())


def _shares(labels: Any, weights: Floats, count: int) -> Floats:
    totals = np.bincount(labels, weights, minlength=count)
    n = len(labels)
    own: Floats = (totals / totals.sum() * n + 0.5) / (n + 0.5 * count)
    return own
