"""Rows that are divided among processes: sums over all processes, and which ones are lost."""

from __future__ import annotations

import time
import weakref
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from decoupled_descent.checks import real_number

#: Seconds that processes wait for the reports of the others after a sum has failed.
GRACE = 5.0


class ProcessLostError(RuntimeError):
    """Another process of the group is gone, or did not answer in time."""


class Alone:
    """One process that has all rows."""

    alone = True  # whether there is no other
    rank, size = 0, 1
    part = ""  # the name of what one process saves

    def total(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """Sums of tensors over all processes, in one message; the same bits in each process."""
        return list(parts)

    def all_gather(self, values: Tensor) -> Tensor:
        """What every process passes, by rank, shape (processes, …)."""
        return values.unsqueeze(0)

    def all_gather_bytes(self, content: bytes) -> list[bytes]:
        """The bytes that every process passes, by rank."""
        return [content]

    def any(self, flag: bool) -> bool:
        """Whether this is so in any process."""
        return flag

    def smallest(self, number: int) -> int:
        """The smallest of one whole number per process."""
        return number


class Processes(Alone):
    """The processes of a group of ``torch.distributed``, each with its own rows.

    Args:
        group: The group; ``torch.distributed.group.WORLD`` for all processes.
        timeout: Seconds to wait for the others.
    """

    alone = False

    def __init__(self, group: Any, timeout: float) -> None:
        if not dist.is_available() or not dist.is_initialized():
            raise ValueError(
                "group= needs processes that know each other: start them with torchrun and call "
                "torch.distributed.init_process_group('gloo') first"
            )
        self.timeout = real_number("timeout", timeout)
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        # A group that outlives destroy_process_group has threads that run while Python shuts
        # down, which can abort the process: rows that still exist then must not keep it alive.
        self._group = weakref.ref(dist.group.WORLD if group is None else group)
        # The sum itself ends then. If only the wait for it did, the process could not end: its last
        # act is to wait for the sum, for as long as the group allows, half an hour by default.
        self._limits = dist.AllreduceOptions()
        self._limits.timeout = timedelta(seconds=self.timeout)
        self._sums = 0
        self.part = f"rank {self.rank} of {self.size}"

    @property
    def group(self) -> Any:
        """The group of these processes, or raise ``ProcessLostError`` after it was destroyed."""
        group = self._group()
        if group is None:
            raise ProcessLostError(
                "the group of these rows was destroyed; call "
                "torch.distributed.destroy_process_group() after the last use of the rows"
            )
        return group

    def total(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """Sums of tensors over all processes, in one message; the same bits in each process."""
        widest = torch.float64 if any(p.dtype == torch.float64 for p in parts) else parts[0].dtype
        flat = torch.cat([part.reshape(-1).to(widest) for part in parts])
        self._sums += 1
        group = self.group
        try:
            group.allreduce([flat], self._limits).wait()
        except RuntimeError as error:
            raise ProcessLostError(self._lost(error)) from error
        sums = torch.split(flat, [part.numel() for part in parts])
        return [one.view(part.shape).to(part.dtype) for one, part in zip(sums, parts, strict=True)]

    def all_gather(self, values: Tensor) -> Tensor:
        """What every process passes, by rank, shape (processes, …)."""
        padded = values.new_zeros(self.size, *values.shape)
        padded[self.rank] = values
        return self.total([padded])[0]

    def all_gather_bytes(self, content: bytes) -> list[bytes]:
        """The bytes that every process passes, by rank."""
        ends = self.all_gather(torch.tensor(len(content), device="cpu")).cumsum(0).tolist()
        padded, stop = torch.zeros(ends[-1], dtype=torch.uint8), ends[self.rank]
        if content:
            own = torch.frombuffer(bytearray(content), dtype=torch.uint8)
            padded[stop - len(content) : stop] = own
        gathered = self.total([padded])[0].numpy().tobytes()
        return [gathered[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def any(self, flag: bool) -> bool:
        """Whether this is so in any process."""
        return self.smallest(-int(flag)) < 0

    def smallest(self, number: int) -> int:
        """The smallest of one whole number per process."""
        return int(self.all_gather(torch.tensor(number, device="cpu")).min())

    def _lost(self, error: RuntimeError) -> str:
        """Name the lost processes: those that do not report that the sum failed."""
        others, name = [k for k in range(self.size) if k != self.rank], f"decoupled {self._sums} "
        deadline = time.monotonic() + GRACE
        try:
            if len(others) > 1:  # one of them is lost, at least
                store = dist.distributed_c10d._get_default_store()
                store.set(f"{name}{self.rank}", "failed")
            while len(others) > 1 and time.monotonic() < deadline:
                others = [k for k in others if not store.check([f"{name}{k}"])]
                time.sleep(0.05)
        except RuntimeError:  # the process that keeps the store is gone
            others = [0]
        reason = " ".join(str(error).split())
        return (
            f"rank {', '.join(map(str, others)) or 'unknown'} of {self.size} is gone or did not "
            f"answer within {self.timeout:g} seconds ({reason:.100}); start all processes again, "
            "with the same checkpoint= to continue from the last one"
        )
