"""The report's section on the checks: their results, and what to do about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from decoupled_descent.app.report.data import ReportData
from decoupled_descent.app.report.tables import Column, Table
from decoupled_descent.app.report.text import number
from decoupled_descent.evaluation.checks.catalogue import QUESTIONS

#: The most findings listed.
MOST_FINDINGS = 100


def diagnosis(data: ReportData) -> dict[str, Any] | None:
    """The findings with advice; checks that found no problem are separate."""
    findings = list((data.diagnosis or {}).get("findings") or ())[:MOST_FINDINGS]
    if not findings:
        return None
    fine = [one for one in findings if one.get("status") == "ok"]
    flagged = [one for one in findings if one.get("status") != "ok"]
    columns = [Column("check"), Column("result", "badge"), Column("value", "number")]
    columns.append(Column("limit"))
    meaning = Column("what it means, and what to do", "advice")
    rows = [[*_cells(one), (one.get("reason") or "", one.get("advice"))] for one in flagged]
    questions = [[*_cells(one), QUESTIONS.get(str(one.get("name")), "")] for one in fine]
    other = "other " if flagged else ""
    count = f"{len(fine)} {other}checks" if len(fine) > 1 else f"1 {other}check"
    return {
        "flagged": Table([*columns, meaning], rows) if flagged else None,
        "fine": Table([*columns, Column("what is asked")], questions) if fine else None,
        "count": count,
    }


def _cells(finding: Mapping[str, Any]) -> list[Any]:
    """The name, status, value and limits of a finding."""
    value = finding.get("value")
    written = number(value, 3) if isinstance(value, float) else value
    return [finding.get("name"), finding.get("status"), written, finding.get("threshold")]
