"""What the command knows of a training and the checks of the estimators do not."""

from __future__ import annotations

from typing import Any

from decoupled_descent.diagnostics.checks import STATUSES, Finding
from decoupled_descent.diagnostics.diagnosis import Diagnosis


def is_interrupted(estimator: Any) -> bool:
    """Whether training was stopped by hand."""
    return any(one["stop_reason"] == "interrupted" for one in estimator.candidates_) or (
        estimator.stop_reason_ == "interrupted"
    )


def add(estimator: Any, found: list[Finding]) -> None:
    """Put findings among those of the estimator, the most serious first."""
    findings = [*found, *estimator.diagnostics_.findings]
    findings.sort(key=lambda one: STATUSES.index(one.status), reverse=True)
    estimator.diagnostics_ = Diagnosis(tuple(findings))


def interrupted() -> Finding:
    """A training that was stopped by hand."""
    return Finding(
        "interrupted", 1.0, "caution from 1", "caution",
        "Training was stopped before its end. Better models may not have been tried.",
        "train again and let it finish",
        "1 where a run was interrupted",
    )  # fmt: skip
