"""The error of the model, compared with those of guessing and of a linear model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from decoupled_descent.app.report.data import Contender, ReportData
from decoupled_descent.app.report.tables import Column, Table, numbers
from decoupled_descent.app.report.text import together
from decoupled_descent.checks import Z95, percent

#: The answer if the probabilities are better than guessing, but the most probable classes are not.
ONLY_PROBABILITIES = "only its probabilities"
#: Nobody would choose another model for a smaller share of the error, however certain it is.
NEGLIGIBLE = 0.01


class Answer(NamedTuple):
    """The answer to "better than …?" in words, and the tone of its badge."""

    question: str
    word: str
    tone: str
    reason: str


def answers(contenders: Sequence[Contender]) -> list[Answer]:
    """Compare the model, which comes first, with the linear model and with guessing."""
    if not contenders:
        return []
    model, linear, guess = contenders
    given = []
    for other, name in ((guess, "guessing"), (linear, "a linear model")):
        classes = model.median_error is None
        margin = Z95 * other.gain_stderr
        unclear = not other.is_beaten and other.gain >= -margin
        against = _reason(model, other)
        if other is linear and other.gain == margin == 0:
            word, tone, against = "it is one", "note", "no other kind of model was tried"
        elif other is linear and (
            abs(other.gain) <= margin or abs(other.gain) < NEGLIGIBLE * other.loss
        ):
            word, tone = "about as good", "note"
        elif other.is_beaten:
            word, tone = "yes", "ok"
            if other.area:
                area, low, high = together(other.area, 0.01)
                against = f"its AUC is {area} ({low} to {high}); {against}"
        else:
            word, tone = "no", "alarm" if other is guess else "caution"
            against = _reason(model, other, ", which is not significant" * unclear)
        if other is guess and classes and word == "yes" and model.score <= other.score:
            word, tone = ONLY_PROBABILITIES, "caution"
        given.append(Answer(f"Better than {name}?", word, tone, against))
    return given


def _reason(model: Contender, other: Contender, remark: str = "") -> str:
    """Compare two errors in words: by accuracy, or in the units of the target."""
    ratio = (other.loss - other.gain) / other.loss if other.loss > 0 else 1.0
    squared = model.median_error is not None and model.is_root
    ratio = math.sqrt(max(0.0, ratio)) if squared else ratio
    change = f"{percent(abs(1 - ratio))} {'lower' if ratio < 1 else 'higher'}"
    against = f"its {other.measure} is {'the same' if abs(1 - ratio) < 0.0005 else change}{remark}"
    if model.median_error is not None:
        return f"against “{other.name}”, {against}"
    rule = "" if model.is_usual else " by the more probable class"
    right = f"{percent(model.score)} right{rule}, against {percent(other.score)} for “{other.name}”"
    if (other.gain > 0) != (model.score >= other.score):  # the loss decides, so it comes first
        return f"{against}, although {right}" if other.gain > 0 else f"{against}; {right}"
    return f"{right}; {against}"


def usefulness(contenders: Sequence[Contender], trusted: bool = True) -> tuple[str, str]:
    """Say whether the model is better than simpler ones, with a tone: the rest of the verdict.

    The comparison uses the estimate. If that is not ``trusted``, a good result is not either.
    """
    guess, linear = (one.word for one in answers(contenders))
    if guess == "no":
        chance = "significantly " if contenders[-1].gain > 0 else ""
        return "alarm", f"the model is not {chance}better than guessing"
    if not trusted:
        return "note", "so it is not known whether the model is better than guessing"
    if guess == ONLY_PROBABILITIES:
        return "caution", "only its probabilities are better than guessing"
    if linear == "no":
        return "caution", "the model is better than guessing, but a linear model is better still"
    return "ok", "the model is better than guessing"


def comparison(data: ReportData) -> dict[str, Any] | None:
    """The table of the model, the linear model and the guess."""
    contenders = data.analyses.contenders
    if not contenders:
        return None
    sizes = [data.shown(one.error) for one in contenders]
    errors = together(sizes, 0.05 * max(sizes))
    if data.has_classes:
        header = numbers("right", data.estimate.loss_name)
        cells = [[percent(one.score) for one in contenders], errors]
    else:
        name = "typical error (RMSE)" if data.task.roots else data.error_name
        header = numbers(name, "median absolute error", "R²")
        medians = [one.median_error or 0.0 for one in contenders]
        scores = [f"{one.score:.3f}".replace("-", "−") for one in contenders]
        cells = [errors, together(medians, 0.05 * max(medians)), scores]
    names = [one.name for one in contenders]
    table = Table([Column(""), *header], list(zip(names, *cells, strict=True)))
    return {"table": table, "is_usual": contenders[0].is_usual}
