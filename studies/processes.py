"""Time of a step with rows divided among processes.

``OMP_NUM_THREADS=1 torchrun --nproc-per-node 2 studies/processes.py`` prints times of steps
with rows in two processes over those with all rows in the first process alone, in turns: of
decoupled descent on 20,000 rows of 4,000 columns with 8 pre-activations, and of the Newton method
on 20,000 rows of 1,000 columns. ``--rounds`` sets how often; the least time of each counts. What
the machine allows is measured in the same turns: each process trains on its own rows at the same
time as the others, without a message. On a busy machine processor times say more.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

import decoupled_descent as dd

N = 20_000
LOGISTIC = dd.Objective(dd.heads.TwoLayer(8, seed=0), "logistic")
LINEAR = dd.Objective(dd.heads.Linear(intercept=True).double(), "logistic")
#: Columns, dtype, objective and algorithm, and how many steps a round has.
CASES: dict[str, tuple[int, torch.dtype, dd.Objective, Any, int]] = {
    "decoupled descent": (4000, torch.float32, LOGISTIC, dd.DecoupledDescent(0.01, 0.9), 3),
    "Newton": (1000, torch.float64, LINEAR, dd.DecoupledNewton(10.0), 1),
}


def drawn(rows: slice, d: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Some of the rows; all processes draw the same ones."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(N, d, generator=generator)[rows].to(dtype) / d**0.5
    return X, (X[:, 0] > 0).to(dtype)


class Times(NamedTuple):
    """Milliseconds of steps, by the clock and of the processor."""

    clock: list[float]
    processor: list[float]

    def add(self, rows: dd.Rows, case: str) -> None:
        """Make steps from the same start, without the first, which prepares what is kept."""
        _, _, objective, algorithm, steps = CASES[case]
        bound = algorithm.bind(rows, objective)
        state = algorithm.init(rows, bound, seed=0)
        for k in range(steps + 1):
            begun = time.perf_counter(), time.process_time()
            algorithm.step(state, rows, bound)
            if k:
                self.clock.append(1000 * (time.perf_counter() - begun[0]))
                self.processor.append(1000 * (time.process_time() - begun[1]))

    def over(self, other: Times) -> str:
        """Ratios of least and median times, and of median processor times."""
        least, middle = min(self.clock) / min(other.clock), statistics.median
        medians = (middle(mine) / middle(its) for mine, its in zip(self, other, strict=True))
        return "{:.2f} (medians {:.2f}, processor time {:.2f})".format(least, *medians)


def main() -> None:
    """Measure in turns, and print from the first process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    for name in options.cases:
        d, dtype, *_ = CASES[name]
        mine = drawn(slice(rank * N // size, (rank + 1) * N // size), d, dtype)
        divided, own = dd.Rows(*mine, group=dist.group.WORLD), dd.Rows(*mine)
        whole = dd.Rows(*drawn(slice(None), d, dtype)) if rank == 0 else None
        alone, together, apart = (Times([], []) for _ in range(3))
        for _ in range(options.rounds):
            dist.barrier()
            if whole is not None:
                alone.add(whole, name)
            dist.barrier()
            together.add(divided, name)
            dist.barrier()
            apart.add(own, name)
        if rank == 0:
            print(
                f"{name}: {min(alone.clock):.0f} ms in one process, {min(together.clock):.0f} in "
                f"{size}: {together.over(alone)}; without messages {apart.over(alone)}",
                flush=True,
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
