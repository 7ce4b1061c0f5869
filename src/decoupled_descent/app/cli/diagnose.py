"""``decoupled diagnose``: check a table before training on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import decoupled_descent as dd
from decoupled_descent.app.cli import options
from decoupled_descent.checks import counted

if TYPE_CHECKING:
    from decoupled_descent.app.cli.tables import TrainingTable


def diagnose(
    data: options.Data,
    target: options.Target,
    task: options.Task = None,
    identifier: options.Identifier = None,
    drop: options.Drop = None,
    missing: options.Missing = None,
    plain: options.Plain = None,
    sheet: options.Sheet = None,
    as_json: options.Json = False,
) -> None:
    """Check before training whether the train error will be a good estimate of the test error.

    The columns are prepared as in `train`. After training, `train` makes more checks.
    """
    options.must_exist(data)
    from decoupled_descent.app.cli.tables import Wishes, prepare
    from decoupled_descent.app.files.standard_input import table_path

    wishes = Wishes(
        None, identifier, tuple(drop or ()), tuple(missing or ()), sheet=sheet,
        plain=tuple(plain or ()),
    )  # fmt: skip
    with table_path(data) as path:
        prepared = prepare(path, target, task, wishes)
    from decoupled_descent.app.cli.output import console, echo_json, few, heading, points, verdict

    diagnosis = before_training(prepared).to_dict()
    n, d = prepared.X.shape
    if as_json:
        about = {"data": data, "target": target, "task": prepared.task, "rows": n, "features": d}
        echo_json(about | diagnosis | {"notes": prepared.notes})
        return
    screen = console()
    screen.print(f"{data.name}: {prepared.task} of {target!r}, {n:,} rows, {counted(d, 'feature')}")
    if prepared.notes:
        heading(screen, "What was done to the columns")
        points(screen, few(prepared.notes, "--json"))
    verdict(screen, diagnosis, everything=True)


def before_training(prepared: TrainingTable) -> dd.evaluation.Diagnosis:
    """Diagnose a table as the estimators see it: with centred and scaled columns."""
    import math

    import numpy as np
    import torch

    from decoupled_descent.app.cli import findings
    from decoupled_descent.evaluation.checks.diagnosis import diagnose_table
    from decoupled_descent.tables.features.scaling import ColumnScales

    classes = prepared.task.has_classes
    X, y = prepared.in_memory
    scaled = ColumnScales.learn(X).apply(X)
    rows = (scaled / math.sqrt(scaled.shape[1])).float()
    if classes:
        labels = torch.from_numpy(np.unique(y, return_inverse=True)[1].reshape(-1))
    else:
        standard = (y - y.mean()) / (y.std() or 1.0)
        labels = torch.from_numpy(standard).float()
    diagnosis = dd.diagnose(rows, labels, task=prepared.task, algorithm=dd.DecoupledNewton(1.0))
    of_table = diagnose_table(findings.table_of(prepared))
    return diagnosis.with_findings(of_table).for_command_line()
