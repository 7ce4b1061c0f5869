"""What is found out about a trained model: for the report, for machines, and for the terminal."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from decoupled_descent.app.cli.baselines import contenders, is_log
from decoupled_descent.app.cli.destination import FILES
from decoupled_descent.app.cli.findings import is_interrupted, severity, stopped
from decoupled_descent.app.cli.importance import importance
from decoupled_descent.app.cli.left_out import as_csv
from decoupled_descent.app.cli.next_steps import next_steps
from decoupled_descent.app.cli.output import compare, few, heading, intervals, points, verdict
from decoupled_descent.app.cli.tables import Prepared
from decoupled_descent.app.report import ReportData
from decoupled_descent.app.report.comparison import answers
from decoupled_descent.app.report.data import MoreRows, Width, names_of
from decoupled_descent.app.report.headline import interruption, score_interval
from decoupled_descent.app.report.judged import LEVELS
from decoupled_descent.app.report.text import error_interval
from decoupled_descent.diagnostics.checks import Finding
from decoupled_descent.diagnostics.diagnosis import Diagnosis
from decoupled_descent.estimators.parts import SCORES
from decoupled_descent.selection.methods import METHODS

#: With fewer rows, the coverage of intervals in each third of the rows is not computed.
FEWEST = 30
#: The parts of a report that take time, in words.
PARTS = {
    "contenders": "the comparison with guessing and a linear model",
    "widths": "the widths of prediction intervals",
    "importance": "which columns matter",
    "more": "whether more rows would help",
}
#: If the fit took more seconds than this, no learning curve is computed.
PATIENCE = 60.0


def report_data(
    data: Path, target: str, out: Path, prepared: Prepared, estimator: Any, warned: list[str],
    seconds: float = 0.0,
) -> ReportData:  # fmt: skip
    """Gather what the report, the terminal and JSON show; ``seconds`` is the time of the fit."""
    classes = prepared.task == "classification"
    score = SCORES[prepared.task]
    extras = _extras(prepared, estimator, seconds)
    n, d = len(prepared.y), prepared.X.shape[1]
    report = ReportData(
        title=f"{data.name}: {target}",
        task=prepared.task,
        n_rows=n,
        n_features=d,
        train_error=estimator.train_error_curve_.tolist(),
        train_error_stderr=estimator.train_error_stderr_curve_.tolist(),
        best_step=int(estimator.best_iter_),
        stop_reason=estimator.stop_reason_,
        loss_name=estimator._error_name,
        estimated_error=float(estimator.estimated_test_error_),
        estimated_error_stderr=float(estimator.estimated_test_error_stderr_),
        score_name="accuracy" if classes else "R²",
        estimated_score=float(getattr(estimator, score)),
        estimated_score_stderr=float(getattr(estimator, f"{score}stderr_")),
        labels=prepared.y.tolist(),
        predictions=predicted(estimator).tolist(),
        classes=[str(one) for one in estimator.classes_.tolist()] if classes else None,
        candidates=estimator.candidates_,
        diagnosis=_judged(estimator, extras.get("missing", ())).to_dict(),
        settings=_settings(estimator),
        notes=[*prepared.notes, *warned],
        next_steps=[],
        corrected=estimator.algorithm_.estimates_test_error,
        interrupted=is_interrupted(estimator),
        chances=estimator.corrected_proba_ if classes else None,
        calibration=estimator.calibration_.to_dict() if classes else None,
        row_names=row_names(prepared),
        left_out=as_csv(prepared, estimator, target),
        made_with=estimator.metadata_,
        **extras,
    )
    return replace(report, next_steps=next_steps(report, data, out))


def _extras(prepared: Prepared, estimator: Any, seconds: float) -> dict[str, Any]:
    """The parts of a report that take time. Ctrl-C leaves out the rest of them."""
    makers: dict[str, Callable[[], Any]] = {
        "contenders": lambda: contenders(prepared, estimator),
        "widths": lambda: widths(prepared, estimator),
        "importance": lambda: importance(prepared, estimator),
        "more": lambda: more_rows(prepared, estimator, seconds),
    }
    if prepared.task != "regression":
        del makers["widths"]
    found: dict[str, Any] = {}
    for name, make in makers.items():
        try:
            found[name] = make()
        except KeyboardInterrupt:
            return found | {"missing": [PARTS[one] for one in makers if one not in found]}
    return found


def _judged(estimator: Any, missing: Sequence[str]) -> Diagnosis:
    """The diagnosis of an estimator; an interrupted report adds a finding."""
    findings: tuple[Finding, ...] = estimator.diagnostics_.findings
    if missing and not is_interrupted(estimator):
        findings = (*findings, stopped(missing))
    return Diagnosis(tuple(sorted(findings, key=severity, reverse=True)))


def predicted(estimator: Any) -> NDArray[Any]:
    """The prediction of every training row by models that were fitted without it."""
    if hasattr(estimator, "classes_"):
        return np.asarray(estimator.classes_[estimator.corrected_proba_.argmax(1)])
    return np.asarray(estimator.corrected_prediction_)


def widths(prepared: Prepared, estimator: Any) -> list[Width]:
    """Half the width of prediction intervals, and the share of left-out rows that they cover."""
    if prepared.task != "regression" or len(prepared.y) < FEWEST:
        return []
    found = []
    for level in LEVELS:
        places, ends = estimator.training_intervals(level)
        true, middle = prepared.y[places], estimator.corrected_prediction_[places]
        held = (ends[:, 0] <= true) & (true <= ends[:, 1])
        parts = np.array_split(np.argsort(middle, kind="stable"), 3)
        half = [float(np.median(np.diff(ends[part], axis=1))) / 2 for part in parts]
        shares = [float(held[part].mean()) for part in parts]
        typical = float(np.median(np.diff(ends, axis=1))) / 2
        found.append(Width(level, typical, float(held.mean()), tuple(half), tuple(shares)))
    return found


def more_rows(prepared: Prepared, estimator: Any, seconds: float) -> MoreRows | str:
    """The expected error with twice as many rows, or why it is not computed."""
    if estimator.method_ != "newton":
        return "This is computed with --method newton only."
    if is_interrupted(estimator):
        return "This was not computed, because training was interrupted."
    if seconds > PATIENCE:
        return (
            f"This was not computed, because training took more than {PATIENCE:.0f} seconds. In "
            "Python, learning_curve of the estimator computes it."
        )
    try:
        curve = estimator.learning_curve(prepared.X, prepared.y, groups=prepared.groups, repeats=1)
    except ValueError as problem:  # too few rows, or too few rows of a class
        return f"This cannot be computed: {problem}."
    return MoreRows.of(curve, roots=prepared.task == "regression")


def row_names(prepared: Prepared) -> list[Any]:
    """The identifiers of the rows, or their numbers in the file."""
    assert prepared.frame is not None
    name = prepared.columns.identifier
    names: list[Any] = list(prepared.frame[name] if name else prepared.frame.index)
    return names


def _settings(estimator: Any) -> dict[str, Any]:
    """The options of an estimator; "auto" is replaced by the value that was chosen."""
    chosen = next(one for one in estimator.candidates_ if one["chosen"])
    if estimator.method_ == "newton":
        kept = {name: getattr(estimator, name) for name in ("method_", "stack", "random_state")}
        kept = {name.rstrip("_"): value for name, value in kept.items()}
        kept |= {"log_target": True} if is_log(estimator) else {}
        return kept | {name: chosen[name] for name in ("features", "ridge")}
    names = ("hidden", "activation", "max_iter", "random_state")
    settings = {"method": estimator.method_} | {name: getattr(estimator, name) for name in names}
    if settings["hidden"] == "auto":
        settings["hidden"] = len(estimator.theta_)
    return settings | {name: chosen[name] for name in METHODS[estimator.method_].settings}


def to_dict(report: ReportData, target: str, files: dict[str, Path]) -> dict[str, Any]:
    """Return the result for machines."""
    error = error_interval(report.estimated_error, report.estimated_error_stderr)
    diagnosis: Any = report.diagnosis
    return {
        "task": report.task,
        "target": target,
        "rows": report.n_rows,
        "features": report.n_features,
        "classes": report.classes,
        "loss": report.loss_name,
        "estimated_test_error": report.estimated_error,
        "estimated_test_error_stderr": report.estimated_error_stderr,
        "estimated_test_error_interval": error[1:] or None,
        "score": report.score_name,
        "estimated_score": report.estimated_score,
        "estimated_score_stderr": report.estimated_score_stderr,
        "estimated_score_interval": score_interval(report)[1:] or None,
        "baselines": [one._asdict() for one in report.contenders[1:]],
        "better_than": {
            name: one._asdict()
            for name, one in zip(("guessing", "linear"), answers(report.contenders), strict=False)
        },
        "mostly_missed": [one._asdict() for one in report.mostly_missed],
        "verdict": diagnosis["verdict"],
        "summary": diagnosis["summary"],
        "findings": diagnosis["findings"],
        "steps": len(report.train_error),
        "best_step": report.best_step,
        "stop_reason": report.stop_reason,
        "interrupted": report.interrupted or bool(report.missing),
        "missing": list(report.missing),
        "more_rows": report.more._asdict() if isinstance(report.more, MoreRows) else None,
        "prediction_intervals": [one._asdict() for one in report.widths],
        "importance": dict(report.importance),
        "settings": report.settings,
        "made_with": dict(report.made_with),
        "candidates": report.candidates,
        "notes": report.notes,
        "next_steps": [step.replace("`", "") for step in report.next_steps],
        "files": files,
    }


def show(screen: Console, report: ReportData, out: Path, replaced: bool) -> None:
    """Print what was done, the errors to expect on new rows, and what to do next."""
    screen.print(
        f"{report.title}: {report.task}, {report.n_rows:,} rows, {report.n_features:,} features",
        soft_wrap=True,
    )
    if words := interruption(report):
        screen.print(words, style="yellow", soft_wrap=True)
    if report.notes:
        heading(screen, "What was done to the data")
        points(screen, few(report.notes, "report.html"))
    heading(screen, "Expected on new rows" if report.corrected else "On the training rows")
    error = error_interval(report.estimated_error, report.estimated_error_stderr)
    named = {report.score_name: score_interval(report), report.loss_name: error}
    if report.task == "regression":
        half = tuple(one.half for one in report.contenders[:1] if one.half is not None)
        named = {"typical error (RMSE)": tuple(map(math.sqrt, error))}
        named |= {"median absolute error": half} if half else {}
        named |= {report.score_name: score_interval(report)}
    intervals(screen, named)
    compare(screen, report.contenders, rare=names_of(report.mostly_missed))
    verdict(screen, report.diagnosis or {}, contenders=report.contenders)
    heading(screen, "What to do next")
    page = f"See the details: open `{shlex.quote(str(out / 'report.html'))}` in a browser"
    points(screen, [*report.next_steps, page])
    names = ", ".join(sorted(FILES))
    before = " (replacing those of an earlier training)" if replaced else ""
    screen.print(f"\nSaved in {out}: {names}{before}", soft_wrap=True)
