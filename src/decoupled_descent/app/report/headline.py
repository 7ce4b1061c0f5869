"""The top of the report: the result in a few sentences, and three cards with the numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from decoupled_descent.app.report.comparison import answers, is_trusted, usefulness
from decoupled_descent.app.report.data import ReportData, names_of
from decoupled_descent.app.report.text import (
    INTERVAL,
    badge,
    error_interval,
    number,
    prose,
    read,
    show,
    written_interval,
)
from decoupled_descent.checks import percent, share_interval

#: Findings that concern the model rather than the estimate, which is right.
FIRST = ("column that leaks the target",)
DOUBTFUL = "These answers rest on the same estimate, which is not to be trusted."
#: What follows for the comparison if the verdict is "do not trust".
UNKNOWN = "So it is not known either whether the model is better than guessing."
LIKE_LINEAR = {
    "yes": "It is better than a linear model.",
    "about as good": "A linear model is about as good.",
    "it is one": "It is a linear model.",
}


def headline(data: ReportData) -> str:
    """Write the result in a few sentences, the cards, and what they mean."""
    words = interruption(data)
    stopped = f'<p class="stopped">{words}</p>' if words else ""
    diagnosis = data.diagnosis or {"summary": "The data were not checked."}
    verdict = diagnosis.get("verdict")
    label = badge(verdict, str(verdict).capitalize()) if verdict else badge("Not checked")
    cards = [
        _goodness(data),
        *([_better(data)] if data.contenders else []),
        _card("Can this number be trusted?", label, "", prose(_summary(diagnosis, verdict))),
    ]
    short = "".join(f"<p>{prose(one)}</p>" for one in in_short(data))
    return (
        f'{stopped}<section class="short"><h2>In short</h2>{short}</section>'
        f'<div class="cards">{"".join(cards)}</div>{read(_meaning(data))}'
    )


def interruption(data: ReportData) -> str:
    """What Ctrl-C has left out, in a sentence or two; an empty text without it."""
    words = []
    if data.interrupted:
        words.append("Interrupted: training was not complete. These are the results so far.")
    elif data.missing:
        words.append("Interrupted: the model is complete, but this report is not.")
    if data.missing:
        words.append(f"Missing: {', '.join(data.missing)}.")
    return " ".join(words)


def in_short(data: ReportData) -> list[str]:
    """How good, better than what, and whether to believe it: one or two sentences each."""
    found = [_how_good(data), _better_than(data)]
    if data.mostly_missed:
        found.append(f"Mostly missed: {names_of(data.mostly_missed)}.")
    verdict = (data.diagnosis or {}).get("verdict")
    findings = (data.diagnosis or {}).get("findings", ())
    problems = [str(one["name"]) for one in findings if one["status"] in ("caution", "alarm")]
    found += [str(one["reason"]) for one in findings if one["name"] in FIRST]
    remarks = any(one["status"] == "note" for one in findings)
    untrusted = not is_trusted(data.diagnosis) and data.contenders
    unknown = f" {UNKNOWN}" * bool(untrusted and usefulness(data.contenders, False)[0] == "note")
    found.append({
        "trust": "These numbers can be trusted: no check found a "
        + ("serious problem." if remarks else "problem."),
        "caution": f"Use these numbers with caution ({', '.join(problems)}).",
        "do not trust": f"Do not trust these numbers ({', '.join(problems)}).{unknown}",
    }.get(str(verdict), ""))  # fmt: skip
    return [one for one in found if one]


def _how_good(data: ReportData) -> str:
    """The share of right answers, or the size of the errors, beside that of guessing."""
    where = "new rows" if data.corrected else "the training rows"
    if data.task == "classification":
        right = f"About {percent(data.estimated_score)} of {where} are predicted right."
        if not len(data.labels):
            return right
        counts = Counter(map(str, data.labels))
        name = min(counts, key=lambda one: (-counts[one], one))
        share = percent(counts[name], len(data.labels))
        return f"{right} Always answering “{name}” would be right in {share}."
    size = number(math.sqrt(max(0.0, data.estimated_error)), 3)
    half = _median_miss(data)
    said = f"Predictions of {where} miss by about {size} (root mean square)"
    said += f", and half of them by less than {half}." if half else "."
    if data.contenders:
        guess = data.contenders[-1]
        said += f" Guessing (“{guess.name}”) misses by about {number(math.sqrt(guess.error), 3)}."
    return said


def _median_miss(data: ReportData) -> str:
    """The median of the absolute errors, if there are rows."""
    labels = np.asarray(data.labels, dtype=float)
    miss = np.abs(labels - np.asarray(data.predictions, dtype=float))
    miss = miss[np.isfinite(miss)]
    return number(float(np.median(miss)), 3) if len(miss) else ""


def _better_than(data: ReportData) -> str:
    """The comparison with guessing and with a linear model, in a sentence."""
    if not data.contenders:
        return ""
    trusted = is_trusted(data.diagnosis)
    tone, words = usefulness(data.contenders, trusted)
    if tone == "note":  # the verdict, which comes next, gives the reason
        return ""
    linear = LIKE_LINEAR.get(answers(data.contenders)[1].word, "")
    rest = "Do not rely on it." if tone == "alarm" else linear
    return f"{words[:1].upper()}{words[1:]}. {rest}".rstrip()


def _summary(diagnosis: Mapping[str, Any], verdict: Any) -> str:
    """The summary as a sentence, without the verdict that stands above it."""
    text = str(diagnosis.get("summary") or "").removeprefix(f"{verdict}: ")
    text = text.replace("the train error", "it")
    return f"{text[:1].upper()}{text[1:]}".removesuffix(".") + "." if text else ""


def _goodness(data: ReportData) -> str:
    """The card with the accuracy, or with the typical error in the units of the target."""
    error = error_interval(data.estimated_error, data.estimated_error_stderr)
    where = "new rows" if data.corrected else "the training rows"
    scored = score_interval(data)
    if data.task == "classification":
        found = written_interval(scored, data.score_name == "accuracy")
        written, between = written_interval(error)
        explained = "It measures the probabilities: 0 is perfect, and lower is better."
        name = f"Right on {where} ({show(data.score_name)})"
    else:
        found = written_interval(tuple(map(math.sqrt, error)))
        written, between = written_interval(scored)
        explained = "1 is perfect, 0 is no better than always predicting the mean."
        name = f"Typical error on {where} (RMSE)"
    other = show(data.loss_name if data.task == "classification" else data.score_name)
    between = between.removeprefix(f"{INTERVAL} ")
    details = f"{other[:1].upper()}{other[1:]}: {written} ({between}). {explained}"
    if is_trusted(data.diagnosis):
        return _card(name, *found, details)
    value = f'<span class="doubtful">{found[0]}</span>'
    return _card(name, value, found[1], f"<strong>Do not quote this number.</strong> {details}")


def _better(data: ReportData) -> str:
    """The card with the comparison; without colours if the numbers cannot be trusted."""
    trusted = is_trusted(data.diagnosis)
    lines = "".join(
        f"<p>{show(one.question)} {badge(one.tone if trusted else 'note', one.word)}<br>"
        f"{show(one.reason)}</p>"
        for one in answers(data.contenders)
    )
    if not trusted:
        lines += f"<p>{DOUBTFUL}</p>"
    return f'<div class="card better"><h3>Is it any good?</h3>{lines}</div>'


def _card(name: str, value: str, between: str, explanation: str) -> str:
    line = f'<p class="interval">{between}</p>' if between else ""
    return (
        f'<div class="card"><h3>{name}</h3><p class="value">{value}</p>{line}'
        f"<p>{explanation}</p></div>"
    )


def _meaning(data: ReportData) -> str:
    if not data.corrected:
        return (
            "These numbers do not estimate the error on new rows. With this method every row is "
            "predicted by a model that was fitted to it. The errors here are therefore usually too "
            "low, and the interval does not show by how much."
        )
    return (
        "How this is known without a test set: training removes the influence of each row on its "
        "own prediction, so every row is predicted as if it were new. The interval accounts for "
        f"the random choice of these {data.n_rows:,} rows. It does not account for changes of the "
        "data in the future."
    )


def score_interval(data: ReportData) -> tuple[float, ...]:
    """Return the score and its 95 % interval, or the score alone if there is no interval."""
    score, stderr = data.estimated_score, data.estimated_score_stderr
    if data.score_name != "accuracy":
        return r2_interval(score, stderr)
    return (score,) if stderr is None else (score, *share_interval(score, stderr))


def r2_interval(score: float, stderr: float | None) -> tuple[float, ...]:
    """Return R² and its 95 % interval, from that of the error 1 − R²."""
    value, *ends = (1 - end for end in error_interval(1 - score, stderr))
    return value, *reversed(ends)
