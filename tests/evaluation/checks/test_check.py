"""A check compares a number with its limits; every check in the list is complete and plain."""

import math
import re
from dataclasses import dataclass

import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.evaluation.checks import diagnosis as module
from decoupled_descent.evaluation.checks.catalogue import CHECKS
from decoupled_descent.evaluation.checks.check import STATUSES, Check, Evidence, Reading
from decoupled_descent.evaluation.checks.diagnosis import diagnose
from decoupled_descent.evaluation.checks.table_checks import TABLE_CHECKS
from tests.evaluation.checks.problems import GD, ODD, WHITE, clean, find, names, objective, trained


@pytest.fixture
def evidence():
    X, y = clean(60, 5)
    return Evidence(dd.Rows(X, y), torch.zeros(60, dtype=torch.long), True, WHITE)


def evaluated(evidence, reading, **options):
    words = {"name": "x", "meaning": "It is {kind}.", "advice": "do", **options}
    return Check(measure=lambda e: reading, **words).evaluate(evidence)


@pytest.mark.parametrize(
    ("value", "status"), [(0.9, "ok"), (1.0, "note"), (2.5, "caution"), (3.0, "alarm")]
)
def test_limits_upwards(evidence, value, status):
    finding, _ = evaluated(evidence, Reading(value, {"kind": "big"}), note=1, caution=2, alarm=3)
    assert (finding.status, finding.reason) == (status, "It is big.")
    assert finding.threshold == "note from 1, caution from 2, alarm from 3"


@pytest.mark.parametrize(("value", "status"), [(20, "ok"), (19.9, "caution"), (4, "alarm")])
def test_limits_downwards(evidence, value, status):
    reading = Reading(value, {"kind": "small"})
    finding, _ = evaluated(evidence, reading, caution=20, alarm=5, below=True)
    assert (finding.status, finding.threshold) == (status, "caution below 20, alarm below 5")


def test_a_reading_may_limit_how_bad_it_is(evidence):
    gentle, _ = evaluated(evidence, Reading(9, {"kind": "a"}, "caution"), caution=2, alarm=3)
    assert (gentle.status, gentle.threshold) == ("caution", "caution from 2")
    harmless, _ = evaluated(evidence, Reading(9, {"kind": "a"}, "note"), note=1, caution=3)
    assert (harmless.status, harmless.threshold) == ("note", "note from 1")


def test_only_what_concerns_the_algorithm_is_asked(evidence):
    one = Reading(1, {"kind": "a"})
    assert evaluated(evidence, None, note=1) is None
    assert evaluated(evidence, one, note=1, concerns=frozenset({"leverage"})) is None
    assert evaluated(evidence, one, note=1, concerns=frozenset({"leverage", "white noise"}))
    assert evaluated(evidence, one, note=1, needs_run=True) is None


def test_gravity_is_the_status_and_how_far_beyond(evidence):
    words = {"kind": "a"}
    up = [evaluated(evidence, Reading(v, words), caution=2, alarm=9)[1] for v in (1, 3, 4, 10)]
    down = [evaluated(evidence, Reading(v, words), caution=9, below=True)[1] for v in (10, 8, 2, 0)]
    assert up == sorted(up)
    assert down == sorted(down)
    assert up[1] == (STATUSES.index("caution"), 1.5)


def test_a_finding_says_how_it_widens(evidence):
    finding, _ = evaluated(evidence, Reading(3, {"kind": "a"}), note=1, widening=lambda v: 2 * v)
    assert finding.widening == 6


# The list ---------------------------------------------------------------------------------------


def test_every_check_is_used_and_its_words_are_complete():
    X, y = clean(200, 20)
    results = dd.sweep(X, y, objective(), [ODD, WHITE], 5, progress=False)
    diagnoses = [diagnose(X, y), diagnose(X, y, results), diagnose(X, y, trained(X, y, GD, 5))]
    diagnoses += [diagnose(X, y, run) for run in results.runs]
    linear = dd.Objective(dd.heads.Linear(intercept=True), "logistic")
    newton = dd.fit(X.double(), y.double(), linear, dd.DecoupledNewton(1.0), progress=False)
    numbers = dd.Objective(dd.heads.Linear(intercept=True), "squared")
    ridge = dd.fit(X.double(), y.double(), numbers, dd.DecoupledNewton(1.0), progress=False)
    diagnoses += [diagnose(X.double(), y.double(), run, time=range(200)) for run in (newton, ridge)]
    findings = [f for diagnosis in diagnoses for f in diagnosis.findings]
    assert {f.name for f in findings} >= {check.name for check in CHECKS}
    words = [f.reason + f.advice + f.command_advice + f.definition for f in findings]
    assert not any(set("{}") & set(one) for one in words)
    assert all(f.threshold and "inf" not in f.threshold for f in findings)
    assert all(f.reason[0].isupper() or f.reason[0].isdigit() for f in findings)
    assert all(f.reason.endswith(".") and not f.advice.endswith(".") for f in findings)


def test_names_are_unique_and_limits_in_order():
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    for check in CHECKS:
        limits = [v for v in (check.note, check.caution, check.alarm) if v is not None]
        assert limits
        assert limits == sorted(limits, reverse=check.below)


def test_advice_for_the_command_line_names_options_and_not_python():
    """Advice that speaks of Python needs other words on the command line."""
    for check in (*CHECKS, *TABLE_CHECKS):
        advice = check.command_advice or check.advice
        printed = not check.concerns or "minimum" in check.concerns
        if printed and (check.caution is not None or check.alarm is not None):
            assert not re.search(r"=|Descent|fit\(", advice), check.name
        assert "--" not in check.advice, check.name


def test_what_people_read_has_no_symbols():
    """Symbols and jargon are for the definition."""
    for check in CHECKS:
        text = f"{check.name} {check.meaning} {check.advice}"
        assert not re.search("[θΨ∇̄]|\\bh\\b|pre-activation|Jacobian|Marchenko", text), text


def test_a_check_from_outside_concerns_the_algorithm_that_declares_it(monkeypatch):
    """What a new method adds: its own assumption, and one object that asks about it."""

    @dataclass(frozen=True)
    class Picky(dd.DecoupledDescent):
        def assumptions(self):
            return super().assumptions() | {"even rows"}

    check = Check(
        name="even rows", alarm=1, concerns=frozenset({"even rows"}),
        measure=lambda e: e.rows.n % 2, widening=lambda value: 1 + value,
        meaning="The number of rows is odd.", advice="drop one",
    )  # fmt: skip
    monkeypatch.setattr(module, "CHECKS", (*CHECKS, check))
    X, y = clean(301, 30)
    picky = diagnose(X, y, trained(X, y, Picky(0.1), 5))
    assert picky.verdict == "do not trust"
    assert picky.findings[0].name == "even rows"
    assert find(picky, "even rows").widening == 2
    assert picky.widening == pytest.approx(2 * math.prod(f.widening for f in picky.findings[1:]))
    assert "even rows" not in names(diagnose(X, y, trained(X, y, WHITE, 5)))
