"""Checks of an evaluation: of its rows and labels, and of what its training measured.

The notes are numbers that a training measured, by name. A check without its note does not apply.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from decoupled_descent.checks import percent
from decoupled_descent.evaluation.checks.check import Check, Finding, Reading

if TYPE_CHECKING:
    from decoupled_descent.evaluation.evaluation import Evaluation

#: A fall in the last tenth of the steps, in standard errors, that says: not trained yet.
FALLING = 0.5
#: What to report if a few rows dominate the error, for numbers and for classes.
REMEDIES = (
    "report the median absolute error as well, or predict the logarithm of a skewed target",
    "report the accuracy, or a bounded loss, as well",
)
#: Copies of rows err alike if the mean cosine of their slopes is above this.
ALIKE = 0.5
#: Losses of a model on its own rows above those of the folds, in stderrs: small networks that stop
#: early on a tenth of 100 rows have up to 3.8 in 26 fits.
WORSE = 4


def rows_behind(values: Any) -> float:
    r"""The effective number of rows behind the variance of the losses: (Σδ²)²/Σδ⁴.

    Example:
        >>> rows_behind(np.array([0.0, 0.0, 0.0, 8.0])) < 2
        True
    """
    squares = np.square(np.asarray(values, np.float64) - np.mean(values))
    largest = float(squares.max(initial=0.0))
    if not 0 < largest < math.inf:
        return float(len(squares))
    squares = squares / largest
    return float(squares.sum() ** 2 / np.square(squares).sum())


def _few(e: Evaluation) -> Reading:
    """How uncertain the standard error is, as for the squares of normal errors.

    The variance of N losses of kurtosis κ is known to a share √((κ − 1)/N), its root to half of
    it. Squared normal errors have κ = 15, sums of K of them 3 + 12/K. Log losses of classes are
    treated like the first: rare large ones have tails of that size.
    """
    outputs = 1 if e.kind.has_classes or np.ndim(e.labels) == 1 else np.shape(e.labels)[1]
    share = 0.5 * math.sqrt((2 + 12 / outputs) / e.count)
    unit = "rows" if e.groups is None else "groups"
    equal = "" if e.weights is None else " (counted as rows of equal weight)"
    return Reading(share, {"count": round(e.count), "rows": unit + equal})


def _one_label(e: Evaluation) -> float:
    """Whether all labels are the same; numbers, up to their rounding."""
    labels = np.asarray(e.labels).reshape(len(e.labels), -1)
    rounding = 0.0 if e.kind.has_classes else 4 * np.finfo(float).eps * np.abs(labels).max(0)
    return float((np.ptp(labels, axis=0) <= rounding).all())


def _noted(name: str) -> Any:
    """A number that the training measured."""
    return lambda e: e.notes.get(name)


def _in_stderrs(name: str) -> Any:
    """A number that the training measured, in standard errors of the error."""

    def measure(e: Evaluation) -> Reading | None:
        value = e.notes.get(name)
        if value is None:
            return None
        share = value / max(e.stderr, 1e-300)
        words = {"value": f"{value:.2g}", "lost": round(e.notes.get("lost", 0.0))}
        return Reading(share if math.isfinite(share) else math.inf, words)

    return measure


def _start(e: Evaluation) -> Reading | None:
    """How probable so good a start is, if it does not know the labels."""
    level = e.notes.get("start_level")
    if level is None:
        return None
    return Reading(level, most="note" if e.notes.get("independent_start") else "alarm")


def _at_start(e: Evaluation) -> float | None:
    step = e.notes.get("best_step")
    return None if step is None else float(step == 0)


def _behind(e: Evaluation) -> Reading:
    """The effective number of rows behind the variance of the losses."""
    return Reading(rows_behind(e.values), {"remedy": REMEDIES[e.kind.has_classes]})


def _copies(e: Evaluation) -> Reading | None:
    """The share of rows with a copy, if copies err alike; real tables have up to 9 %."""
    share = e.notes.get("copies")
    if share is None:
        return None
    alike = e.notes.get("alike", 0.0) > ALIKE
    return Reading(share * alike, {"share": percent(share, decimals=0)})


def _similar(e: Evaluation) -> Reading | None:
    """The rise without unusually similar rows, in standard errors of the error."""
    rise = e.notes.get("rise_without_similar")
    if rise is None:
        return None
    share = percent(e.notes.get("similar", 0.0), decimals=0)
    return Reading(rise / max(e.stderr, 1e-300), {"share": share})


SIMILAR_ROWS = Check(
    name="unusually similar rows", measure=_similar, caution=1,
    question="Do similar rows anywhere in the table belong together (one patient, one thing)?",
    meaning="{share} of the rows have unusually similar rows somewhere in the table, and "
    "are predicted much worse without them. If these are rows of one patient or thing, the "
    "estimate holds for the same patients only.",
    definition="rise of the error if unusually similar rows are left out together instead of "
    "as many of the next neighbours, in standard errors of the estimate; 0 if the rise is "
    "below three of its standard errors",
    advice="remove copies of rows; if they belong together, pass groups=",
    command_advice="if they belong together (one patient, one thing), train with --group and "
    "the column that says so",
)  # fmt: skip

OF_EVALUATIONS = (
    Check(
        name="known labels", measure=_start, note=0.001, alarm=0.001, below=True,
        question="Is the start of the training independent of these labels?",
        meaning="The weights that you passed already predict these labels, before any step. Rows "
        "that they were trained on before cannot be left out any more.",
        definition="the p-value of a permutation test: the last layer predicts the labels better "
        "than with its weights in other orders. For a new last layer the level is exact",
        advice="make the model anew (or call reset_parameters() on its layers) before training; if "
        "its weights come from other rows only, pass independent_start=True",
    ),
    Check(
        name="no step better than the start", measure=_at_start, caution=0.5,
        question="Did training lower the error?",
        meaning="No step had a lower error than the start, so the model is the one that you "
        "passed.",
        advice="use a smaller learning rate or more steps; if the model was trained before, make "
        "it anew",
    ),
    Check(
        name="origin of the predictions", measure=_noted("unknown_origin"), caution=0.5,
        question="Had no model seen the rows that it predicts?",
        meaning="Nothing in the predictions shows that they were made without their rows. If the "
        "models had seen them, the error is too low.",
        advice="if the predictions are out of fold, or of models of other rows, pass "
        "out_of_fold=True",
        command_advice="if the predictions are out of fold, or of models of other rows, pass "
        "--out-of-fold",
    ),
    Check(
        name="predictions of training rows", measure=_noted("in_sample"), alarm=0.5,
        question="Do the predictions show that the model was fitted to these rows?",
        meaning="The model was fitted to these labels: the predictions repeat them, or their "
        "errors are orthogonal to all columns, as only those of training rows are.",
        advice="predict every row by a model that was fitted without it, for example with "
        "sklearn.model_selection.cross_val_predict",
    ),
    Check(
        name="rows of the fit", measure=_noted("worse_than_folds"), caution=WORSE,
        question="Was the model fitted to these rows?",
        meaning="The model predicts these rows worse than models that were not fitted to them. It "
        "was fitted to other rows, to other labels, or its training failed.",
        definition="the mean difference of the losses from those of the folds, in standard errors",
        advice="pass X and y as in the fit, in the same order",
    ),
    Check(
        name="price of the choice", measure=_noted("unpriced"), caution=0.5,
        question="Is the choice of the search in the error?",
        meaning="There was no time to repeat the search without some rows. The error is that of "
        "the chosen model as if nothing had been chosen, so it is too low.",
        advice="pass a larger time_limit= to repeat the search in folds",
    ),
    Check(
        name="few rows", measure=_few, caution=0.3, alarm=0.5,
        question="Are there enough rows to know how uncertain the error is?",
        meaning="{count} {rows} say little about the error on new rows, and little about how "
        "uncertain this error is: the interval is often too narrow.",
        definition="relative error of the standard error for {count} normal errors. On drawn "
        "tables the intervals covered the truth in 43 to 68 % of the cases above 0.5, in 75 % "
        "between 0.3 and 0.5, in 87 % just below 0.3 and in 95 % at 0.24",
        advice="get more rows; until then, treat the error as a guess",
    ),
    Check(
        name="one label", measure=_one_label, alarm=0.5,
        question="Do the rows have different labels?",
        meaning="All rows have the same label. A model that always says it has no error on them, "
        "and nothing is known about rows with another label.",
        advice="collect rows with every label that the model has to tell apart; subtract a large "
        "constant from numbers that differ by less than they are rounded",
    ),
    Check(
        name="rows behind the error", measure=_behind,
        note=20, below=True,
        question="Do many rows make up the error, or only a few?",
        meaning="The estimate depends on few rows with large losses, so its standard error is "
        "itself uncertain.",
        definition="m = (Σδ²)²/Σδ⁴ with δ = loss − mean; the standard error is known to 1/(2√m)",
        advice="{remedy}",
    ),
    Check(
        name="divergence", measure=_noted("diverged"), caution=0.5,
        question="Did all numbers stay finite in training?",
        meaning="Training ended because its error was no longer finite; the best step was kept.",
        advice="use a smaller learning rate, or a smaller damping",
    ),
    Check(
        name="interruption", measure=_noted("interrupted"), caution=0.5,
        question="Was training ended by the user?",
        meaning="Training was interrupted. The estimate holds for the model that was reached, "
        "which is not the one that would have been trained.",
        advice="train again without interrupting",
    ),
    Check(
        name="not converged", measure=_noted("still_falling"), caution=FALLING,
        question="Had the error stopped falling when training ended?",
        meaning="The error was still falling when all steps were made. The estimate holds for "
        "this model, but the model is not trained yet.",
        definition="the fall of the train error in the last tenth of the steps, in standard errors",
        advice="allow more steps",
    ),
    Check(
        name="linearisation", measure=_in_stderrs("linearisation"), caution=0.5, alarm=2,
        question="Is the training without each row followed precisely?",
        meaning="The runs without single rows are followed with an error of {value} ({lost} rows "
        "are lost).",
        definition="the measured error of the linearisation, in standard errors. The limits were "
        "set on nine tables, so that right estimates are trusted",
        advice="use a smaller rate, a larger ridge, or CrossFit",
    ),
    Check(
        name="formula", measure=_in_stderrs("refits"), caution=0.5, alarm=1,
        question="Do literal refits agree with the formula that left each row out?",
        meaning="The rows that were left out by refitting the model differ from the formula, and "
        "they are too few to say by how much.",
        definition="the standard error of the mean difference to the refits, in standard errors of "
        "the estimate, in which it is included",
        advice="allow more refits, or refits='auto'",
    ),
    Check(
        name="fewer rows in folds", measure=_in_stderrs("sample_size_bias"), caution=0.7,
        question="Do the models of the folds see about as many rows as the final model?",
        meaning="The models of the folds see fewer rows, so the error is expected to be {value} "
        "too high.",
        definition="the expected excess of the error, in standard errors, in which it is included; "
        "at 0.7 it is as large as the sampling error",
        advice="use more folds",
    ),
    Check(
        name="copies of rows", measure=_copies, caution=0.1, alarm=0.3,
        question="Do rows occur twice?",
        meaning="{share} of the rows have a copy that is not left out with them, with the same "
        "label.",
        definition="the share of rows with a copy, if copies err alike; real tables have up to 9 %",
        advice="remove the copies, or pass groups=",
    ),
    SIMILAR_ROWS,
    Check(
        name="nearest rows", measure=_in_stderrs("rise"), caution=0.45, alarm=1,
        question="Do several rows belong to the same patient, day or device?",
        meaning="The error rises by {value} if the nearest row of each row is left out, too, which "
        "other neighbours do not explain. Several rows may belong together.",
        definition="the rise in standard errors; at most 0.3 for independent rows of the tables on "
        "which the limit was set",
        advice="if several rows belong to one patient, day or device, pass groups=",
    ),
    Check(
        name="nearest rows in other folds", measure=_in_stderrs("rise_in_folds"),
        caution=1.3, alarm=2,
        question="Do rows of different folds belong to the same patient, day or device?",
        meaning="The nearest row of each row helps to predict it, by about {value} of the error, "
        "which other neighbours do not explain. Several rows may belong together, in different "
        "folds.",
        definition="the expected rise in standard errors, to first order in the last layer. For "
        "rows of 80 and 120 speakers it was 2.1 to 6.2, for independent rows at most 1.1 (while "
        "the network had not learned much) and 0.5 (later)",
        advice="if several rows belong to one patient, day or device, pass groups=",
    ),
)  # fmt: skip


def findings_of(evaluation: Evaluation) -> list[Finding]:
    """What the checks find."""
    found = (check.evaluate(evaluation) for check in OF_EVALUATIONS)
    return [one[0] for one in found if one is not None]
