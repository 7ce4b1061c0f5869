"""A paragraph for the methods and results of a paper, with the reference to cite."""

from __future__ import annotations

from typing import Any

from decoupled_descent.app.report.data import ReportData
from decoupled_descent.app.report.text import written_interval
from decoupled_descent.checks import counted

#: What to cite.
PAPER = (
    "M. Lovig. Decoupled Descent: Exact Test Error Tracking Via Approximate Message Passing. "
    "arXiv 2604.27883."
)


def methods(data: ReportData) -> dict[str, Any] | None:
    """What was done and found, in sentences to copy; None for numbers that nobody should quote."""
    if data.origin is None or not data.is_trusted or data.training.interrupted:
        return None
    target = data.title.rpartition(": ")[2]
    verdict = (data.diagnosis or {}).get("verdict", "not checked")
    done = [
        f"We predicted {target}{_distribution(data)} from {counted(data.n_features, 'feature')} "
        f"with decoupled-descent {data.origin.version} [1].",
        f"All {data.n_rows:,} rows were used for training, and none were held out.",
        "The model and its settings were chosen by the error of left-out rows among "
        f"{counted(len(data.training.candidates), 'candidate')}.",
        *_how(data),
    ]
    found = [*_found(data), f"The checks of the estimate gave the verdict “{verdict}”."]
    return {"paragraphs": [done, found], "reference": f"[1] {PAPER}"}


def _distribution(data: ReportData) -> str:
    """How often each of two classes occurs."""
    rows = data.rows
    if rows.classes is None or len(rows.classes) != 2 or not len(rows.labels):
        return ""
    name = str(rows.classes[rows.class_to_find])
    count = sum(str(label) == name for label in rows.labels)
    return f" (“{name}” in {count:,} of {len(rows.labels):,} rows)"


def _how(data: ReportData) -> list[str]:
    """How rows were predicted as if they were new."""
    over_time = data.analyses.over_time
    if over_time is not None:
        pieces = counted(len(over_time.pieces), "piece")
        return [
            f"Errors on later rows were estimated from {pieces} of the later half of the rows "
            f"(by {over_time.column}), each predicted by a model of all rows before it."
        ]
    left_out = "its group" if data.estimate.is_grouped else "it"
    sentences = [
        f"Errors on new rows were estimated by leave-one-out: each row was predicted by models "
        f"that were fitted without {left_out}, and the choice among candidates was allowed for."
    ]
    return [*sentences, *["Rows count by their weights."] * data.estimate.is_weighted]


def _found(data: ReportData) -> list[str]:
    """The estimates with their intervals, one sentence each."""
    estimate = data.estimate
    found = [(estimate.score_name, estimate.score_with_interval, data.has_classes)]
    found += [(estimate.loss_name, estimate.error_with_interval, False)]
    names = {name for name, _, _ in found}
    found += [
        (m.name, m.with_interval, m.is_share) for m in estimate.measures if m.name not in names
    ]
    where, sentences = "later" if data.analyses.over_time else "new", []
    for name, values, share in found:
        value, between = written_interval(values, percent=share)
        sentences.append(f"The {name} on {where} rows is {value}{between and f' ({between})'}.")
    return sentences
