"""The results of a training: for the report, for machines, and for the terminal."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from decoupled_descent.app.cli.baselines import contenders
from decoupled_descent.app.cli.destination import LEFT_OUT, failure
from decoupled_descent.app.cli.findings import is_interrupted
from decoupled_descent.app.cli.left_out import as_csv
from decoupled_descent.app.cli.measures import of_classes, of_numbers
from decoupled_descent.app.cli.next_steps import next_steps
from decoupled_descent.app.cli.output import compare, few, heading, intervals, points, verdict
from decoupled_descent.app.cli.privacy import HELD, LOST
from decoupled_descent.app.cli.tables import TrainingTable
from decoupled_descent.app.report import ReportData
from decoupled_descent.app.report.comparison import answers
from decoupled_descent.app.report.data import (
    Analyses,
    ErrorsByRows,
    ErrorsOverTime,
    Estimates,
    IntervalWidth,
    RowPredictions,
    Training,
    names_of,
)
from decoupled_descent.app.report.headline import interruption
from decoupled_descent.app.report.row_errors import rows_to_check
from decoupled_descent.app.report.text import roots
from decoupled_descent.checks import counted
from decoupled_descent.evaluation.checks.diagnosis import Diagnosis, diagnose_table
from decoupled_descent.evaluation.checks.table import Table
from decoupled_descent.evaluation.evaluation import Evaluation
from decoupled_descent.tables.analyses.coefficients import coefficients
from decoupled_descent.tables.analyses.importance import MOST_SCREENED, importance
from decoupled_descent.tables.analyses.reasons import reasons
from decoupled_descent.tables.analyses.sample import sample_by_class
from decoupled_descent.tables.analyses.subgroups import subgroups
from decoupled_descent.tables.search.deadline import left_out_in_words

#: Levels of the prediction intervals that are listed.
LEVELS = (0.5, 0.8, 0.9, 0.95)
#: With fewer rows, the coverage of intervals in each third of the rows is not computed.
FEWEST = 30
#: Scores of evaluations in words.
SCORE_NAMES = {"accuracy": "accuracy", "r2": "R²"}
#: The parts of a report that take time, in words.
PARTS = {
    "sample": "the table of the rows by class",
    "contenders": "the comparison with guessing and a linear model",
    "subgroups": "the errors of categories",
    "intervals": "the widths of prediction intervals",
    "coefficients": "the coefficients of linear models",
    "reasons": "what misled the model in the rows to check",
    "importance": "which columns matter",
    "more_rows": "whether more rows would help",
}
#: If the fit took more seconds than this, no learning curve is computed.
PATIENCE = 60.0


def report_data(
    data: Path, target: str, out: Path, prepared: TrainingTable, estimator: Any, warned: list[str],
    seconds: float = 0.0, fast: bool = False,
) -> ReportData:  # fmt: skip
    """Gather what the report, the terminal and JSON show.

    ``seconds`` is the time of the fit, and ``fast`` leaves out what takes the longest.
    """
    rows = _row_predictions(prepared, estimator, target)
    analyses = _analyses(prepared, estimator, rows, seconds, fast)
    report = ReportData(
        title=f"{data.name}: {target}",
        task=prepared.task,
        n_rows=len(prepared.y),
        n_features=prepared.X.shape[1],
        threshold=_threshold(estimator),
        training=_training(estimator),
        estimate=_estimate(estimator.evaluation_),
        rows=rows,
        analyses=analyses,
        diagnosis=_diagnosis(estimator, analyses.missing).to_dict(),
        notes=[*prepared.notes, *warned, *_out_of_time(estimator), *analyses.failed],
    )
    asked = None if prepared.time is not None else next(iter(prepared.time_columns), None)
    return replace(report, next_steps=next_steps(report, data, out, asked))


def _threshold(estimator: Any) -> float:
    """The threshold of the class to find; 0 if the more probable class is chosen."""
    rule = estimator.decision_rule_
    return 0.0 if rule.is_usual else float(rule.threshold)


def _out_of_time(estimator: Any) -> list[str]:
    """A note on what the time limit left out, if it left out anything."""
    skipped = estimator.skipped_candidates_
    return [left_out_in_words(estimator.time_limit, skipped)] if skipped else []


def _training(estimator: Any) -> Training:
    """How an estimator was trained."""
    return Training(
        errors=estimator.train_error_curve_.tolist(),
        stderrs=estimator.train_error_stderr_curve_.tolist(),
        best_step=int(estimator.best_iter_),
        stop_reason=estimator.stop_reason_,
        candidates=estimator.candidates_,
        settings=_settings(estimator),
        interrupted=is_interrupted(estimator),
        skipped=estimator.skipped_candidates_,
        made_with=estimator.metadata_,
    )


def _estimate(evaluation: Evaluation) -> Estimates:
    """The estimated error and score, and other measures."""
    score = evaluation.estimate(evaluation.kind.score)
    measures = of_classes if evaluation.kind.has_classes else of_numbers
    return Estimates(
        loss_name=evaluation.error_name,
        error=evaluation.error,
        error_stderr=evaluation.stderr,
        score_name=SCORE_NAMES[evaluation.kind.score],
        score=score.value,
        score_stderr=score.stderr,
        error_interval=evaluation.interval,
        score_interval=score.interval,
        measures=measures(evaluation),
        is_grouped=evaluation.groups is not None,
        is_weighted=evaluation.weights is not None,
    )


def _row_predictions(prepared: TrainingTable, estimator: Any, target: str) -> RowPredictions:
    """The rows of the evaluation: all rows, or later ones, each predicted as if it were new."""
    evaluation, names = estimator.evaluation_, row_names(prepared)
    rows = np.arange(len(prepared.y))
    if estimator._kept is not None:
        rows = np.flatnonzero(estimator._kept)
    if estimator.time_estimate_ is not None:
        rows = estimator.time_estimate_.rows
    classes = estimator.classes_ if prepared.task.has_classes else None
    predictions = evaluation.predictions if classes is None else classes[evaluation.decisions]
    return RowPredictions(
        labels=prepared.y[rows].tolist(),
        predictions=predictions.tolist(),
        classes=None if classes is None else [str(one) for one in classes.tolist()],
        probabilities=None if classes is None else evaluation.predictions,
        calibration=None if classes is None else estimator.calibration_.to_dict(),
        row_names=[names[k] for k in rows] if len(names) == len(prepared.y) else [],
        as_csv=as_csv(prepared, estimator, target),
        positive=prepared.positive,
    )


def _analyses(
    prepared: TrainingTable, estimator: Any, rows: RowPredictions, seconds: float, fast: bool
) -> Analyses:
    """The parts of a report that take time. Ctrl-C leaves out the rest of them."""
    in_memory = prepared.sample is None
    later, X = estimator.time_estimate_ is not None, prepared.X
    columns, wide = prepared.columns, len(prepared.columns.columns)
    makers: dict[str, Callable[[], Any]] = {
        "sample": lambda: sample_by_class(estimator, X, columns),
        "contenders": lambda: contenders(prepared, estimator),
        "subgroups": lambda: subgroups(estimator, X, columns),
        "intervals": lambda: interval_widths(prepared, estimator),
        "coefficients": lambda: coefficients(estimator, columns),
        "reasons": lambda: reasons(estimator, X, rows_to_check(rows), columns),
        "importance": lambda: why_not(in_memory, wide) or importance(estimator, X, columns),
        "more_rows": lambda: more_rows(prepared, estimator, seconds),
    }
    omitted = {"intervals"} if prepared.task.has_classes else {"sample"}
    if later:  # these are about single rows left out, among rows of all times
        omitted |= {"intervals", "subgroups", "reasons", "more_rows", "sample"}
    if not in_memory:
        omitted |= {"subgroups", "reasons", "sample"}
    if fast:
        omitted |= {"importance", "reasons"}
        makers["more_rows"] = lambda: "This was not computed, because of --fast."
    makers = {name: make for name, make in makers.items() if name not in omitted}
    parts: dict[str, Any] = {}
    failed: list[str] = []
    for name, make in makers.items():
        try:
            parts[name] = make()
        except KeyboardInterrupt:
            parts["missing"] = [PARTS[one] for one in makers if one not in parts]
            break
        except Exception as error:  # no section may lose a finished model
            failed.append(f"{PARTS[name]} could not be computed ({failure(error)})")
    if later and prepared.time is not None:
        later_errors = estimator.time_estimate_, prepared.task.roots
        parts["over_time"] = ErrorsOverTime.of(prepared.time[0], *later_errors)
    return Analyses(**parts, failed=failed)


def why_not(in_memory: bool, columns: int) -> str:
    """Why importances are not computed; an empty text if they are."""
    if not in_memory:
        return "This was not computed, because it needs all rows in memory."
    if columns > MOST_SCREENED:
        return f"This was not computed, because there are more than {MOST_SCREENED:,} columns."
    return ""


def _diagnosis(estimator: Any, missing: Sequence[str]) -> Diagnosis:
    """The diagnosis of an estimator; an interrupted report adds a finding."""
    diagnosis: Diagnosis = estimator.diagnostics_
    if not missing or is_interrupted(estimator):
        return diagnosis
    table = Table((), np.empty((0, 0)), np.empty((0, 1)), missing=missing)
    return diagnosis.with_findings(diagnose_table(table)).for_command_line()


def interval_widths(prepared: TrainingTable, estimator: Any) -> list[IntervalWidth]:
    """Half the width of prediction intervals, and the share of left-out rows that they cover."""
    if prepared.task.has_classes or len(prepared.y) < FEWEST:
        return []
    listed = []
    for level in LEVELS:
        rows, ends = estimator.training_intervals(level)
        true, middle = prepared.y[rows], estimator.corrected_prediction_[rows]
        covered = (ends[:, 0] <= true) & (true <= ends[:, 1])
        half_widths = np.diff(ends, axis=1)[:, 0] / 2
        thirds = np.array_split(np.argsort(middle, kind="stable"), 3)
        listed.append(
            IntervalWidth(
                level,
                float(np.median(half_widths)),
                float(covered.mean()),
                tuple(float(np.median(half_widths[part])) for part in thirds),
                tuple(float(covered[part].mean()) for part in thirds),
            )
        )
    return listed


def more_rows(prepared: TrainingTable, estimator: Any, seconds: float) -> ErrorsByRows | str:
    """The expected error with twice as many rows, or why it is not computed."""
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
    return ErrorsByRows.of(curve, roots=prepared.task.roots)


def row_names(prepared: TrainingTable) -> list[Any]:
    """The identifiers of the rows, or their numbers in the file."""
    assert prepared.frame is not None
    name = prepared.columns.identifier
    names: list[Any] = list(prepared.frame[name] if name else prepared.frame.index)
    return names


def _settings(estimator: Any) -> dict[str, Any]:
    """The options of an estimator; "auto" is replaced by the value that was chosen."""
    chosen = next(one for one in estimator.candidates_ if one["chosen"])
    kept = {name: getattr(estimator, name) for name in ("stack", "random_state")}
    kept |= {"log_target": True} if getattr(estimator, "log_target", False) else {}
    return kept | {name: chosen[name] for name in ("features", "ridge")}


def to_dict(report: ReportData, target: str, files: dict[str, Path]) -> dict[str, Any]:
    """Return the result for machines."""
    estimate, training, analyses = report.estimate, report.training, report.analyses
    diagnosis: Any = report.diagnosis
    forecast = analyses.more_rows
    compared = zip(("guessing", "linear"), answers(analyses.contenders), strict=False)
    return {
        "task": report.task,
        "target": target,
        "rows": report.n_rows,
        "features": report.n_features,
        "classes": report.rows.classes,
        "loss": estimate.loss_name,
        "estimated_test_error": estimate.error,
        "estimated_test_error_stderr": estimate.error_stderr,
        "estimated_test_error_interval": estimate.error_with_interval[1:] or None,
        "score": estimate.score_name,
        "estimated_score": estimate.score,
        "estimated_score_stderr": estimate.score_stderr,
        "estimated_score_interval": estimate.score_with_interval[1:] or None,
        "class_to_find": report.rows.classes[report.rows.class_to_find]
        if report.rows.classes is not None and len(report.rows.classes) == 2
        else None,
        "threshold": report.threshold or None,
        "measures": {
            one.name: {"estimate": one.value, "interval": one.with_interval[1:] or None}
            for one in estimate.measures
        },
        "baselines": [one._asdict() for one in analyses.contenders[1:]],
        "better_than": {name: one._asdict() for name, one in compared},
        "mostly_missed": [one._asdict() for one in report.rows.mostly_missed],
        "verdict": diagnosis["verdict"],
        "summary": diagnosis["summary"],
        "findings": diagnosis["findings"],
        "steps": len(training.errors),
        "best_step": training.best_step,
        "stop_reason": training.stop_reason,
        "interrupted": training.interrupted or bool(analyses.missing),
        "missing": list(analyses.missing),
        "skipped_candidates": list(training.skipped),
        "over_time": None
        if analyses.over_time is None
        else analyses.over_time._asdict()
        | {"pieces": [one._asdict() for one in analyses.over_time.pieces]},
        "more_rows": forecast._asdict() if isinstance(forecast, ErrorsByRows) else None,
        "prediction_intervals": [one._asdict() for one in analyses.intervals],
        "importance": {}
        if isinstance(analyses.importance, str)
        else {one.column: one.rise for one in analyses.importance},
        "coefficients": None if analyses.coefficients is None else analyses.coefficients._asdict(),
        "subgroups": [one._asdict() for one in analyses.subgroups],
        "made_from": None if report.origin is None else report.origin._asdict(),
        "settings": training.settings,
        "made_with": dict(training.made_with),
        "candidates": training.candidates,
        "notes": report.notes,
        "next_steps": [step.replace("`", "") for step in report.next_steps],
        "files": files,
    }


def show(
    screen: Console, report: ReportData, out: Path, replaced: bool, files: Collection[str]
) -> None:
    """Print what was done, the errors to expect on new rows, and what to do next."""
    screen.print(
        f"{report.title}: {report.task}, {report.n_rows:,} rows, "
        f"{counted(report.n_features, 'feature')}",
        soft_wrap=True,
    )
    if words := interruption(report):
        screen.print(words, style="yellow", soft_wrap=True)
    if report.notes:
        heading(screen, "What was done to the data")
        points(screen, few(report.notes, "report.html"))
    contenders = report.analyses.contenders
    later = "rows after the last one" if report.analyses.over_time else "new rows"
    heading(screen, f"Expected on {later}")
    intervals(screen, _named_estimates(report))
    compare(screen, contenders, rare=names_of(report.rows.mostly_missed))
    verdict(screen, report.diagnosis or {}, contenders=contenders)
    heading(screen, "What to do next")
    page = f"See the details: open `{shlex.quote(str(out / 'report.html'))}` in a browser"
    points(screen, [*report.next_steps, page])
    names = ", ".join(sorted(files))
    before = " (replacing those of an earlier training)" if replaced else ""
    screen.print(f"\nSaved in {out}: {names}{before}", soft_wrap=True)
    points(screen, (HELD,) if LEFT_OUT in files else LOST)


def _named_estimates(report: ReportData) -> dict[str, tuple[float, ...]]:
    """Estimates with their intervals, by name; those of numbers in the units of the target."""
    estimate = report.estimate
    measures = {one.name: one.with_interval for one in estimate.measures}
    score = {estimate.score_name: estimate.score_with_interval}
    if not report.task.roots:
        return score | {estimate.loss_name: estimate.error_with_interval} | measures
    named = {"typical error (RMSE)": roots(estimate.error_with_interval)}
    return named | {name: one for name, one in measures.items() if name != "RMSE"}
