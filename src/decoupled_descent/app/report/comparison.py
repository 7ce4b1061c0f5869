"""The error of the model, compared with those of guessing and of a linear model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from decoupled_descent.app.report.data import Contender, ReportData
from decoupled_descent.app.report.text import read, show, table, together
from decoupled_descent.checks import Z95, percent

#: The answer if the probabilities are better than guessing, but the most probable classes are not.
ONLY_PROBABILITIES = "only its probabilities"
#: Nobody would choose another model for a smaller share of the error, however certain it is.
NEGLIGIBLE = 0.01


def is_trusted(diagnosis: Mapping[str, Any] | None) -> bool:
    """Whether the verdict is not "do not trust"."""
    return (diagnosis or {}).get("verdict") != "do not trust"


class Answer(NamedTuple):
    """The answer to "better than …?" in words, and the tone of its badge."""

    question: str
    word: str
    tone: str
    reason: str


def answers(contenders: Sequence[Contender]) -> list[Answer]:
    """Compare the model, which comes first, with the others by paired tests at the 95 % level."""
    if not contenders:
        return []
    model, linear, guess = contenders
    found = []
    for other, name in ((guess, "guessing"), (linear, "a linear model")):
        classes = model.half is None
        against = _reason(model, other)
        sure = Z95 * other.gain_stderr
        if other is linear and other.gain == sure == 0:
            word, tone, against = "it is one", "note", "no other kind of model was tried"
        elif other is linear and (
            abs(other.gain) <= sure or abs(other.gain) < NEGLIGIBLE * other.loss
        ):
            word, tone = "about as good", "note"
        elif other.gain > sure:
            word, tone = "yes", "ok"
        else:
            word, tone = "no", "alarm" if other is guess else "caution"
            against += "" if other.gain < -sure else ", which is not significant"
        if other is guess and classes and word == "yes" and model.score <= other.score:
            word, tone = ONLY_PROBABILITIES, "caution"
        found.append(Answer(f"Better than {name}?", word, tone, against))
    return found


def _reason(model: Contender, other: Contender) -> str:
    """Compare two errors in words: by accuracy, or in the units of the target."""
    ratio = (other.loss - other.gain) / other.loss if other.loss > 0 else 1.0
    ratio = ratio if model.half is None else math.sqrt(max(0.0, ratio))
    change = f"{percent(abs(1 - ratio))} {'lower' if ratio < 1 else 'higher'}"
    against = f"its {other.measure} is {'the same' if abs(1 - ratio) < 0.0005 else change}"
    if model.half is not None:
        return f"against “{other.name}”, {against}"
    right = f"{percent(model.score)} right, against {percent(other.score)} for “{other.name}”"
    return f"{right}; {against}"


def usefulness(contenders: Sequence[Contender], trusted: bool = True) -> tuple[str, str]:
    """The second half of the verdict: a tone, and whether the model is better than simpler ones.

    The comparison rests on the estimate. If that is not ``trusted``, a good result is not either.
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


def comparison(data: ReportData) -> str:
    """Write the table of the model, the linear model and the guess."""
    contenders = data.contenders
    if not contenders:
        return ""
    classes = contenders[0].half is None
    header = ["", "right" if classes else "typical error (RMSE)"]
    header += [show(data.loss_name)] if classes else ["median absolute error", "R²"]
    sizes = [one.error if classes else math.sqrt(max(0.0, one.error)) for one in contenders]
    columns = [together(sizes, 0.05 * max(sizes))]
    if classes:
        columns.insert(0, [percent(one.score) for one in contenders])
    else:
        halves = [one.half or 0.0 for one in contenders]
        columns.append(together(halves, 0.05 * max(halves)))
        columns.append([f"{one.score:.3f}".replace("-", "−") for one in contenders])
    names = [show(one.name) for one in contenders]
    rows = [list(cells) for cells in zip(names, *columns, strict=True)]
    right = range(1, len(header))
    return table(header, rows, "The model and simpler ones", "compare", list(right)) + read(
        "How to read it: all three have out-of-sample errors on the same rows. A model that is not "
        "better than the last line has learnt nothing useful. A model that is not better than the "
        "linear model can be replaced by it. The error at the top of the page can be larger than "
        "the one in this table, because it allows for the choice among several models."
    )
