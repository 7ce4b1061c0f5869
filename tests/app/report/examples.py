"""Reports to test with: one of a real model, and made-up ones of any shape."""

import dataclasses
import functools

import numpy as np
import torch
from sklearn import datasets, metrics

import decoupled_descent as dd
from decoupled_descent.app.report import ReportData
from decoupled_descent.app.report.data import Estimates, RowPredictions, Training
from decoupled_descent.checks import Target, error_interval
from decoupled_descent.datasets.whitening import Whitening

DIAGNOSIS = {
    "verdict": "caution",
    "summary": "Heavy tails make the interval less sure.",
    "findings": [
        {"name": "rows per feature", "value": 44.2, "threshold": 2.0, "status": "ok",
         "reason": "There are enough rows.", "advice": ""},
        {"name": "row norms", "value": 0.8, "threshold": 0.5, "status": "note",
         "reason": "Some rows are long.", "advice": "Scale them."},
        {"name": "heavy tails", "value": 11.3, "threshold": 9.0, "status": "caution",
         "reason": "Some columns have values far out.", "advice": "Clip them."},
        {"name": "duplicates", "value": 0.31, "threshold": 0.01, "status": "alarm",
         "reason": "Rows occur twice.", "advice": None},
    ],
}  # fmt: skip


@functools.cache
def regression():
    """A real model of the diabetes data, chosen among two."""
    X, y = datasets.load_diabetes(return_X_y=True)
    rows = torch.tensor(Whitening("vanilla").fit_transform(X), dtype=torch.float32)
    target = torch.tensor((y - y.mean()) / y.std(), dtype=torch.float32)
    objective = dd.Objective(dd.heads.TwoLayer(5, seed=0), "squared")
    grid = [dd.OrthogonalDecoupledDescent(2.0, 0.9, r, reduction="mean") for r in (0.3, 1.0)]
    sweep = dd.sweep(rows, target, objective, grid, steps=40)
    run, state = sweep.best, sweep.best.best_state
    outputs = run.objective.outputs(state.preactivations.T, state.head).double().numpy()
    error, stderr, _ = sweep.corrected_error
    return ReportData(
        title="diabetes.csv: progression", task=Target.NUMBERS, n_rows=442, n_features=10,
        training=Training(
            errors=run.train_error, stderrs=run.train_error_stderr, best_step=run.best_step,
            stop_reason=str(run.stop_reason),
            settings={"lr": 2.0, "head": "TwoLayer(5)", "seed": 0},
            candidates=[r | {"chosen": k == sweep.best_index} for k, r in enumerate(sweep.records)],
        ),
        estimate=Estimates(
            loss_name="squared error", error=error, error_stderr=stderr, score_name="R²",
            score=metrics.r2_score(y, outputs * y.std() + y.mean()), score_stderr=0.035,
            error_interval=error_interval(error, stderr), score_interval=(0.43, 0.56),
        ),
        rows=RowPredictions(labels=y, predictions=outputs * y.std() + y.mean()),
        diagnosis=DIAGNOSIS, notes=["Standardised all columns."], next_steps=["Collect more rows."],
    )  # fmt: skip


def changed(data, **changes):
    """The same report with other fields, wherever they are in its groups."""
    for name, value in changes.items():
        if name in {field.name for field in dataclasses.fields(data)}:
            data = dataclasses.replace(data, **{name: value})
            continue
        (group,) = (
            field.name
            for field in dataclasses.fields(data)
            if dataclasses.is_dataclass(part := getattr(data, field.name)) and hasattr(part, name)
        )
        part = vars(getattr(data, group)) | {
            other: one for other, one in changes.items() if hasattr(getattr(data, group), other)
        }
        data = dataclasses.replace(data, **{group: type(getattr(data, group))(**part)})
    return data


def classification(count=3, rows=600, seed=0, **changes):
    """A report on made-up labels, of which about one in five is predicted wrong."""
    random = np.random.default_rng(seed)
    names = [f"class {k}" for k in range(count)]
    labels = random.integers(count, size=rows)
    wrong = random.random(rows) < 0.2
    predictions = np.where(wrong, random.integers(count, size=rows), labels)
    accuracy = float((labels == predictions).mean())
    steps = np.arange(30)
    data = ReportData(
        title="made up", task=Target.CLASSES, n_rows=rows, n_features=7,
        training=Training(
            errors=list(0.4 + np.exp(-steps / 5)), stderrs=[0.02] * 30, best_step=29,
            stop_reason="steps exhausted", settings={"lr": 0.1},
            candidates=[{"lr": 0.1, "lowest train error": 0.41, "chosen": True}],
        ),
        estimate=Estimates(
            loss_name="log loss", error=0.41234, error_stderr=0.0212, score_name="accuracy",
            score=accuracy, score_stderr=(accuracy * (1 - accuracy) / rows) ** 0.5,
            error_interval=(0.372, 0.455), score_interval=(accuracy - 0.03, accuracy + 0.03),
        ),
        rows=RowPredictions(
            labels=[names[k] for k in labels], predictions=[names[k] for k in predictions],
            classes=names,
        ),
    )  # fmt: skip
    return changed(data, **changes)
