"""Reports to test with: one of a real model, and made-up ones of any shape."""

import dataclasses
import functools

import numpy as np
import torch
from sklearn import datasets, metrics

import decoupled_descent as dd
from decoupled_descent.app.report import ReportData
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
        title="diabetes.csv: progression", task="regression", n_rows=442, n_features=10,
        train_error=run.train_error, train_error_stderr=run.train_error_stderr,
        best_step=run.best_step, stop_reason=str(run.stop_reason), loss_name="squared error",
        estimated_error=error, estimated_error_stderr=stderr, score_name="R²",
        estimated_score=metrics.r2_score(y, outputs * y.std() + y.mean()),
        estimated_score_stderr=0.035, labels=y, predictions=outputs * y.std() + y.mean(),
        classes=None,
        candidates=[r | {"chosen": k == sweep.best_index} for k, r in enumerate(sweep.records)],
        diagnosis=DIAGNOSIS, settings={"lr": 2.0, "head": "TwoLayer(5)", "seed": 0},
        notes=["Standardised all columns."], next_steps=["Collect more rows."], corrected=True,
    )  # fmt: skip


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
        title="made up", task="classification", n_rows=rows, n_features=7,
        train_error=list(0.4 + np.exp(-steps / 5)), train_error_stderr=[0.02] * 30, best_step=29,
        stop_reason="steps exhausted", loss_name="log loss", estimated_error=0.41234,
        estimated_error_stderr=0.0212, score_name="accuracy", estimated_score=accuracy,
        estimated_score_stderr=(accuracy * (1 - accuracy) / rows) ** 0.5,
        labels=[names[k] for k in labels], predictions=[names[k] for k in predictions],
        classes=names, candidates=[{"lr": 0.1, "lowest train error": 0.41, "chosen": True}],
        diagnosis=None, settings={"lr": 0.1}, notes=[], next_steps=[], corrected=True,
    )  # fmt: skip
    return dataclasses.replace(data, **changes)
