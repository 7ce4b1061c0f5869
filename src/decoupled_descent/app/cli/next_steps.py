"""What to do with a model that was just trained, in sentences."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from decoupled_descent.app.report import ReportData
from decoupled_descent.app.report.comparison import ONLY_PROBABILITIES, answers, usefulness
from decoupled_descent.app.report.data import ErrorsByRows
from decoupled_descent.app.report.headline import is_about_model
from decoupled_descent.app.report.learning import sentence


def next_steps(report: ReportData, data: Path, out: Path, time: str | None = None) -> list[str]:
    """Say what to do with the model: first whether to use it and its estimate, then how.

    ``time`` is a column of times that was not used to order the rows.
    """
    packed = data.suffix.lower() in (".gz", ".bz2")
    suffix = "".join(data.suffixes[-2:]) if packed else data.suffix or ".csv"
    predict = f"decoupled predict {shlex.quote(str(out))}"
    steps = (
        _to_check(report)
        + _after_comparison(report)
        + _after_verdict(report, f"{predict} those-rows{suffix}")
    )
    forecast = report.analyses.more_rows
    if isinstance(forecast, ErrorsByRows) and report.is_trusted:
        steps.append(sentence(forecast))
    if time is not None:
        steps.append(
            f"Will it predict rows that are later than those of the table? Then train with "
            f"`--time {shlex.quote(time)}`: the estimate is then for rows after the last one."
        )
    contenders = report.analyses.contenders
    if not contenders or usefulness(contenders)[0] != "alarm":
        steps.append(f"Predict new rows: `{predict} new{suffix} --out predictions.csv`")
    return steps


def _to_check(report: ReportData) -> list[str]:
    """What to check before all else: columns that may leak the target, and a few large errors."""
    diagnosis: Any = report.diagnosis
    steps = []
    for one in (diagnosis or {}).get("findings", ()):
        advice = str(one["advice"])
        if is_about_model(one):
            remedy = advice.removeprefix("if so, ")
            steps.append(f"{str(one['reason']).removesuffix('.')}: {remedy}.")
        elif one["status"] == "note" and advice.startswith("check row"):
            steps.append(f"First {advice.partition('; ')[0]}.")
    return steps


def _after_comparison(report: ReportData) -> list[str]:
    """What follows from the comparison with guessing and with a linear model."""
    contenders = report.analyses.contenders
    words = {one.question: one.word for one in answers(contenders)}
    steps = []
    if words.get("Better than guessing?") == "no":
        steps.append(
            f"Do not rely on it: {usefulness(contenders)[1]}. Add rows, or columns "
            "that are related to the target."
        )
    elif words.get("Better than guessing?") == ONLY_PROBABILITIES:
        steps.append(
            "Use the probabilities, not the predicted class: choose a threshold from the table of "
            "thresholds in the report."
        )
    comparable = not report.training.interrupted and report.is_trusted
    if words.get("Better than a linear model?") == "no" and comparable:
        steps.append("A linear model is better: train again with `--features linear`.")
    return steps


def _after_verdict(report: ReportData, check: str) -> list[str]:
    """What follows from the verdict; ``check`` is the command that computes the actual error."""
    diagnosis: Any = report.diagnosis
    worst = next((one for one in diagnosis["findings"] if one["status"] != "ok"), None)
    first = f"{worst['name']}: {worst['advice']}" if worst else ""
    advice = f"{first[:1].upper()}{first[1:]}."
    if diagnosis["verdict"] == "do not trust":
        return [
            f"Do not quote the estimate. {advice}",
            "If that is not possible, take some rows out of the table (all rows of some patients "
            "or days, if several rows belong together), train again, and compare: "
            f"`{check}` reports the actual error.",
        ]
    if diagnosis["verdict"] == "caution":
        return [f"Quote the estimate together with its caution. {advice}"]
    return []
