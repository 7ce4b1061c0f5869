"""Time of a step with rows divided among processes.

``torchrun --nproc-per-node 2 docs/studies/processes.py`` and the same with 1, both with
``OMP_NUM_THREADS=1``, print the least and the median time of a step of decoupled descent on 20,000
rows of 4,000 columns with 8 pre-activations.
"""

from __future__ import annotations

import statistics
import time
import warnings
from itertools import pairwise

import torch
import torch.distributed as dist

import decoupled_descent as dd

N, D, WIDTH, STEPS = 20_000, 4000, 8, 15


def main() -> None:
    """Train on this process's share, and print from the first process."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    X = torch.randn(N // size, D, generator=torch.Generator().manual_seed(rank)) / D**0.5
    rows = dd.Rows(X, (X[:, 0] > 0).float(), group=dist.group.WORLD)
    objective = dd.Objective(dd.heads.TwoLayer(WIDTH, seed=0), "logistic")
    moments: list[float] = []

    def told(_: dd.Step) -> None:
        moments.append(time.perf_counter())

    dd.fit(
        rows, None, objective, dd.DecoupledDescent(0.01, 0.9), STEPS,
        callbacks=told,
    )  # fmt: skip
    times = [1000 * (b - a) for a, b in pairwise(moments)]
    if rank == 0:
        middle = statistics.median(times)
        print(f"{size} process(es): {min(times):.1f} ms at least, median {middle:.1f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
