"""``decoupled diagnose``: look at a table before training on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
import typer

import decoupled_descent as dd
from decoupled_descent.cli.output import Json, console, echo_json, few, heading, points, verdict
from decoupled_descent.cli.tables import Prepared, prepare

Task = Literal["classification", "regression"]
Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="Table: .csv, .tsv, .txt (also .gz), .parquet, .npz or .npy.",
        show_default=False,
    ),
]
Target = Annotated[
    str, typer.Option(metavar="COLUMN", help="The column to predict.", show_default=False)
]
TaskOption = Annotated[
    Task | None,
    typer.Option(
        metavar="TASK",
        help="classification or regression; recognised by default.",
        show_default=False,
    ),
]


def diagnose(data: Data, target: Target, task: TaskOption = None, as_json: Json = False) -> None:
    """Say before training whether the train error may be taken for the test error.

    The columns are prepared as `train` does it. After training, `train` knows more and says it.
    """
    prepared = prepare(data, target, task)
    found = before_training(prepared).to_dict()
    n, d = prepared.X.shape
    if as_json:
        about = {"data": data, "target": target, "task": prepared.task, "rows": n, "features": d}
        echo_json(about | found | {"notes": prepared.notes})
        return
    screen = console()
    screen.print(f"{data.name}: {prepared.task} of {target!r}, {n:,} rows, {d:,} features")
    if prepared.notes:
        heading(screen, "What was done to the columns")
        points(screen, few(prepared.notes, "--json"))
    verdict(screen, found, everything=True)


def before_training(prepared: Prepared) -> dd.Diagnosis:
    """Diagnose a table as the estimators would see it: columns centred and scaled."""
    classes = prepared.task == "classification"
    estimator = dd.DecoupledClassifier() if classes else dd.DecoupledRegressor()
    estimator.learn_scale(prepared.X)
    if classes:
        labels = np.unique(prepared.y, return_inverse=True)[1].reshape(-1)
    else:
        labels = (prepared.y - prepared.y.mean()) / (prepared.y.std() or 1.0)
    rows = torch.from_numpy(estimator.scaled(prepared.X)).float()
    targets = torch.from_numpy(labels)
    return dd.diagnose(rows, targets if classes else targets.float(), task=prepared.task)
