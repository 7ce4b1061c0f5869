"""Time of a step with rows divided among processes.

``OMP_NUM_THREADS=1 torchrun --nproc-per-node 2 docs/studies/processes.py`` prints times of steps
with rows in two processes over those with all rows in the first process alone, in turns: of
decoupled descent on 20,000 rows of 4,000 columns with 8 pre-activations, and of the Newton method
on 20,000 rows of 1,000 columns. ``--rounds`` sets how often; the least time of each counts.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from typing import Any

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


def timed(rows: dd.Rows, objective: dd.Objective, algorithm: Any, steps: int) -> list[float]:
    """Milliseconds of steps from the same start, after the first, which prepares what is kept."""
    bound = algorithm.bind(rows, objective)
    state, found = algorithm.init(rows, bound, seed=0), []
    for _ in range(steps + 1):
        begun = time.perf_counter()
        algorithm.step(state, rows, bound)
        found.append(1000 * (time.perf_counter() - begun))
    return found[1:]


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
        d, dtype, objective, algorithm, steps = CASES[name]
        share = slice(rank * N // size, (rank + 1) * N // size)
        divided = dd.Rows(*drawn(share, d, dtype), group=dist.group.WORLD)
        whole = dd.Rows(*drawn(slice(None), d, dtype)) if rank == 0 else None
        alone: list[float] = []
        together: list[float] = []
        for _ in range(options.rounds):
            dist.barrier()
            if whole is not None:
                alone += timed(whole, objective, algorithm, steps)
            dist.barrier()
            together += timed(divided, objective, algorithm, steps)
        if rank == 0:
            ratio, middle = min(together) / min(alone), statistics.median(alone)
            print(
                f"{name}: {min(alone):.0f} ms in one process (median {middle:.0f}), "
                f"{min(together):.0f} in {size} (median {statistics.median(together):.0f}): "
                f"{ratio:.2f}",
                flush=True,
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
