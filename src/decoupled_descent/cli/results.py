"""What ``decoupled train`` writes to its folder, and what it prints about it."""

from __future__ import annotations

import math
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import typer
from rich.console import Console

from decoupled_descent.cli import judged as judged_rows
from decoupled_descent.cli.baselines import contenders, is_log
from decoupled_descent.cli.findings import is_interrupted
from decoupled_descent.cli.importance import importance
from decoupled_descent.cli.left_out import LEFT_OUT, as_csv
from decoupled_descent.cli.next_steps import next_steps
from decoupled_descent.cli.options import cannot_write, harmless
from decoupled_descent.cli.output import compare, few, heading, intervals, points, verdict
from decoupled_descent.cli.tables import Prepared
from decoupled_descent.descent import METHODS
from decoupled_descent.estimators.parts import SCORES
from decoupled_descent.estimators.saving import MODEL_FILE, is_model, save_model
from decoupled_descent.files import permissions, write_text
from decoupled_descent.plotting import style as plotting
from decoupled_descent.report import ReportData, write_report
from decoupled_descent.report.comparison import answers
from decoupled_descent.report.page import score_interval
from decoupled_descent.report.text import interval
from decoupled_descent.tables.columns import Columns

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None

#: The files, in the order in which they are moved to the folder: the model is the last.
FILES = ("history.csv", LEFT_OUT, "figure.png", "figure.svg", "report.html", MODEL_FILE)


def check_folder(out: Path, data: Path) -> bool:
    """Raise ``OSError`` if the results cannot be written to a folder, which need not exist.

    Nothing is written. Returns whether the folder has results of an earlier training, which will be
    replaced. Files of the same names that are not from a training are an error.
    """
    nearest = next((one for one in (out, *out.absolute().parents) if os.path.exists(one)), out)
    try:
        with tempfile.TemporaryDirectory(prefix=".decoupled-", dir=nearest):
            pass
    except OSError as error:
        raise cannot_write(out, error, "; choose another folder") from error
    taken = [name for name in FILES if (out / name).exists()]
    if taken and not is_model(out / MODEL_FILE):
        raise OSError(
            f"--out {out}: has a {taken[0]} that is not from a training; choose another folder"
        )
    if any((out / name).is_dir() for name in taken):
        raise OSError(f"--out {out}: a folder has the name of a file to write; choose another")
    if any(data.exists() and (out / name).samefile(data) for name in taken):
        raise OSError(f"--out {out}: {data.name} in it is the table to read; choose another folder")
    return bool(taken)


def write(
    out: Path, estimator: Any, columns: Columns, target: str, report: ReportData
) -> dict[str, Path]:
    """Write all files to a temporary folder, and move them to ``out`` when they are complete.

    Returns the files by name.
    """
    partial: Path | None = None
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        beside = out if out.exists() else out.parent
        partial = Path(tempfile.mkdtemp(prefix=".decoupled-", dir=beside))
        write_history(partial / "history.csv", report)
        plotting.save_figure(estimator.plot_training(), partial / "figure", ("png", "svg"))
        write_report(partial / "report.html", report)
        write_text(partial / LEFT_OUT, report.left_out)
        save_model(estimator, partial / MODEL_FILE, columns, target)
        os.chmod(partial, permissions(0o777))  # mkdtemp lets only the owner in
        try:
            partial.rename(out)
        except OSError:  # the folder exists
            with _alone(out):
                for name in FILES:
                    (partial / name).replace(out / name)
    except OSError as error:
        raise cannot_write(out, error) from error
    finally:
        if partial is not None:
            shutil.rmtree(partial, ignore_errors=True)
    return {name: out / name for name in FILES}


def write_somewhere(
    out: Path, estimator: Any, columns: Columns, target: str, report: ReportData
) -> tuple[Path, dict[str, Path]]:
    """Write the results; if that fails, ask on the terminal for another folder, and try again.

    Without a terminal, the results go to the system's temporary folder, and the error says where.
    Returns the folder and the files by name.
    """
    while True:
        try:
            return out, write(out, estimator, columns, target, report)
        except OSError as error:
            if not (sys.stdin.isatty() and sys.stderr.isatty()):
                found = _rescued(estimator, columns, target, report)
                raise OSError(f"{error}{found}") from error
            typer.echo(harmless(f"{error}. The model is trained and in memory."), err=True)
            answer = typer.prompt("Another folder (empty to give up)", default="", err=True)
            if not answer.strip():
                raise
            out = Path(answer.strip()).expanduser()


