"""``decoupled train --distributed``: one of several processes that torchrun starts."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from decoupled_descent.app.files.process_group import ProcessGroup

if TYPE_CHECKING:
    from decoupled_descent.app.cli.tables import TrainingTable
    from decoupled_descent.rows.blocks import Rows
    from decoupled_descent.rows.processes import Processes

#: Seconds to wait for the other processes.
TIMEOUT = 120.0


class TorchProcessGroup(ProcessGroup):
    """The processes that torchrun starts. They exchange data through PyTorch."""

    @cached_property
    def _processes(self) -> Processes:
        import torch.distributed as dist

        from decoupled_descent.rows.processes import Processes

        return Processes(dist.group.WORLD, TIMEOUT)

    def all_gather_bytes(self, content: bytes) -> list[bytes]:
        """Return the content that each process passes, by rank."""
        return self._processes.all_gather_bytes(content)


def this_process_group() -> ProcessGroup:
    """Read from the variables of torchrun which process this is, or raise ``ValueError``."""
    try:
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError) as error:
        raise ValueError(
            "--distributed is for processes that torchrun starts: torchrun --nproc-per-node 2 "
            "--no-python decoupled train …"
        ) from error
    return TorchProcessGroup(rank, size)


@contextmanager
def joined(resume: bool) -> Iterator[None]:
    """Join the other processes; a lost one is an ``OSError`` that names it."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # a lost process is reported here
    from datetime import timedelta

    import torch.distributed as dist

    from decoupled_descent.rows.processes import ProcessLostError

    try:
        dist.init_process_group("gloo", timeout=timedelta(seconds=TIMEOUT))
    except (RuntimeError, ValueError) as error:
        raise OSError(f"--distributed: the processes do not find each other ({error})") from error
    try:
        yield
    except ProcessLostError as error:
        lost = str(error).split(" (")[0]  # without the words of PyTorch
        again = "the same command continues" if resume else "start all processes again"
        raise OSError(f"--distributed: {lost}; {again}") from error
    dist.destroy_process_group()


def rows_of(prepared: TrainingTable) -> Rows:
    """The rows of this process, as a part of those of all; all must have read the same table."""
    import torch
    import torch.distributed as dist

    from decoupled_descent.rows.blocks import Rows

    rows = Rows(prepared.X, group=dist.group.WORLD, timeout=TIMEOUT)
    sums = rows.processes.all_gather(torch.tensor(_checksum(prepared), dtype=torch.int64))
    other = (sums != sums[0]).nonzero().flatten().tolist()
    if other or rows.n != len(prepared.y):
        raise ValueError(
            f"--distributed: rank {', '.join(map(str, other)) or 0} has read another table than "
            "rank 0; all processes must read the same file, with the same options"
        )
    return rows


def _checksum(prepared: TrainingTable) -> int:
    """A number that depends on labels and on how columns are treated."""
    text = json.dumps([prepared.columns.to_dict(), prepared.task])
    labels = "\n".join(map(str, prepared.y.tolist()))
    digest = hashlib.sha256(f"{text}\n{labels}".encode()).digest()
    return int.from_bytes(digest[:7], "big")
