"""Kill training at random moments and start it again, until it has been killed often enough.

``python studies/kills.py --cycles 100`` prints, for each kind of call, how many processes
were killed by SIGKILL, how many runs were finished, and how many of those differ from an
uninterrupted run. The calls are ``fit``, the same with mini-batches, ``sweep``, and ``decoupled
train --resume``. Processes are forked, so that each starts at once.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import decoupled_descent as dd
from decoupled_descent.app.cli.command import app

#: Trains in a folder; returns all that came of it.
Call = Callable[[Path], object]


def fit(folder: Path) -> object:
    """A run with early stopping."""
    (X, y), objective = problem()
    stopping = dd.EarlyStopping(patience=400)
    algorithm = dd.DecoupledDescent(0.05, 0.99)
    where = dd.Checkpoint(folder, seconds=0)
    return numbers(dd.fit(X, y, objective, algorithm, 500, callbacks=stopping, checkpoint=where))


def batches(folder: Path) -> object:
    """A run with momentum on mini-batches."""
    (X, y), objective = problem()
    algorithm = dd.DecoupledDescent(0.05, rule=dd.rules.SGD(0.02, momentum=0.5), batch_size=64)
    where = dd.Checkpoint(folder, seconds=0)
    return numbers(dd.fit(X, y, objective, algorithm, 200, checkpoint=where))


def sweep(folder: Path) -> object:
    """A sweep that drops runs on the way."""
    (X, y), objective = problem()
    algorithms = [dd.OrthogonalDecoupledDescent(lr, 0.9) for lr in (0.02, 0.05, 0.1)]
    where = dd.Checkpoint(folder, seconds=0)
    found = dd.sweep(
        X, y, objective, algorithms, 200, halving=dd.sweeps.Halving(), checkpoint=where
    )
    return [numbers(run) for run in found.runs]


def train(folder: Path) -> object:
    """``decoupled train --resume`` on a table; the first call, which nobody kills, writes it."""
    table, out = folder.parent / "table.csv", folder / "out"
    if not table.exists():
        (X, y), names = dd.mixtures.xor(6, 4.0).sample(150, seed=0), [f"x{k}" for k in range(6)]
        text = np.column_stack([X.numpy(), y.numpy()])
        np.savetxt(table, text, delimiter=",", header=",".join([*names, "y"]), comments="")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        given = ["train", str(table), "--target", "y", "--out", str(out), "--resume"]
        app([*given, "--features", "rbf"], standalone_mode=False)
    content = (out / "model.safetensors").read_bytes()
    size = int.from_bytes(content[:8], "little")  # the order of the header is chance
    return json.dumps(json.loads(content[8 : 8 + size]), sort_keys=True), content[8 + size :]


CALLS: dict[str, Call] = {"fit": fit, "batches": batches, "sweep": sweep, "train": train}


def numbers(run: dd.Run) -> object:
    """All numbers of a run."""
    return run.history, run.theta.tolist(), run.best_theta.tolist(), run.message


def problem() -> tuple[tuple[torch.Tensor, torch.Tensor], dd.Objective]:
    """XOR with a two-layer head."""
    objective = dd.Objective(dd.heads.TwoLayer(3, seed=0), "logistic")
    return dd.mixtures.xor(200, 4.0).sample(200, seed=0), objective


def started(call: Call, folder: Path) -> int:
    """Fork a process that trains and writes all numbers of the runs to a file."""
    process = os.fork()
    if process:
        return process
    try:
        found = repr(call(folder))
        (folder / "result").write_text(found)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def finished(call: Call, folder: Path) -> str:
    """Let a process come to its end, and return what it wrote."""
    os.waitpid(started(call, folder), 0)
    return (folder / "result").read_text()


def trial(call: Call, cycles: int, draw: random.Random, folder: Path) -> str:
    """Kill as often as asked; say what came of it."""
    begun = time.monotonic()
    whole = finished(call, folder / "whole")
    longest, place = time.monotonic() - begun, folder / "killed"
    killed = done = different = 0
    while killed < cycles:
        process = started(call, place)
        time.sleep(draw.uniform(0, longest / 2))
        os.kill(process, signal.SIGKILL)
        status = os.waitpid(process, 0)[1]
        if os.WIFSIGNALED(status):
            killed += 1
        else:
            done, different = done + 1, different + ((place / "result").read_text() != whole)
            shutil.rmtree(place)
    different += finished(call, place) != whole
    return f"{call.__name__}: {killed} kills, {done + 1} runs finished, {different} differ"


def main() -> None:
    """Run the trials that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--calls", nargs="+", choices=list(CALLS), default=list(CALLS))
    options = parser.parse_args()
    torch.set_num_threads(1)  # forked processes have no other threads
    for name in options.calls:
        with tempfile.TemporaryDirectory() as folder:
            draw = random.Random(options.seed)
            print(trial(CALLS[name], options.cycles, draw, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
