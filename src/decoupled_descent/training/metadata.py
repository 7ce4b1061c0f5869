"""What a run was made with: where all of it is the same, so are the bits of the results."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

import decoupled_descent
from decoupled_descent.rows.blocks import Rows

#: The key under which a run that was continued elsewhere names what was different there.
CONTINUED = "continued with"


def made_with(rows: Rows) -> dict[str, Any]:
    """Versions, machine, threads in use now, and how the rows are handed out.

    Example:
        >>> made = made_with(Rows(torch.zeros(5, 3), torch.zeros(5), block_size=2))
        >>> made["block_size"], made["dtype"], made["device"], made["processes"]
        (2, 'float32', 'cpu', 1)
    """
    return {
        "decoupled_descent": decoupled_descent.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "processes": 1 if rows.processes is None else rows.processes.size,
        "block_size": rows.block_size,
        "device": str(rows.like.device),
        "dtype": str(rows.like.dtype).removeprefix("torch."),
    }


def continued(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Add to what a run was made with what is different now that it continues.

    Example:
        >>> continued({"torch": "2.13.0", "threads": 2}, {"torch": "2.13.0", "threads": 4})
        {'torch': '2.13.0', 'threads': 2, 'continued with': {'threads': 4}}
        >>> continued({}, {"threads": 4})
        {'threads': 4}
    """
    if not before:
        return dict(now)
    other = {name: value for name, value in now.items() if before.get(name) != value}
    return {**before, CONTINUED: other} if other else dict(before)
