"""``diagnose``: can the train error be trusted as an estimate of the test error?"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from decoupled_descent.checks import Target, verdict_of
from decoupled_descent.descent import OrthogonalDecoupledDescent
from decoupled_descent.evaluation.checks.catalogue import CHECKS
from decoupled_descent.evaluation.checks.check import STATUSES, Evidence, Finding
from decoupled_descent.evaluation.checks.drift import as_times
from decoupled_descent.evaluation.checks.measures import label_groups
from decoupled_descent.evaluation.checks.of_evaluations import findings_of
from decoupled_descent.evaluation.checks.table import Table
from decoupled_descent.evaluation.checks.table_checks import TABLE_CHECKS
from decoupled_descent.objective.objective import Objective
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.threads import threads_for

if TYPE_CHECKING:
    from decoupled_descent.evaluation.evaluation import Evaluation
    from decoupled_descent.training.run import Run


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
        return verdict_of(finding.status for finding in self.findings)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the verdict is no better, each with what to do about it, in sentences."""
        raised = [one for one in self.findings if one.status in ("caution", "alarm")]
        return tuple(f"{one.reason} To do: {one.advice}." for one in raised)

    @property
    def widening(self) -> float:
        """The factor by which to widen the standard error: the product over all findings."""
        return math.prod(finding.widening for finding in self.findings)

    @property
    def summary(self) -> str:
        """The verdict in a sentence."""
        raised = [one for one in self.findings if one.status in ("caution", "alarm")]
        if not raised:
            notes, count = sum(one.status == "note" for one in self.findings), len(self.findings)
            if not notes:
                return f"trust: none of {count} checks found a problem"
            have = f"{notes} of {count} checks {'have notes' if notes > 1 else 'has a note'}"
            return f"trust: no check found a serious problem ({have})"
        names = ", ".join(one.name for one in raised)
        return f"{self.verdict}: {names}; first of all, {raised[0].advice}"

    def with_findings(self, findings: Sequence[Finding]) -> Diagnosis:
        """Add findings, instead of those of the same name; the most serious are the first."""
        names = {one.name for one in findings}
        others = [one for one in self.findings if one.name not in names]
        return Diagnosis(tuple(sorted([*findings, *others], key=_severity, reverse=True)))

    def for_command_line(self) -> Diagnosis:
        """The same findings, with advice that names options of the command line."""
        return Diagnosis(
            tuple(
                replace(one, advice=one.command_advice or one.advice, command_advice="")
                for one in self.findings
            )
        )

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
        rest = f"<p>{fine} {'check' if fine == 1 else 'checks'} found no problem.</p>"
        return f"<p><b>{html.escape(self.verdict)}</b></p>{table if rows else ''}{rest}"

    def __str__(self) -> str:
        lines = [self.summary, ""]
        for one in self.findings:
            lines.append(f"{one.status:<8} {one.name:<22} {one.value:>9.3g}   {one.threshold}")
            if one.status != "ok":
                definition = f" ({one.definition})" if one.definition else ""
                lines += [f"         {one.reason}{definition}", f"         → {one.advice}"]
        return "\n".join(lines)


def _severity(finding: Finding) -> int:
    return STATUSES.index(finding.status)


def diagnose_table(table: Table) -> list[Finding]:
    """Check a table without a run: columns that leak the target, identifiers, interruptions."""
    results = [check.evaluate(table) for check in TABLE_CHECKS]
    return [result[0] for result in results if result is not None]


def diagnose(
    X: Any,
    y: Any,
    run: Any = None,
    algorithm: Any = None,
    objective: Objective | None = None,
    *,
    task: str | None = None,
    optimism: float | None = None,
    columns: Any = None,
    stderr: float | None = None,
    names: Sequence[str] | None = None,
    time: Any = None,
) -> Diagnosis:
    r"""Check whether the train error is a good estimate of the test error, without a test set.

    Before training the data are checked: size, classes, duplicate rows, columns that leak the
    labels, and the assumptions of the algorithm. A finished run adds checks of its correction, of
    its standard error, of the head and, for a sweep, of the choice among runs. Runs are checked at
    their best step.

    Args:
        X: Features as given to :func:`fit`: columns centred and scaled to variance about 1/d. Or
            :class:`Rows`.
        y: Labels, n rows; None with :class:`Rows`.
        run: What :func:`fit` or :func:`sweep` returned (its best run is taken). None before
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
        names: Of the columns, for the check whether one of them leaks the target; ``X[:, 0]`` and
            so on by default. An empty list omits this check.
        time: The time of each row, numbers of shape (n,), or several by name, for the check whether
            the estimate holds for later rows. By default, columns with the name of a time, and
            columns that grow from row to row.

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
    options = {
        "task": task,
        "optimism": optimism,
        "columns": columns,
        "stderr": stderr,
        "names": names,
        "time": time,
    }
    if run is not None:
        result: Diagnosis = run.diagnose(X, y, **options)
        return result
    rows = X if isinstance(X, Rows) else Rows(X, y)
    algorithm = OrthogonalDecoupledDescent(1.0, ridge=1.0) if algorithm is None else algorithm
    return diagnose_rows(rows, algorithm, objective, **options)


def diagnose_run(X: Any, y: Any, run: Run, **options: Any) -> Diagnosis:
    """Check a run at its best step; the options are those of :func:`diagnose`."""
    rows = X if isinstance(X, Rows) else Rows(X, y)
    made_on = len(run.best_preactivations)
    if made_on != rows.n or run.theta.shape[1] != rows.d:
        raise ValueError(
            f"X has shape {(rows.n, rows.d)} but run was made on {made_on} rows "
            f"and {run.theta.shape[1]} columns; pass the rows that it was trained on"
        )
    return diagnose_rows(rows, run.algorithm, run.objective, run=run, **options)


def diagnose_rows(
    rows: Rows,
    algorithm: Any,
    objective: Objective | None = None,
    *,
    run: Run | None = None,
    evaluation: Evaluation | None = None,
    task: str | None = None,
    optimism: float | None = None,
    columns: Any = None,
    stderr: float | None = None,
    names: Sequence[str] | None = None,
    time: Any = None,
) -> Diagnosis:
    """Make all checks that concern an algorithm on these rows, and its run if there is one."""
    if task not in (None, *Target):
        raise ValueError(f"task={task!r} must be 'classification', 'regression' or None")
    groups, classes = label_groups(rows, objective, task)
    if columns is not None and not isinstance(columns, Rows):
        columns = Rows(columns, rows.y)
    width = (rows if columns is None else columns).d
    if names is not None and len(names) not in (0, width):
        raise ValueError(f"names has {len(names)} names for {width} columns; pass one per column")
    evidence = Evidence(
        rows,
        groups,
        classes,
        algorithm,
        run,
        optimism,
        columns,
        stderr,
        names,
        as_times(time, rows.n),
    )
    with threads_for(rows.here * rows.d, 1):
        results = [one for check in CHECKS if (one := check.evaluate(evidence)) is not None]
    results.sort(key=lambda one: one[1], reverse=True)
    found = [finding for finding, _ in results]
    if evaluation is None and run is not None and run.has_evaluation:
        evaluation = run.evaluation
    own = [] if evaluation is None else findings_of(evaluation)
    return Diagnosis(()).with_findings([*found, *own])
