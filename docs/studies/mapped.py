"""One step on a memory map that is larger than memory: time, and resident memory.

``python docs/studies/mapped.py --gigabytes 40`` makes a sparse file, sums it with NumPy, makes
``Rows`` of it and one step of gradient descent, and prints the rate of each and the largest
resident memory of the process that trains. The file is removed at the end.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import decoupled_descent as dd

D = 1000


def mapped(path: str) -> np.memmap:
    """The file as a matrix."""
    return np.memmap(path, np.float32, "r").reshape(-1, D)


def summed(path: str) -> None:
    """What a plain NumPy sum of the file takes."""
    begun = time.monotonic()
    mapped(path).sum(0, dtype=np.float32)
    report("NumPy's sum", path, begun)


def trained(path: str, threads: int) -> None:
    """What checking the rows and one step take."""
    torch.set_num_threads(threads)
    X = mapped(path)
    y = torch.arange(len(X)) % 2
    begun = time.monotonic()
    rows = dd.Rows(X, y.float())
    report("reading and checking", path, begun)
    objective = dd.Objective(dd.heads.TwoLayer(4, seed=0), "logistic")
    bound = (algorithm := dd.GradientDescent(0.01, reduction="mean")).bind(rows, objective)
    state = algorithm.init(rows, bound, seed=0)
    begun = time.monotonic()
    algorithm.step(state, rows, bound)
    report("a step of gradient descent", path, begun)
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"largest resident memory {largest:.2f} GB")


def report(what: str, path: str, begun: float) -> None:
    """Print a rate."""
    seconds = time.monotonic() - begun
    size = Path(path).stat().st_size / 1e9
    print(f"{what}: {size:.0f} GB in {seconds:.1f} s, {size / seconds:.2f} GB/s", flush=True)


def main() -> None:
    """Make the file, and start each measurement in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--part", choices=["sum", "train"])
    parser.add_argument("--path")
    options = parser.parse_args()
    if options.part:
        summed(options.path) if options.part == "sum" else trained(options.path, options.threads)
        return
    with tempfile.NamedTemporaryFile(dir=options.folder) as file:
        file.truncate(options.gigabytes * 10**9 // (4 * D) * 4 * D)
        for part in ("sum", "train", "sum"):
            command = [sys.executable, __file__, "--part", part, "--path", file.name]
            subprocess.run([*command, "--threads", str(options.threads)], check=True)


if __name__ == "__main__":
    main()
