"""When several threads pay, and what a fit takes beside processes that use all cores.

``python studies/threads.py --part sizes`` prints times of steps and of fits with two threads
over those with one, without the choice that the library makes by itself. ``--part busy`` prints the
time of ``DecoupledClassifier().fit`` on 500 rows of 30 columns beside two processes that do nothing
but compute, over its time without them; ``--import-first`` imports PyTorch before this library,
which then cannot ask for passive waiting. Both take the least of several rounds, in turns.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import warnings
from collections.abc import Callable

if "--import-first" in sys.argv:
    import torch
import decoupled_descent as dd

if "--import-first" not in sys.argv:
    import torch

from sklearn.datasets import make_classification

from decoupled_descent.rows import threads

SIZES = ((500, 30), (500, 500), (1000, 1000), (1400, 1400), (2000, 2000), (5000, 2000))


def least(work: Callable[[], object], rounds: int) -> list[float]:
    """The least times with one thread and with two, in turns."""
    found: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(rounds):
        for count, times in found.items():
            torch.set_num_threads(count)
            begun = time.perf_counter()
            work()
            times.append(time.perf_counter() - begun)
    return [min(times) for times in found.values()]


def sizes() -> None:
    """Times of steps and fits with one thread and with two."""
    threads.ENOUGH = 0  # the caller's number of threads for any size
    for n, d in SIZES:
        X = torch.randn(n, d, generator=torch.Generator().manual_seed(0)) / d**0.5
        rows = dd.Rows(X, (X[:, 0] > 0).float())
        for width in (2, 8, 27):
            objective = dd.Objective(dd.heads.TwoLayer(width, seed=0), "logistic")
            algorithm = dd.DecoupledDescent(0.01)
            bound = algorithm.bind(rows, objective)
            state = algorithm.init(rows, bound, seed=0)
            show(f"DD step, L={width}", n, d, lambda: algorithm.step(state, rows, bound), 60)  # noqa: B023
        if n * d <= 4e6:
            for name, method in NEWTON.items():
                show(name, n, d, lambda: method(X), 3)  # noqa: B023
    for n in (200, 500, 1000):
        show("classifier", n, 30, lambda: model(n), 2)  # noqa: B023


def show(what: str, n: int, d: int, work: Callable[[], object], rounds: int) -> None:
    """Print one line."""
    one, two = least(work, rounds)
    ratio = two / one
    print(f"{what} {n} x {d}: {1e3 * one:.2f} ms, two threads {ratio:.2f} of it", flush=True)


def orthogonal(X: torch.Tensor) -> dd.Run:
    """Twenty steps of the orthogonal method, with its decomposition."""
    objective = dd.Objective(dd.heads.TwoLayer(4, seed=0), "logistic")
    labels = (X[:, 0] > 0).float()
    return dd.fit(dd.Rows(X, labels), None, objective, dd.OrthogonalDecoupledDescent(0.01), 20)


def newton(X: torch.Tensor) -> dd.Run:
    """The Newton method to its end."""
    rows = dd.Rows(X.double(), (X[:, 0] > 0).double())
    objective = dd.Objective(dd.heads.Linear(1, intercept=True), "logistic")
    return dd.fit(rows, None, objective, dd.DecoupledNewton(1.0), 100)


NEWTON = {"orthogonal fit": orthogonal, "Newton fit": newton}


def model(n: int) -> dd.DecoupledClassifier:
    """What somebody with a table calls."""
    X, y = make_classification(n, 30, n_informative=10, random_state=0)
    return dd.DecoupledClassifier().fit(X, y)


def busy(rounds: int = 3) -> None:
    """A fit alone and beside two processes that use both cores, in turns."""
    model(500)
    found: dict[str, list[float]] = {"alone": [], "beside": []}
    for _ in range(rounds):
        for where, times in found.items():
            count = 2 if where == "beside" else 0
            command = [sys.executable, "-c", "while True: pass"]
            others = [subprocess.Popen(command) for _ in range(count)]
            time.sleep(0.3)
            begun = time.perf_counter()
            model(500)
            times.append(time.perf_counter() - begun)
            for other in others:
                other.kill()
                other.wait()
    alone, beside = found.values()
    print(
        f"{torch.get_num_threads()} threads: {min(alone):.2f} s alone, {min(beside):.2f} to "
        f"{max(beside):.2f} s beside two busy processes: {min(beside) / min(alone):.2f} to "
        f"{max(beside) / min(alone):.2f}"
    )


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=["sizes", "busy"], default="busy")
    parser.add_argument("--import-first", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    busy() if options.part == "busy" else sizes()


if __name__ == "__main__":
    main()
