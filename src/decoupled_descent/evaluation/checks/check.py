"""A check: one object with its measure, its limits, its texts and its effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from decoupled_descent.descent.common import Algorithm
from decoupled_descent.evaluation.checks import measures
from decoupled_descent.evaluation.checks.table import Table, sample_size
from decoupled_descent.rows.blocks import Rows

if TYPE_CHECKING:
    from decoupled_descent.training.run import Run

#: From harmless to serious. A note is shown and never changes the verdict.
STATUSES = ("ok", "note", "caution", "alarm")
#: With more rows than this, leaving them out in blocks takes too long.
MOST_TOGETHER = 5000


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        name: The name of the check.
        value: The number measured.
        threshold: The limits of note, caution and alarm, in words.
        status: ``"ok"``, ``"note"``, ``"caution"`` or ``"alarm"``; only the last two change the
            verdict.
        reason: What the number means, in plain words.
        advice: What to do about it, in Python.
        definition: The exact definition of the number, for experts.
        widening: The factor by which the interval is widened.
        command_advice: What to do about it with options of the command line; empty if ``advice``
            says it.
    """

    name: str
    value: float
    threshold: str
    status: str
    reason: str
    advice: str
    definition: str = ""
    widening: float = 1.0
    command_advice: str = ""


@dataclass(frozen=True)
class Evidence:
    """What checks can use: the rows, the algorithm and, after training, a run."""

    rows: Rows
    groups: Tensor  # classes, or groups of similar response
    classes: bool  # which of the two
    algorithm: Algorithm
    run: Run | None = None
    optimism: float | None = None  # from choosing the run among others
    columns: Rows | None = None  # from which the rows were made, if they are features
    stderr: float | None = None  # of the estimate, if not that of the run's losses
    names: Sequence[str] | None = None  # of the columns; without any, leaks are not looked for
    time: Mapping[str, Tensor] | None = None  # times of the rows by name; else looked for in names

    @property
    def traits(self) -> frozenset[str]:
        """What the algorithm assumes, and whether its train error is corrected."""
        kind = "corrected" if self.algorithm.estimates_test_error else "uncorrected"
        return self.algorithm.assumptions() | {kind}

    @property
    def minimum(self) -> bool:
        """Whether the estimate is leave-one-out at a minimum."""
        return "minimum" in self.traits

    @cached_property
    def best_step(self) -> measures.BestStep:
        """The run at its best step."""
        assert self.run is not None
        return measures.evaluate_best_step(self.run, self.rows)

    @property
    def named_columns(self) -> tuple[Rows, Sequence[str]]:
        """The columns from which the rows were made, and their names."""
        columns = self.rows if self.columns is None else self.columns
        names = self.names
        return columns, [f"X[:, {k}]" for k in range(columns.d)] if names is None else names

    @cached_property
    def table(self) -> Table | None:
        """The columns as a table, some of the rows if there are many; None without names."""
        columns, names = self.named_columns
        if not len(names):
            return None
        n, device = self.rows.n, columns.like.device
        most = sample_size(columns.d)
        order = torch.randperm(n, generator=torch.Generator().manual_seed(0))[:most]
        rows = order.sort().values
        y = functional.one_hot(self.groups) if self.classes else self.rows.y.reshape(n, -1)
        y = y[:, 1:] if self.classes and y.shape[1] == 2 else y  # the other column is 1 − this
        values = columns.gather(rows.to(device)).double().cpu().numpy()
        return Table(names, values, y.double().cpu().numpy()[rows.numpy()])

    @cached_property
    def blocks(self) -> measures.BlocksLeftOut | None:
        """Losses of rows left out in blocks; None with groups, many rows, or no minimum."""
        if self.run is None or self.rows.groups is not None or self.rows.n > MOST_TOGETHER:
            return None
        return measures.blocks_left_out(self.run, self.rows, self.groups)


class Reading(NamedTuple):
    """A number, values for the texts, and the most serious status that it may have."""

    value: float
    words: Mapping[str, Any] = {}
    most: str = "alarm"


@dataclass(frozen=True, kw_only=True)
class Check:
    """One question about the data or a run, with the limits of note, caution and alarm."""

    name: str
    measure: Callable[[Any], Reading | float | None]  # of Evidence; None if it does not apply
    question: str = ""  # that the check answers, in plain words
    meaning: str  # of a number beyond the limits, in plain words
    advice: str  # for Python
    command_advice: str = ""  # for the command line, where it differs
    definition: str = ""  # of the number, with the reason for its limits, for experts
    note: float | None = None
    caution: float | None = None
    alarm: float | None = None
    below: bool = False  # whether small numbers are bad
    concerns: frozenset[str] = frozenset()  # only for algorithms with one of these traits
    needs_run: bool = False  # only after training
    widening: Callable[[float], float] = lambda _: 1.0  # of the interval, given the number

    def evaluate(self, evidence: Any) -> tuple[Finding, tuple[int, float]] | None:
        """Return the finding and its severity, for sorting; None if the check does not apply."""
        foreign = self.concerns and not self.concerns & evidence.traits
        if foreign or (self.needs_run and evidence.run is None):
            return None
        measured = self.measure(evidence)
        if measured is None:
            return None
        reading = measured if isinstance(measured, Reading) else Reading(measured)
        value, words = float(reading.value), reading.words
        names = STATUSES[1 : STATUSES.index(reading.most) + 1]
        limits = {name: limit for name in names if (limit := getattr(self, name)) is not None}
        passed = [s for s in limits if (value < limits[s] if self.below else value >= limits[s])]
        side = "below" if self.below else "from"
        finding = Finding(
            self.name, value, _words(limits, side),
            passed[-1] if passed else "ok", self.meaning.format(**words),
            self.advice.format(**words), self.definition.format(**words), self.widening(value),
            self.command_advice.format(**words),
        )  # fmt: skip
        first = next(iter(limits.values()), 1.0)
        beyond = first / max(value, 1e-9) if self.below else value / first
        return finding, (STATUSES.index(finding.status), beyond)


def _words(limits: Mapping[str, float], side: str) -> str:
    """The limits in words; that of the note is left out if it equals that of the caution."""
    listed = [s for s in limits if s != "note" or limits[s] != limits.get("caution")]
    return ", ".join(f"{status} {side} {limits[status]:g}" for status in listed)
