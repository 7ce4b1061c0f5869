"""``evaluate``: an honest error for a model that is fitted already, or for predictions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from decoupled_descent.checks import real_number, whole_number
from decoupled_descent.evaluation.checks.of_models import leak, similar_rows
from decoupled_descent.evaluation.difference import FIRST, MOST, Correction, DifferenceEstimator
from decoupled_descent.evaluation.evaluation import Evaluation
from decoupled_descent.evaluation.families import family_of
from decoupled_descent.evaluation.families.folds import FOLDS, by_folds, pairs_by_halves
from decoupled_descent.evaluation.families.interface import LeftOut, NoFormulaError
from decoupled_descent.evaluation.foreign import Foreign
from decoupled_descent.evaluation.inputs import foreign_model
from decoupled_descent.evaluation.kinds import DECISIONS
from decoupled_descent.evaluation.later_rows import as_times, of_later_rows
from decoupled_descent.evaluation.means import mean_with_stderr
from decoupled_descent.evaluation.searches import SECONDS, affordable_folds, of_search
from decoupled_descent.objective.links import LEAST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Losses are scaled to a corrected error if that changes them by at most this factor.
SCALED = 5.0
#: Models without a formula are fitted again without similar rows, in this many folds: both errors
#: that are compared have as few rows in training. It is done where most rows have similar ones, so
#: that there are at most this many groups per row.
FEW_FOLDS, MANY = 3, 0.8


def evaluate(
    fitted: Any = None,
    X: Any = None,
    y: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    refits: int | str = "auto",
    *,
    time: Any = None,
    time_limit: float = SECONDS,
    predictions: Any = None,
    out_of_fold: bool = False,
) -> Evaluation:
    """Estimate how good a fitted model is on new rows, from the rows that it was fitted to.

    Every row is predicted as if it were new: by a formula for models at the minimum of a penalised
    loss, exactly where moments or neighbours can be updated, out of bag, or by ten folds. Formulas
    are checked and corrected by a few literal refits of the whole model.

    Args:
        fitted: A fitted model of scikit-learn or with its interface: also a pipeline or a search.
        X: The rows to which it was fitted.
        y: Their labels.
        sample_weight: The weights with which it was fitted.
        groups: The group of each row (patient, day, …); rows of a group are left out together.
        refits: How many draws for literal refits: "auto" for as many as needed, 0 for none; from
            the number of rows (or groups) on every one is refitted once.
        time: The time of each row, numbers or dates. The error is then that of rows after the last
            one: clones that are fitted to the past predict the later half, piece by piece.
        time_limit: For how many seconds a search whose candidates have no formula may be repeated
            in folds, by the times of its own fits: ten folds if there is time, otherwise fewer.
        predictions: Instead of a model: predictions of rows by models that did not see them, such
            as those out of fold. Probabilities, classes or numbers; or a dictionary of these by
            the names of models, of which the best is chosen. With X, some predictions of training
            rows are recognised.
        out_of_fold: Say True if no model had seen the rows that it predicts. Nothing in
            predictions shows that, so without your word the verdict is at most *caution*.

    Returns:
        The error with a standard error, an interval and a verdict: see :class:`Evaluation`.

    Example:
        >>> import decoupled_descent as dd
        >>> from sklearn.datasets import load_diabetes
        >>> from sklearn.linear_model import Ridge
        >>> X, y = load_diabetes(return_X_y=True)
        >>> dd.evaluate(Ridge(alpha=0.1).fit(X, y), X, y)
        Evaluation(mean squared error 3005 (...), 442 rows, formula and 4 refits, trust)
    """
    if predictions is not None:
        from decoupled_descent.evaluation.given import of_predictions

        if fitted is not None:
            raise ValueError("predictions= is given with a model; pass one of them")
        if time is not None or refits != "auto":
            raise ValueError(
                "time= and refits= fit a model again, and predictions= have none; leave them out"
            )
        return of_predictions(predictions, y, sample_weight, groups, X, out_of_fold)
    if out_of_fold:
        raise ValueError("out_of_fold=True is about predictions=, which are missing; pass them")
    if refits != "auto":
        refits = whole_number("refits", refits, least=0)
    seconds = real_number("time_limit", time_limit)
    foreign = foreign_model(fitted, X, y, sample_weight, groups)
    if time is not None:
        result = of_later_rows(foreign, as_times(time, foreign.task.n))
    elif hasattr(fitted, "cv_results_"):
        result = _of_search(foreign, refits, seconds)
    else:
        result = _of_model(foreign, refits)
    found = leak(foreign.task)
    return result if found is None else result.with_findings([found])


def _of_model(foreign: Foreign, refits: int | str) -> Evaluation:
    """Leave rows out of a model, and correct the error by refits."""
    left = _left_out(foreign, refits)
    result = _evaluation(foreign, left)
    if not (left.is_exact or left.how == "folds" or refits == 0):
        result = _corrected(foreign, left, result, refits)
    notes = similar_rows(foreign.task, partial(_losses_without, foreign, left))
    return replace(result, notes={**result.notes, **notes})


def _losses_without(foreign: Foreign, alone: LeftOut, groups: Any) -> Floats | None:
    """The losses of rows that are left out with their group; None if that costs too much."""
    count = len(np.unique(groups))
    if count == foreign.task.n:
        return _losses(foreign, alone)
    grouped = replace(foreign, task=replace(foreign.task, groups=groups))
    family = family_of(foreign.model)
    try:
        if alone.regrouped is not None:
            return _losses(grouped, alone.regrouped(grouped.task))
        if family is None or alone.how == "folds":
            raise NoFormulaError("")
        left = family.leave_out(foreign.model, grouped.task)
    except (NoFormulaError, AttributeError, ValueError):  # the last for steps with labels
        if count > MANY * foreign.task.n:
            return None
        left = by_folds(grouped, count=FEW_FOLDS)
    return _losses(grouped, left)


def _of_search(foreign: Foreign, refits: int | str, seconds: float) -> Evaluation:
    """The best model with the price of choosing; or the whole search by folds."""

    def losses(one: Foreign) -> Floats:
        family = family_of(one.model)
        if family is None:
            raise NoFormulaError("a candidate has no formula")
        return _losses(one, family.leave_out(one.model, one.task))

    try:
        return of_search(foreign, lambda best: _of_model(best, refits), losses)
    except NoFormulaError as reason:
        count = affordable_folds(foreign.model, seconds)
        if count >= FEW_FOLDS:
            few = f"; {count} folds of the whole search in {seconds:g} seconds" * (count < FOLDS)
            return _evaluation(foreign, by_folds(foreign, f"{reason}{few}", count=count))
    best = _of_model(replace(foreign, model=foreign.model.best_estimator_), refits)
    return replace(best, notes={**best.notes, "unpriced": 1.0})


def _left_out(foreign: Foreign, refits: int | str) -> LeftOut:
    """Predictions by the family of the model, or by folds."""
    family = family_of(foreign.model)
    if family is None:
        return by_folds(foreign, f"{type(foreign.model).__name__} has no formula")
    try:
        missed = "" if refits != "auto" else family.misses(foreign.model, foreign.task)
        if missed:
            return by_folds(foreign, missed)
        return family.leave_out(foreign.model, foreign.task)
    except NoFormulaError as reason:
        return by_folds(foreign, str(reason))
    except AttributeError as missing:  # of another library, with a class of the same name
        return by_folds(foreign, f"it is not the model of its name that is known: {missing}")


def _losses(foreign: Foreign, left: LeftOut) -> Floats:
    """The loss of each row.

    Decisions are counted with the shares of the classes kept. The log loss is that of literal
    leave-one-out, which hardly depends on them.
    """
    task = foreign.task
    judged = left.predictions
    if task.kind == DECISIONS and left.kept is not None:
        judged = left.kept
    losses = task.kind.losses(task.labels, judged)
    return losses if left.excess is None else losses - left.excess


def _evaluation(foreign: Foreign, left: LeftOut, **others: Any) -> Evaluation:
    """The evaluation of predictions of all rows."""
    task = foreign.task
    said = left.predictions if left.kept is None else left.kept
    pairs = pairs_by_halves(foreign) if left.pairs is None else left.pairs()
    given = {
        "how": left.how, "weights": task.weights, "groups": task.groups, "pairs": pairs,
        "losses": _losses(foreign, left), "classes": task.classes, "refits": left.refits,
        "reason": left.reason, "models": left.models,
    }  # fmt: skip
    if left.fitted is not None:
        given["influence"] = _distance(left.fitted, said)
    if left.how == "folds":
        given["notes"] = {"worse_than_folds": _worse(foreign, left)}
    return Evaluation.of(task.labels, said, task.kind, **(given | others))


def _worse(foreign: Foreign, left: LeftOut) -> float:
    """How much worse the model predicts its own rows than models without them, in stderrs."""
    task = foreign.task
    more = task.kind.losses(task.labels, left.fitted) - task.kind.losses(
        task.labels, left.predictions
    )
    mean, stderr = mean_with_stderr(more, task.weights, task.groups)
    return mean / stderr if stderr > 0 else 0.0


def _distance(fitted: Any, said: Any) -> Floats:
    """How far predictions are from those of the model, shape (n,)."""
    far = np.abs(np.asarray(said, np.float64) - np.asarray(fitted, np.float64))
    return np.asarray(far.reshape(len(far), -1).max(1))


def _corrected(
    foreign: Foreign, left: LeftOut, result: Evaluation, refits: int | str
) -> Evaluation:
    """The evaluation with the mean difference to literal refits; or by folds if that is better."""
    task = foreign.task

    def losses_of(said: Any, rows: Any) -> Floats:
        return task.kind.losses(task.labels[rows], said)

    moved = left.doubt
    if moved is None and left.fitted is not None:
        moved = np.abs(result.losses - losses_of(left.fitted, slice(None)))
    work = DifferenceEstimator(foreign, result.losses, moved)
    if refits != "auto":
        if int(refits) >= len(task.units):
            for unit in range(len(task.units)):
                work.refit(unit)
        else:
            work.draw(int(refits))
        return _with(result, work.correction(losses_of), left)
    work.draw(FIRST)
    correction = work.correction(losses_of)
    if not correction.is_enough(result.stderr) and correction.promises(result.stderr):
        work.draw(MOST - FIRST)
        correction = work.correction(losses_of)
    if correction.is_enough(result.stderr):
        return _with(result, correction, left)
    folds = by_folds(foreign, f"the formula misses {correction.shift:+.2g} in {FIRST} refits")
    return _evaluation(foreign, folds, refits=folds.refits + correction.refits)


def _with(result: Evaluation, correction: Correction, left: LeftOut) -> Evaluation:
    """The evaluation with a correction of its error."""
    error = float(result.error + correction.shift)
    losses = result.losses + correction.shift
    if result.error > 0 and 1 / SCALED < error / result.error < SCALED:
        losses = result.losses * (error / result.error)
    predictions = np.array(result.predictions)
    predictions[correction.rows] = _with_shares(result, correction, left)
    right = 1 - losses if result.kind == DECISIONS else None
    refits = correction.refits
    return replace(
        result, losses=losses, predictions=predictions, right=right, refits=refits,
        pairs=result.pairs + correction.stderr**2,
        how=f"{left.how} and {refits} refit{'s' * (refits != 1)}",
        notes={**result.notes, "refits": correction.stderr},
    )  # fmt: skip


def _with_shares(result: Evaluation, correction: Correction, left: LeftOut) -> Any:
    """Predictions of refits; probabilities as if the shares of the classes had been kept.

    The formula says by which factor that changes each probability.
    """
    if result.kind == DECISIONS or left.kept is None:
        return correction.predictions  # such refits have kept the shares
    rows = correction.rows
    factors = left.kept[rows] / np.maximum(left.predictions[rows], LEAST)
    said = correction.predictions * factors
    return said / np.maximum(said.sum(1, keepdims=True), LEAST)
