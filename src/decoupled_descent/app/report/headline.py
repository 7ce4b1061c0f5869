"""The top of the report: the result in a few sentences, and three cards with the numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from decoupled_descent.app.report.comparison import answers, usefulness
from decoupled_descent.app.report.data import ReportData, names_of
from decoupled_descent.app.report.text import INTERVAL, number, roots, written_interval
from decoupled_descent.checks import percent
from decoupled_descent.evaluation.checks.table_checks import LEAK

#: What follows for the comparison if the verdict is "do not trust".
UNKNOWN = "So it is not known either whether the model is better than guessing."
LIKE_LINEAR = {
    "yes": "It is better than a linear model.",
    "about as good": "A linear model is about as good.",
    "it is one": "It is a linear model.",
}


#: The name of the error that half of the rows are below.
MEDIAN = "median absolute error"


class Card(NamedTuple):
    """A number with its interval and an explanation."""

    name: str
    value: str
    interval: str
    details: str


def headline(data: ReportData) -> dict[str, Any]:
    """The result in a few sentences, and what the cards show."""
    diagnosis = data.diagnosis or {"summary": "The data were not checked."}
    verdict = diagnosis.get("verdict")
    return {
        "interruption": interruption(data),
        "sentences": in_short(data),
        "estimate": _estimate_card(data),
        "answers": answers(data.analyses.contenders),
        "is_trusted": data.is_trusted,
        "verdict": verdict,
        "verdict_name": str(verdict).capitalize() if verdict else "Not checked",
        "summary": _summary(diagnosis, verdict),
        "rows": f"{data.n_rows:,}",
        "is_for_later": data.analyses.over_time is not None,
    }


def interruption(data: ReportData) -> str:
    """What Ctrl-C has left out, in a sentence or two; an empty text without it."""
    words, missing = [], data.analyses.missing
    if data.training.interrupted:
        words.append("Interrupted: training was not complete. These are the results so far.")
    elif missing:
        words.append("Interrupted: the model is complete, but this report is not.")
    if missing:
        words.append(f"Missing: {', '.join(missing)}.")
    return " ".join(words)


def in_short(data: ReportData) -> list[str]:
    """How good, better than what, and whether to believe it: one or two sentences each.

    Numbers that are not trusted are not repeated in a sentence.
    """
    findings = (data.diagnosis or {}).get("findings", ())
    about_model = [str(one["reason"]) for one in findings if is_about_model(one)]
    verdict = _trust(data, findings)
    if not data.is_trusted:
        return [one for one in (verdict, _better_than(data), *about_model) if one]
    sentences = [_how_good(data), _better_than(data)]
    if data.rows.mostly_missed:
        sentences.append(f"Mostly missed: {names_of(data.rows.mostly_missed)}.")
    return [one for one in (*sentences, *about_model, verdict) if one]


def is_about_model(finding: Mapping[str, Any]) -> bool:
    """Whether a finding that is not ok concerns the use of the model, not the estimate."""
    return bool(finding["name"] == LEAK and finding["status"] != "ok")


def _trust(data: ReportData, findings: Sequence[Mapping[str, Any]]) -> str:
    """The verdict in a sentence, with the names of the checks behind it."""
    problems = [str(one["name"]) for one in findings if one["status"] in ("caution", "alarm")]
    remarks = any(one["status"] == "note" for one in findings)
    contenders = data.analyses.contenders
    untrusted = not data.is_trusted and contenders
    unknown = f" {UNKNOWN}" * bool(untrusted and usefulness(contenders, False)[0] == "note")
    return {
        "trust": "These numbers can be trusted: no check found a "
        + ("serious problem." if remarks else "problem."),
        "caution": f"Use these numbers with caution ({', '.join(problems)}).",
        "do not trust": f"Do not trust these numbers ({', '.join(problems)}).{unknown}",
    }.get(str((data.diagnosis or {}).get("verdict")), "")


def _where(data: ReportData) -> str:
    """The rows that the estimates are for."""
    return "rows after the last one" if data.analyses.over_time else "new rows"


def _how_good(data: ReportData) -> str:
    """The share of right answers, or the size of the errors, beside that of guessing."""
    where = _where(data)
    if data.has_classes:
        right = f"About {percent(data.estimate.score)} of {where} are predicted right."
        if not len(data.rows.labels):
            return right
        if data.analyses.contenders:
            guess = data.analyses.contenders[-1]
            name, share = guess.name.removeprefix("always "), percent(guess.score)
        else:
            counts = Counter(map(str, data.rows.labels))
            name = min(counts, key=lambda one: (-counts[one], one))
            share = percent(counts[name], len(data.rows.labels))
        return f"{right} Always answering “{name}” would be right in {share}."
    size = number(data.shown(data.estimate.error), 3)
    median, roots = _median_error(data), data.task.roots
    miss = f"miss by about {size} (root mean square)" if roots else f"miss by a {data.error_name} "
    sentence = f"Predictions of {where} {miss}{'' if roots else f'of about {size}'}"
    sentence += f", and half of them by less than {median}." if median else "."
    if data.analyses.contenders:
        guess = data.analyses.contenders[-1]
        error = number(data.shown(guess.error), 3)
        sentence += f" Guessing (“{guess.name}”) misses by about {error}."
    return sentence


def _median_error(data: ReportData) -> str:
    """The median of the absolute errors, if there are rows."""
    labels = np.asarray(data.rows.labels, dtype=float)
    errors = np.abs(labels - np.asarray(data.rows.predictions, dtype=float))
    errors = errors[np.isfinite(errors)]
    return number(float(np.median(errors)), 3) if len(errors) else ""


def _better_than(data: ReportData) -> str:
    """The comparison with guessing and with a linear model, in a sentence."""
    contenders = data.analyses.contenders
    if not contenders:
        return ""
    tone, words = usefulness(contenders, data.is_trusted)
    if tone == "note":  # the verdict, which comes next, gives the reason
        return ""
    linear = LIKE_LINEAR.get(answers(contenders)[1].word, "")
    rest = "Do not rely on it." if tone == "alarm" else linear
    return f"{words[:1].upper()}{words[1:]}. {rest}".rstrip()


def _summary(diagnosis: Mapping[str, Any], verdict: Any) -> str:
    """The summary as a sentence, without the verdict that stands above it."""
    text = str(diagnosis.get("summary") or "").removeprefix(f"{verdict}: ")
    text = text.replace("the train error", "it")
    return f"{text[:1].upper()}{text[1:]}".removesuffix(".") + "." if text else ""


def _estimate_card(data: ReportData) -> Card:
    """The card with the accuracy, or with the typical error in the units of the target."""
    estimate = data.estimate
    error, score = estimate.error_with_interval, estimate.score_with_interval
    where = _where(data)
    if data.has_classes:
        shown = written_interval(score, estimate.score_name == "accuracy")
        written, between = written_interval(error)
        explained = "It measures the probabilities: 0 is perfect, and lower is better."
        name, other = f"Right on {where} ({estimate.score_name})", estimate.loss_name
    else:
        rmse = None if data.task.roots else data.estimate.measure("RMSE")
        shown = written_interval(roots(error) if rmse is None else rmse.with_interval)
        written, between = written_interval(score)
        explained = "1 is perfect, 0 is no better than always predicting the mean."
        name, other = f"Typical error on {where} (RMSE)", estimate.score_name
    between = between.removeprefix(f"{INTERVAL} ")
    details = f"{_median_details(data)}{other[:1].upper()}{other[1:]}: {written} ({between}). "
    details += explained
    return Card(name, *shown, details)


def _median_details(data: ReportData) -> str:
    """The median absolute error with its interval, in a sentence."""
    result = data.estimate.measure(MEDIAN)
    if result is None:
        return ""
    value, between = written_interval(result.with_interval)
    between = between.removeprefix(f"{INTERVAL} ")
    return f"Half of the rows are missed by less than {value} ({between}). "
