"""What a run was made with: where all of it is the same, so are the bits of the results."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import torch

import decoupled_descent
from decoupled_descent.rows.blocks import Rows


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
        "processes": rows.processes.size,
        "block_size": rows.block_size,
        "device": str(rows.like.device),
        "dtype": str(rows.like.dtype).removeprefix("torch."),
    }
