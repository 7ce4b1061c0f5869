"""What a check is: one object with its measure, its limits, its words and its effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from torch import Tensor

from decoupled_descent.descent.common import Descent
from decoupled_descent.diagnostics import measures
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.training.run import Run
from decoupled_descent.validation.sweep import Sweep

#: From harmless to serious. A note is shown and never changes the verdict.
STATUSES = ("ok", "note", "caution", "alarm")


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        name: Of the check.
        value: The number measured.
        threshold: From where on it is a note, a caution or an alarm, in words.
        status: ``"ok"``, ``"note"``, ``"caution"`` or ``"alarm"``; only the last two change the
            verdict.
        reason: What the number means, in plain words.
        advice: What to do about it.
        definition: What exactly the number is, for experts.
        widening: The factor by which it widens the interval.
    """

    name: str
    value: float
    threshold: str
    status: str
    reason: str
    advice: str
    definition: str = ""
    widening: float = 1.0


@dataclass(frozen=True)
class Evidence:
    """What checks may look at: the rows, their classes, the algorithm and perhaps a run.

    ``groups`` are classes, or groups of similar response where ``classes`` is False.
    """

    rows: Rows
    groups: Tensor
    classes: bool
    algorithm: Descent
    run: Run | None = None
    sweep: Sweep | None = None

    @cached_property
    def seen(self) -> measures.Seen:
        """The run at its best step."""
        assert self.run is not None
        return measures.look(self.run, self.rows)


class Reading(NamedTuple):
    """A number, words to fill in, and the worst status it may get in this case, with the reason."""

    value: float
    words: Mapping[str, Any] = {}
    most: str = "alarm"
    excuse: str = ""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One question to the data or to a run.

    Attributes:
        measure: Returns the number, or None where the question makes no sense.
        meaning: What the number means, in plain words.
        definition: What exactly the number is and where its limits come from, for experts.
        advice: What to do about it.
        note: From here on the finding is a note; and so on. None where there is no such limit.
        below: Whether small numbers are the bad ones.
        concerns: Asked only of algorithms with one of these assumptions; of all if empty.
        needs_run: Whether it is asked only after training.
        widening: The factor by which the interval is widened, given the number.
    """

    name: str
    measure: Callable[[Evidence], Reading | float | None]
    meaning: str
    advice: str
    definition: str = ""
    note: float | None = None
    caution: float | None = None
    alarm: float | None = None
    below: bool = False
    concerns: frozenset[str] = frozenset()
    needs_run: bool = False
    widening: Callable[[float], float] = lambda _: 1.0

    def judge(self, evidence: Evidence) -> tuple[Finding, tuple[int, float]] | None:
        """Return the finding and its gravity, by which findings are sorted; None if not asked."""
        foreign = self.concerns and not self.concerns & evidence.algorithm.assumptions()
        found = None if foreign or (self.needs_run and not evidence.run) else self.measure(evidence)
        if found is None:
            return None
        reading = found if isinstance(found, Reading) else Reading(found)
        value, words = float(reading.value), reading.words
        allowed = STATUSES[1 : STATUSES.index(reading.most) + 1]
        limits = {status: limit for status in STATUSES[1:] if (limit := getattr(self, status))}
        passed = [s for s in limits if (value < limits[s] if self.below else value >= limits[s])]
        status = next((s for s in reversed(passed) if s in allowed), "ok")
        side = "below" if self.below else "from"
        shown = [f"{s} {side} {limits[s]:g}" for s in limits if s in allowed or reading.excuse]
        excuse = reading.excuse if passed and passed[-1] != status else ""
        finding = Finding(
            self.name, value, ", ".join(shown), status, excuse + self.meaning.format(**words),
            self.advice.format(**words), self.definition.format(**words), self.widening(value),
        )  # fmt: skip
        first = next(iter(limits.values()))
        beyond = first / max(value, 1e-9) if self.below else value / first
        return finding, (STATUSES.index(status), beyond)
