"""``diagnose``: can the train error be trusted as an estimate of the test error?"""

from __future__ import annotations

import html
import math
from dataclasses import asdict, dataclass
from typing import Any

from decoupled_descent.descent import OrthogonalDecoupledDescent
from decoupled_descent.diagnostics.catalogue import CHECKS
from decoupled_descent.diagnostics.checks import Evidence, Finding
from decoupled_descent.diagnostics.measures import label_groups
from decoupled_descent.objective.objective import Objective
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.threads import threads_for
from decoupled_descent.selection.sweep import Sweep
from decoupled_descent.training.run import Run

VERDICTS = ("trust", "caution", "do not trust")


@dataclass(frozen=True)
class Diagnosis:
    """All findings, the most serious first, and the verdict.

    Attributes:
        findings: One per check.
    """

    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> str:
        """``"trust"``, ``"caution"`` or ``"do not trust"``: that of the most serious finding."""
        statuses = {finding.status for finding in self.findings}
        return VERDICTS[2 if "alarm" in statuses else int("caution" in statuses)]

    @property
    def widening(self) -> float:
        """The factor by which to widen the standard error: the product over all findings."""
        return math.prod(finding.widening for finding in self.findings)

    @property
    def summary(self) -> str:
        """The verdict in a sentence."""
        raised = [found for found in self.findings if found.status in ("caution", "alarm")]
        if not raised:
            notes, count = sum(one.status == "note" for one in self.findings), len(self.findings)
            if not notes:
                return f"trust: none of {count} checks found a problem"
            have = f"{notes} of {count} checks {'have notes' if notes > 1 else 'has a note'}"
            return f"trust: no check found a serious problem ({have})"
        names = ", ".join(found.name for found in raised)
        return f"{self.verdict}: {names}; first of all, {raised[0].advice}"

    def to_dict(self) -> dict[str, Any]:
        """Return verdict, summary and findings for JSON."""
        findings = [asdict(finding) for finding in self.findings]
        return {"verdict": self.verdict, "summary": self.summary, "findings": findings}

    def _repr_html_(self) -> str:
        """Write the verdict and the findings behind it as a table, for notebooks."""
        cells = [(f.status, f.name, f"{f.value:.3g}", f.reason, f.advice) for f in self.findings]
        left = 'style="text-align: left"'  # notebooks put cells to the right
        rows = [
            "".join(f"<td {left}>{html.escape(cell)}</td>" for cell in row)
            for row in cells
            if row[0] != "ok"
        ]
        names = ("result", "check", "value", "meaning", "advice")
        head = "".join(f"<th {left}>{name}</th>" for name in names)
        table = f"<table><tr>{head}</tr>{''.join(f'<tr>{r}</tr>' for r in rows)}</table>"
        fine = len(cells) - len(rows)
        found = f"<p>{fine} {'check' if fine == 1 else 'checks'} found no problem.</p>"
        return f"<p><b>{html.escape(self.verdict)}</b></p>{table if rows else ''}{found}"

    def __str__(self) -> str:
        lines = [self.summary, ""]
        for found in self.findings:
            head = f"{found.status:<8} {found.name:<22} {found.value:>9.3g}   {found.threshold}"
            lines.append(head)
            if found.status != "ok":
                exactly = f" ({found.definition})" if found.definition else ""
                lines += [f"         {found.reason}{exactly}", f"         → {found.advice}"]
        return "\n".join(lines)


def diagnose(
    X: Any,
    y: Any,
    run: Run | Sweep | None = None,
    algorithm: Any = None,
    objective: Objective | None = None,
    *,
    task: str | None = None,
    optimism: float | None = None,
    columns: Any = None,
    stderr: float | None = None,
) -> Diagnosis:
    r"""Check whether the train error is a good estimate of the test error, without a test set.

    Before training the data are checked: size, classes, duplicate rows, and the assumptions of the
    algorithm. A finished run adds checks of its correction, of its standard error, of the head and,
    for a sweep, of the choice among runs. The run is judged at its best step.

    Args:
        X: Features as given to :func:`fit`: columns centred and scaled to variance about 1/d. Or
            :class:`Rows`.
        y: Labels, n rows; None with :class:`Rows`.
        run: What :func:`fit` or :func:`sweep` returned (its best run is taken); None before
            training.
        algorithm: The algorithm that will be used; that of the run if there is one, orthogonal
            descent with ridge 1 by default.
        objective: What will be minimised; its loss shows whether labels are classes.
        task: ``"classification"`` or ``"regression"``; from the loss or the labels by default.
        optimism: The correction of the error for the choice among candidates; that of the sweep by
            default.
        columns: The columns from which the rows were made, shape (n, d₀) or :class:`Rows`, if
            rows are features of a kernel. Duplicates must then agree in both.
        stderr: The standard error of the estimate, if it is not that of the run's losses.

    Returns:
        The findings, the most serious first, and the verdict.

    Example:
        >>> import decoupled_descent as dd
        >>> X, y = dd.mixtures.flipped_classes(50, 2.0, labels=(0.0, 1.0)).sample(400, seed=0)
        >>> diagnose(X, y).verdict
        'trust'
        >>> objective = dd.Objective(dd.heads.TwoLayer(3, seed=0), "logistic")
        >>> run = dd.fit(X, y, objective, dd.GradientDescent(0.1), steps=100)
        >>> diagnose(X, y, run).verdict
        'do not trust'
    """
    rows = X if isinstance(X, Rows) else Rows(X, y)
    sweep = run if isinstance(run, Sweep) else None
    best = run.best if isinstance(run, Sweep) else run
    if task not in (None, "classification", "regression"):
        raise ValueError(f"task={task!r} must be 'classification', 'regression' or None")
    if best is not None:
        made_on = len(best.best_preactivations)
        if made_on != rows.n or best.theta.shape[1] != rows.d:
            raise ValueError(
                f"X has shape {(rows.n, rows.d)} but run was made on {made_on} rows "
                f"and {best.theta.shape[1]} columns; pass the rows that it was trained on"
            )
        algorithm, objective = best.algorithm, best.objective
    elif algorithm is None:
        algorithm = OrthogonalDecoupledDescent(1.0, ridge=1.0)
    groups, classes = label_groups(rows, objective, task)
    if optimism is None and sweep is not None and len(sweep.runs) > 1:
        optimism = sweep.corrected_error.optimism
    if columns is not None and not isinstance(columns, Rows):
        columns = Rows(columns, rows.y)
    evidence = Evidence(rows, groups, classes, algorithm, best, optimism, columns, stderr)
    with threads_for(rows.here * rows.d, 1):
        judged = [found for check in CHECKS if (found := check.judge(evidence)) is not None]
    judged.sort(key=lambda found: found[1], reverse=True)
    return Diagnosis(tuple(finding for finding, _ in judged))
