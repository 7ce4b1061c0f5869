"""Checks that need a table and no run: leaks, rows with the same identifier, interruptions."""

from __future__ import annotations

import shlex
from typing import Any

from decoupled_descent.evaluation.checks.check import Check, Reading
from decoupled_descent.evaluation.checks.table import drop_options, leaks, listed, most_similar

#: The name of the check for leaks. It concerns the use of a model: the estimate is right.
LEAK = "column that leaks the target"
#: A column that alone explains this share of the target's variance is suspicious. On twenty real
#: tables the best column explained between 0 and 0.83 of it.
PERFECT = 0.95
#: Intraclass correlations of the target from which rows with the same identifier are reported. The
#: targets of a patient's rows are also similar because the columns are, which does no harm. On 30
#: simulated tables (40 patients of 6 rows) the log odds had a random part for each patient, of
#: standard deviation 0, 0.3, 0.6, 1, 2 and 4. The correlation was 0.13, 0.11, 0.15, 0.24, 0.41 and
#: 0.63 on average, and the error was too low by −0.6, −0.5, −0.1, 1.0, 3.3 and 7.3 standard errors.
SOME, MUCH = 0.2, 0.3


def _leaks(evidence: Any) -> Reading | None:
    """The largest share of the target's variance that one column explains."""
    columns = None if evidence.table is None else leaks(evidence.table, PERFECT)
    if columns is None:
        return None
    several, dropped = len(columns.names) > 1, drop_options(columns.names)
    words = {
        "columns": f"The column{'s' * several} {listed(columns.names)}",
        "predict": "each predict" if several else "alone predicts",
        "its": "their" if several else "its",
        "remedy": f"drop {'them' if several else 'it'}",
        "option": f"train with {dropped}",
    }
    if columns.may_be_group:
        group = "if it says which rows belong together (one patient, one thing), "
        unknown = "; if its values are not known before the target is, "
        option = f"--group {shlex.quote(columns.names[0])}"
        words["remedy"] = f"{group}pass it as groups{unknown}drop it"
        words["option"] = f"{group}train with {option}{unknown}with {dropped}"
    else:
        words |= {name: f"if so, {words[name]}" for name in ("remedy", "option")}
    return Reading(columns.largest, words)


def _identifiers(evidence: Any) -> Reading | None:
    """The intraclass correlation of the target among rows with the same identifier."""
    similar = most_similar(evidence.table)
    if similar is None:
        return None
    name, correlation = similar
    return Reading(correlation, {"name": name, "option": f"--group {shlex.quote(name)}"})


def _interruption(evidence: Any) -> Reading | None:
    """1 if training or the report was interrupted."""
    table = evidence.table
    if table.interrupted:
        reason = "Training was stopped before its end. Better models may not have been tried."
    elif table.missing:
        reason = f"The model is complete, but its report is not: {', '.join(table.missing)}."
    else:
        return None
    return Reading(1.0, {"reason": reason})


def _doubts(evidence: Any) -> Reading | None:
    """How many doubts there are whether this kind of model suits the table."""
    doubts = evidence.table.doubts
    return (
        Reading(len(doubts), {"doubts": " ".join(f"{one}." for one in doubts)}) if doubts else None
    )


LEAK_CHECK = Check(
    name=LEAK, measure=_leaks, caution=PERFECT,
    question="Does one column alone predict the target almost perfectly?",
    meaning="{columns} {predict} the target almost perfectly. If {its} values are not known before "
    "the target is, the model is useless for new rows.",
    definition="share of the target's variance that rows with the same or the next value explain",
    advice="{remedy}",
    command_advice="{option}",
)  # fmt: skip

TABLE_CHECKS = (
    LEAK_CHECK,
    Check(
        name="rows with the same identifier", measure=_identifiers, caution=SOME, alarm=MUCH,
        question="Do rows with the same identifier have similar targets?",
        meaning="Rows with the same {name!r} have similar targets. Every row was predicted from "
        "others with the same value. For new values the error may be higher.",
        definition="intraclass correlation of the target within the values of the column; 0 if the "
        "p-value of the F test is above 0.01",
        advice="pass {name!r} as groups, which leaves all rows of one value out together",
        command_advice="train with {option}, which leaves all rows of one value out together",
    ),
    Check(
        name="another kind of model", measure=_doubts, caution=1,
        question="Is this the right kind of model for the table?",
        meaning="{doubts}",
        definition="the number of doubts",
        advice="use the method that is named, or make sure that it is not needed",
    ),
    Check(
        name="interrupted", measure=_interruption, caution=1,
        question="Was the training or the report interrupted?",
        meaning="{reason}",
        definition="1 after Ctrl-C",
        advice="train again and let it finish",
    ),
)  # fmt: skip
