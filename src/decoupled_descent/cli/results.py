"""What ``decoupled train`` leaves in its folder, and what it says about it."""

from __future__ import annotations

import csv
import os
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import Any

from decoupled_descent.cli.tables import Prepared
from decoupled_descent.estimators.saving import MODEL_FILE, is_model, save_model
from decoupled_descent.plotting import style as plotting
from decoupled_descent.report import ReportData, write_report
from decoupled_descent.report.page import score_interval
from decoupled_descent.report.text import interval
from decoupled_descent.tables.columns import Columns

#: In the order in which they are put in place: the model comes last.
FILES = ("history.csv", "figure.png", "figure.svg", "report.html", MODEL_FILE)


def check_folder(out: Path) -> bool:
    """Raise ``OSError`` if the results cannot go to a folder; leave nothing behind.

    Args:
        out: The folder; it need not exist.

    Returns:
        Whether the results of an earlier training are there, and will be replaced.

    Raises:
        OSError: If it cannot be written to, or holds files of that name from elsewhere.
    """
    nearest = next((one for one in (out, *out.absolute().parents) if _exists(one)), out)
    try:
        with tempfile.TemporaryDirectory(prefix=".decoupled-", dir=nearest):
            pass
    except OSError as error:
        raise OSError(
            f"--out {out}: cannot write there ({error.strerror or error}); choose another folder"
        ) from error
    taken = [name for name in FILES if (out / name).exists()]
    if taken and not is_model(out / MODEL_FILE):
        raise OSError(
            f"--out {out}: has a {taken[0]} that is not from a training; choose another folder"
        )
    if any((out / name).is_dir() for name in taken):
        raise OSError(f"--out {out}: a folder has the name of a file to write; choose another")
    return bool(taken)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def write(
    out: Path, estimator: Any, columns: Columns, target: str, report: ReportData
) -> dict[str, Path]:
    """Write everything to a temporary folder, and move it in place when all is there.

    Args:
        out: The folder.
        estimator: Fitted.
        columns: How tables become its matrix.
        target: Name of the column that is predicted.
        report: What the report shows.

    Returns:
        The files written, by name.
    """
    partial: Path | None = None
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        beside = out if out.exists() else out.parent
        partial = Path(tempfile.mkdtemp(prefix=".decoupled-", dir=beside))
        write_history(partial / "history.csv", report)
        plotting.save_figure(estimator.plot_training(), partial / "figure", ("png", "svg"))
        write_report(partial / "report.html", report)
        save_model(partial / MODEL_FILE, estimator, columns, target)
        if out.exists():
            for name in FILES:
                (partial / name).replace(out / name)
        else:
            os.chmod(partial, 0o777 & ~_umask())  # mkdtemp's is for nobody else
            partial.rename(out)
    except OSError as error:
        raise OSError(f"--out {out}: cannot write there ({error.strerror or error})") from error
    finally:
        if partial is not None:
            shutil.rmtree(partial, ignore_errors=True)
    return {name: out / name for name in FILES}


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_history(path: Path, report: ReportData) -> None:
    """Write the error curve as a table: step, train_error, stderr."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["step", "train_error", "stderr"])
        rows = zip(report.train_error, report.train_error_stderr, strict=True)
        table.writerows([k, repr(float(e)), repr(float(s))] for k, (e, s) in enumerate(rows))


def report_data(
    data: Path, target: str, out: Path, prepared: Prepared, estimator: Any, warned: list[str]
) -> ReportData:
    """Gather what the report, the terminal and JSON show.

    Args:
        data: The file that was trained on.
        target: Name of the column that is predicted.
        out: The folder of the results.
        prepared: The table.
        estimator: Fitted to it.
        warned: What the training warned of.

    Returns:
        All of it.
    """
    classes = prepared.task == "classification"
    score = "estimated_accuracy_" if classes else "estimated_r2_"
    if classes:
        judged = estimator.classes_[estimator.corrected_proba_.argmax(1)]
    else:
        judged = estimator.corrected_prediction_
    n, d = prepared.X.shape
    diagnosis = estimator.diagnostics_.to_dict()
    return ReportData(
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
        predictions=judged.tolist(),
        classes=[str(one) for one in estimator.classes_.tolist()] if classes else None,
        candidates=estimator.candidates_,
        diagnosis=diagnosis,
        settings=_settings(estimator),
        notes=[*prepared.notes, *warned],
        next_steps=next_steps(data, out, estimator, diagnosis),
        corrected=estimator.algorithm_.estimates_test_error,
    )


def _settings(estimator: Any) -> dict[str, Any]:
    asked = estimator.get_params(deep=False)
    names = ("method", "hidden", "activation", "max_iter", "random_state")
    chosen = {
        name: getattr(estimator.algorithm_, name)
        for name in ("lr", "damping", "ridge")
        if hasattr(estimator.algorithm_, name)
    }
    widths = {"hidden": len(estimator.theta_)} if asked["hidden"] == "auto" else {}
    return {name: asked[name] for name in names} | widths | chosen


def next_steps(data: Path, out: Path, estimator: Any, diagnosis: dict[str, Any]) -> list[str]:
    """Say what to do with the model, depending on the verdict."""
    packed = data.suffix.lower() == ".gz"
    folder, suffix = (
        shlex.quote(str(out)),
        "".join(data.suffixes[-2:] if packed else [data.suffix]) or ".csv",
    )
    worst = next((found for found in diagnosis["findings"] if found["status"] != "ok"), None)
    first = f"{worst['name']}: {worst['advice']}" if worst else ""
    steps = []
    if diagnosis["verdict"] == "do not trust":
        subject = "the train error" if estimator.method == "gradient" else "the estimate"
        steps.append(
            f"Do not quote {subject}. Take some rows out of the table, train again, and compare: "
            f"`decoupled predict {folder} those-rows{suffix}` reports the actual error."
        )
        steps.append(f"Or look at the cause: {first}.")
    elif diagnosis["verdict"] == "caution":
        steps.append(
            f"Quote the estimate together with its caution. {first[:1].upper()}{first[1:]}."
        )
    falling = estimator.best_iter_ == estimator.n_iter_ - 1 and estimator.method != "gradient"
    if falling and estimator.stop_reason_.startswith("steps"):
        steps.append(f"The error was still falling: try `--max-iter {2 * estimator.max_iter}`.")
    steps.append(
        f"Predict new rows: `decoupled predict {folder} new{suffix} --out predictions.csv`"
    )
    return steps


def to_dict(report: ReportData, target: str, files: dict[str, Path]) -> dict[str, Any]:
    """Return the result for machines."""
    error = interval(report.estimated_error, report.estimated_error_stderr)
    score = score_interval(report)
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
        "estimated_score_interval": score[1:] or None,
        "verdict": (report.diagnosis or {})["verdict"],
        "summary": (report.diagnosis or {})["summary"],
        "findings": (report.diagnosis or {})["findings"],
        "steps": len(report.train_error),
        "best_step": report.best_step,
        "stop_reason": report.stop_reason,
        "settings": dict(report.settings),
        "candidates": [dict(one) for one in report.candidates],
        "notes": list(report.notes),
        "next_steps": [step.replace("`", "") for step in report.next_steps],
        "files": {name: str(path) for name, path in files.items()},
    }
