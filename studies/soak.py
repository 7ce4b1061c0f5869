"""Make many steps with checkpoints and a callback, and record the resident memory on the way.

``python studies/soak.py --steps 100000`` prints resident megabytes every tenth of the run, and
what the history itself takes.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import tempfile
import time
from pathlib import Path

import torch

import decoupled_descent as dd


def resident() -> float:
    """Megabytes of this process in memory, after free memory was given back to the system."""
    if hasattr(library := ctypes.CDLL(None), "malloc_trim"):
        library.malloc_trim(0)
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in x)
    return int(line.split()[1]) / 1024


def main() -> None:
    """Train, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--every", type=int, default=1000, help="Steps between checkpoints.")
    options = parser.parse_args()
    torch.set_num_threads(1)
    X, y = dd.mixtures.xor(1000, 4.0).sample(1000, seed=0)
    objective = dd.Objective(dd.heads.TwoLayer(4, seed=0), "logistic")
    algorithm, begun = dd.DecoupledDescent(0.01, 0.99), time.monotonic()

    def told(step: dd.training.Step) -> None:
        if step.index % (options.steps // 10) == 1:
            passed = time.monotonic() - begun
            print(f"step {step.index}: {resident():.1f} MB, {passed:.0f} s", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        often = dd.Checkpoint(folder, every=options.every)
        run = dd.fit(X, y, objective, algorithm, options.steps, callbacks=told, checkpoint=often)
    lists = [run.history.train_error, run.history.train_error_stderr]
    # Python hands out memory in units of 16 bytes
    taken = [-(-sys.getsizeof(number) // 16) * 16 for each in lists for number in each]
    size = sum(map(sys.getsizeof, lists)) + sum(taken)
    print(f"end: {resident():.1f} MB; history {size / 2**20:.1f} MB")


if __name__ == "__main__":
    main()
