r"""Whether the estimate holds for later rows, or only for rows between those of the table.

If the relation of target and columns changes with time, a row is predicted from rows just before
and just after it. Rows of the future have none after them. The order of the rows in the table does
not show it, but a column of dates does. So the rows are sorted by it and left out in ten parts of
the same period, and the error is compared with that of ten random parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from decoupled_descent.evaluation.checks.measures import Rise, losses_left_out, rise_of
from decoupled_descent.evaluation.checks.time_names import is_time
from decoupled_descent.rows.blocks import Rows

if TYPE_CHECKING:
    from decoupled_descent.evaluation.checks.check import Evidence
    from decoupled_descent.training.run import Run

#: The rows are left out in this many parts.
PARTS = 10
#: With fewer rows a part has less than three.
FEWEST = 30
#: Columns that grow in the first rows are looked at further.
FIRST = 50


class TimeColumn(NamedTuple):
    """A column that may be the time of the rows."""

    name: str
    values: Tensor  # shape (n,)
    is_certain: bool  # whether it is a date, or has the name of one


def time_columns(evidence: Evidence) -> list[TimeColumn]:
    """The times that were given, or else columns with such a name or that grow with the row."""
    if evidence.time is not None:
        return [TimeColumn(name, values, True) for name, values in evidence.time.items()]
    columns, names = evidence.named_columns
    if not len(names):
        return []
    device = columns.like.device
    steps = columns.gather(torch.arange(min(FIRST, columns.n), device=device)).diff(dim=0)
    grows = ((steps > 0).all(0) | (steps < 0).all(0)).tolist()
    chosen = [k for k, name in enumerate(names) if grows[k] or is_time(str(name))]
    if not chosen:
        return []
    values = columns.gather(torch.arange(columns.n, device=device))[:, chosen].double()
    steps = values.diff(dim=0)
    grows = ((steps > 0).all(0) | (steps < 0).all(0)).tolist()
    varies = (values != values[:1]).any(0).tolist()
    return [
        TimeColumn(str(names[k]), values[:, j], is_time(str(names[k])))
        for j, k in enumerate(chosen)
        if varies[j] and (grows[j] or is_time(str(names[k])))
    ]


def rise_without_period(run: Run, rows: Rows, time: Tensor) -> Rise | None:
    """How much more the rows of the same period matter than random rows; None without a minimum.

    Args:
        run: At a minimum.
        rows: The rows of the run.
        time: The time of each row, shape (n,); rows of the same time are in random order.
    """
    n, generator = rows.n, torch.Generator().manual_seed(0)
    shuffled = torch.randperm(n, generator=generator)
    order = shuffled[torch.argsort(time.cpu()[shuffled], stable=True)]
    periods = torch.empty(n, dtype=torch.long)
    periods[order] = torch.arange(n) * PARTS // n
    parts = torch.randperm(n, generator=generator) * PARTS // n
    near, far = (losses_left_out(run, rows, one) for one in (periods, parts))
    if near is None or far is None:
        return None
    return rise_of((near - far).cpu(), periods)


def as_times(time: object, n: int) -> dict[str, Tensor] | None:
    """Times by name, from one array or from several with names."""
    if time is None:
        return None
    named = time if isinstance(time, Mapping) else {"time": time}
    times = {str(name): torch.tensor(np.asarray(one, float)) for name, one in named.items()}
    for name, values in times.items():
        if values.shape != (n,):
            raise ValueError(f"time {name!r} has shape {tuple(values.shape)}; pass {n} numbers")
    return times