def _rescued(estimator: Any, columns: Columns, target: str, report: ReportData) -> str:
    """Write the results to a temporary folder; return where, or an empty text if that fails too."""
    folder: Path | None = None
    try:
        folder = Path(tempfile.mkdtemp(prefix="decoupled-"))
        write(folder, estimator, columns, target, report)
    except OSError:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        return ""
    return f"; the results are in {folder}: move them to a disk with free space"


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other training writes to the folder, and keep others out."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def write_history(path: Path, report: ReportData) -> None:
    """Write the error curve as a table: step, train_error, stderr."""
    rows = enumerate(zip(report.train_error, report.train_error_stderr, strict=True))
    lines = [f"{k},{float(error)!r},{float(stderr)!r}\n" for k, (error, stderr) in rows]
    write_text(path, "step,train_error,stderr\n" + "".join(lines))


def report_data(
    data: Path, target: str, out: Path, prepared: Prepared, estimator: Any, warned: list[str],
    seconds: float = 0.0,
) -> ReportData:  # fmt: skip
    """Gather what the report, the terminal and JSON show; ``seconds`` is the time of the fit."""
    classes = prepared.task == "classification"
    score = SCORES[prepared.task]
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
        predictions=judged_rows.predicted(estimator).tolist(),
        classes=[str(one) for one in estimator.classes_.tolist()] if classes else None,
        candidates=estimator.candidates_,
        diagnosis=estimator.diagnostics_.to_dict(),
        settings=_settings(estimator),
        notes=[*prepared.notes, *warned],
        next_steps=[],
        corrected=estimator.algorithm_.estimates_test_error,
        interrupted=is_interrupted(estimator),
        contenders=contenders(prepared, estimator),
        chances=estimator.corrected_proba_ if classes else None,
        calibration=estimator.calibration_.to_dict() if classes else None,
        row_names=row_names(prepared),
        importance=importance(prepared, estimator),
        widths=judged_rows.widths(prepared, estimator),
        more=judged_rows.more_rows(prepared, estimator, seconds),
        left_out=as_csv(prepared, estimator, target),
        made_with=estimator.metadata_,
    )
    return replace(report, next_steps=next_steps(report, data, out))


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
    error = interval(report.estimated_error, report.estimated_error_stderr)
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
        "verdict": diagnosis["verdict"],
        "summary": diagnosis["summary"],
        "findings": diagnosis["findings"],
        "steps": len(report.train_error),
        "best_step": report.best_step,
        "stop_reason": report.stop_reason,
        "interrupted": report.interrupted,
        "more_rows": None if report.more is None else report.more._asdict(),
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
    if report.interrupted:
        screen.print("Interrupted: these are the results so far.", style="yellow")
    if report.notes:
        heading(screen, "What was done to the data")
        points(screen, few(report.notes, "report.html"))
    heading(screen, "Expected on new rows" if report.corrected else "On the training rows")
    error = interval(report.estimated_error, report.estimated_error_stderr)
    named = {report.score_name: score_interval(report), report.loss_name: error}
    if report.task == "regression":
        half = tuple(one.half for one in report.contenders[:1] if one.half is not None)
        named = {"typical error (RMSE)": tuple(map(math.sqrt, error))}
        named |= {"median absolute error": half} if half else {}
        named |= {report.score_name: score_interval(report)}
    intervals(screen, named)
    compare(screen, report.contenders)
    verdict(screen, report.diagnosis or {})
    heading(screen, "What to do next")
    page = f"See the details: open `{shlex.quote(str(out / 'report.html'))}` in a browser"
    points(screen, [*report.next_steps, page])
    names = ", ".join(sorted(FILES))
    before = " (replacing those of an earlier training)" if replaced else ""
    screen.print(f"\nSaved in {out}: {names}{before}", soft_wrap=True)
