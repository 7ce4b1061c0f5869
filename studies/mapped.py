"""Steps on a memory map: rates of reading, and resident memory.

``python studies/mapped.py --gigabytes 8`` writes a file of random numbers and prints, in
turns, the rate of NumPy's sum of it, of making ``Rows`` and of a step of gradient descent. Before
each, the system forgets the file, so that it comes from the disk, as it does when it is larger than
memory; ``--cached`` leaves it in memory instead. The rate of the products of a step alone is that
of blocks in memory. ``--sparse`` makes a file without content, of any size: for resident memory,
not for rates. The file is removed at the end.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import decoupled_descent as dd
from decoupled_descent.rows.products import backward, forward
from decoupled_descent.rows.sources import READ_BYTES

D, WIDTH = 1000, 4


def mapped(path: str) -> np.memmap:
    """The file as a matrix."""
    return np.memmap(path, np.float32, "r").reshape(-1, D)


def summed(path: str) -> list[float]:
    """What a plain NumPy sum of the file takes."""
    begun = time.monotonic()
    mapped(path).sum(0, dtype=np.float32)
    return [time.monotonic() - begun]


def trained(path: str) -> list[float]:
    """What making rows and one step take, and the largest resident memory in GB."""
    X = mapped(path)
    y = (torch.arange(len(X)) % 2).float()
    begun = time.monotonic()
    rows = dd.Rows(X, y)
    checked = time.monotonic() - begun
    objective = dd.Objective(dd.heads.TwoLayer(WIDTH, seed=0), "logistic")
    bound = (algorithm := dd.GradientDescent(0.01, reduction="mean")).bind(rows, objective)
    state = algorithm.init(rows, bound, seed=0)
    forget(path)
    begun = time.monotonic()
    algorithm.step(state, rows, bound)
    step = time.monotonic() - begun
    return [checked, step, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20]


def multiplied(path: str) -> list[float]:
    """What the products of as many blocks in memory take."""
    size = READ_BYTES // (4 * D)
    blocks = torch.randn(8, size, D)  # more than the caches hold
    theta, q = torch.randn(WIDTH, D), torch.randn(WIDTH, size)
    begun = time.monotonic()
    for k in range(len(mapped(path)) // size):
        forward(theta, blocks[k % 8])
        backward(q, blocks[k % 8])
    return [time.monotonic() - begun]


PARTS = {"sum": summed, "train": trained, "multiply": multiplied}


def forget(path: str) -> None:
    """Have the system drop what it has of a file in memory, unless it was asked not to."""
    if os.environ.get("DECOUPLED_CACHED") is None:
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def fill(path: str, gigabytes: int, sparse: bool) -> None:
    """Make the file."""
    if sparse:
        os.truncate(path, gigabytes * 10**9 // (4 * D) * 4 * D)
        return
    block = np.random.default_rng(0).standard_normal((25_000, D), np.float32)
    with Path(path).open("wb") as file:
        for _ in range(10 * gigabytes):
            file.write(block)


def measured(part: str, path: str, threads: int) -> list[float]:
    """Measure in a process of its own."""
    forget(path)
    command = [sys.executable, __file__, "--part", part, "--path", path, "--threads", str(threads)]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [float(word) for word in found.split()]


def main() -> None:
    """Make the file, and start each measurement in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cached", action="store_true")
    parser.add_argument("--sparse", action="store_true")
    parser.add_argument("--folder", default=None)
    parser.add_argument("--part", choices=list(PARTS))
    parser.add_argument("--path")
    options = parser.parse_args()
    if options.part:
        torch.set_num_threads(options.threads)
        print(*PARTS[options.part](options.path))
        return
    if options.cached:
        os.environ["DECOUPLED_CACHED"] = "1"
    with tempfile.NamedTemporaryFile(dir=options.folder) as file:
        fill(file.name, options.gigabytes, options.sparse)
        found: dict[str, list[list[float]]] = {part: [] for part in PARTS}
        for _ in range(options.rounds):
            for part, times in found.items():
                times.append(measured(part, file.name, options.threads))
    sums, multiplied = ([times[0] for times in found[part]] for part in ("sum", "multiply"))
    checks, steps, memory = zip(*found["train"], strict=True)
    for name, times in {
        "NumPy's sum": sums, "making Rows": checks, "a step": steps, "products alone": multiplied,
    }.items():  # fmt: skip
        rates = [options.gigabytes / seconds for seconds in times]
        each = ", ".join(f"{rate:.2f}" for rate in rates)
        print(f"{name}: {each} GB/s; median {statistics.median(rates):.2f}, best {max(rates):.2f}")
    ratios = [one / other for one, other in zip(sums, steps, strict=True)]
    print(f"a step over the sum: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")
    print(f"largest resident memory {max(memory):.2f} GB")


if __name__ == "__main__":
    main()
