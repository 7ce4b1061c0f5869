"""What one process of tests/rows/test_processes.py does.

``python processes_worker.py KIND FOLDER``, with the variables that torchrun sets, trains on its
share of the rows and saves what came of it.
"""

import os
import signal
import sys
import time
import warnings
from datetime import timedelta
from pathlib import Path

import scipy.sparse
import torch
import torch.distributed as dist

import decoupled_descent as dd
from decoupled_descent.descent import GreedyDescent

SIZES = (31, 9, 20)  # rows per process, of 60
D, STEPS, INF = 12, 4, float("inf")


def problem(labels="logistic"):
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(60, D, generator=generator, dtype=torch.float64) / D**0.5
    score = X @ torch.randn(D, generator=generator, dtype=torch.float64)
    if labels == "squared":
        return X, score + 0.1 * torch.randn(60, generator=generator, dtype=torch.float64)
    return X, (score > 0).double()


def calls():
    """All that is compared, by name: labels, objective, algorithm."""
    tanh = dd.Objective(dd.heads.TwoLayer(3, seed=0).double(), "logistic")
    kinked = dd.Objective(dd.heads.TwoLayer(3, "relu", seed=0).double(), "logistic")
    linear = dd.Objective(dd.heads.Linear(intercept=True).double(), "logistic")
    squared = dd.Objective(dd.heads.Linear(intercept=True).double(), "squared")
    rates = {"damping": 0.95, "head_lr": 0.2, "head_damping": 0.99}
    heavy = dd.rules.SGD(0.04, momentum=0.8)
    mean = {**rates, "reduction": "mean"}
    greedy = tuple(dd.DecoupledDescent(0.1, rule=dd.rules.SGD(lr, 0.5)) for lr in (0.03, 0.1))
    return {
        "gd": ("logistic", tanh, dd.GradientDescent(0.5, **mean)),
        "dd": ("logistic", tanh, dd.DecoupledDescent(0.05)),
        "dd, momentum": ("logistic", tanh, dd.DecoupledDescent(0.05, rule=heavy)),
        "dd, Hessian": ("logistic", tanh, dd.DecoupledDescent(0.01, hessian_damping=0.1)),
        "dd, kinks": ("logistic", kinked, dd.DecoupledDescent(0.05)),
        "odd": ("logistic", tanh, dd.OrthogonalDecoupledDescent(0.5, **mean, ridge=0.3)),
        "odd, no ridge": ("logistic", tanh, dd.OrthogonalDecoupledDescent(0.05, ridge=INF)),
        "greedy": ("logistic", tanh, GreedyDescent.grid(0.05)),
        "greedy, momentum": ("logistic", tanh, GreedyDescent(greedy)),
        "newton": ("logistic", linear, dd.DecoupledNewton(5.0)),
        "newton, squared": ("squared", squared, dd.DecoupledNewton(0.5)),
        "newton, weights": ("logistic", linear, dd.DecoupledNewton(5.0)),
    }


def weights():
    return 0.5 + torch.arange(60) % 3


def share(labels, rank, size, weighted=False, **options):
    """The rows of one process; the second reads its rows from a sparse matrix."""
    X, y = problem(labels)
    sizes = SIZES if size == 3 else (40, 20)
    X, y = X.split(sizes)[rank], y.split(sizes)[rank]
    if weighted:
        options["weights"] = weights().split(sizes)[rank]
    if rank == 1:
        return dd.Rows(scipy.sparse.csr_array(X.numpy()), y, 3, group=dist.group.WORLD, **options)
    return dd.Rows(X, y, 16 if rank else None, group=dist.group.WORLD, **options)


def compare(folder, rank, size):
    result = {}
    for name, (labels, objective, algorithm) in calls().items():
        weighted = "weights" in name
        rows = share(labels, rank, size, weighted)
        run, again = (dd.fit(rows, None, objective, algorithm, STEPS, seed=rank) for _ in range(2))
        assert torch.equal(run.theta, again.theta), name  # to the bit
        assert run.history == again.history, name
        result[name] = {
            "state": {"theta": run.theta, "head": dict(run.state.head)},
            "history": torch.tensor([run.history.train_error, run.history.train_error_stderr]),
            "losses": run.best_losses,
        }
    torch.save(result, folder / f"{rank}.pt")


def refuse(folder, rank, size):
    rows, lines = share("logistic", rank, size), []
    (tanh, linear) = (calls()[name][1] for name in ("dd", "newton"))
    absolute = dd.Objective(dd.heads.Linear().double(), "absolute")
    asked = [
        lambda: dd.fit(rows, None, tanh, dd.DecoupledDescent(0.05, batch_size=8), 3),
        lambda: dd.fit(rows, None, absolute, dd.DecoupledNewton(1.0), 3),
        lambda: dd.sweep(rows, None, linear, dd.DecoupledDescent(0.05), 3),
        lambda: dd.Rows(torch.ones(3, 4), torch.ones(3), groups=[0, 1, 1], group=dist.group.WORLD),
        lambda: dd.Rows(
            torch.ones(3, 4),
            torch.ones(3),
            weights=None if rank else [1, 2, 3],
            group=dist.group.WORLD,
        ),
        lambda: dd.Rows(torch.ones(3, 4 + rank), torch.ones(3), group=dist.group.WORLD),
    ]
    for call in asked:
        try:
            call()
            lines.append("nothing was refused")
        except ValueError as error:
            lines.append(str(error))
    (folder / f"{rank}.txt").write_text("\n".join(lines))


def lose(folder, rank, size):
    """In the third step, the second process dies and the third stalls."""
    rows = share("logistic", rank, size, timeout=2.0)
    _, objective, algorithm = calls()["dd"]

    def third(step):
        if rank and step.index == 2:
            time.sleep(10 * (rank - 1))
            os._exit(1)

    try:
        dd.fit(rows, None, objective, algorithm, STEPS, callbacks=third)
    except dd.rows.ProcessLostError as error:
        (folder / f"{rank}.txt").write_text(str(error))
    os._exit(0)  # the group is broken; nothing is left to take down


def stall(folder, rank, size):
    """In the third step, the second process stalls until the first has ended."""
    _, objective, algorithm = calls()["dd"]
    (folder / f"{rank}.pid").write_text(str(os.getpid()))

    def third(step):
        while rank and step.index == 2:
            time.sleep(0.1)
            try:
                os.kill(int((folder / "0.pid").read_text()), 0)
            except ProcessLookupError:
                os._exit(0)

    rows = share("logistic", rank, size, timeout=2.0)
    dd.fit(rows, None, objective, algorithm, STEPS, callbacks=third)


def restart(folder, rank, size):
    """The second is killed in step 13 of its first life; each notes the steps that it makes."""
    _, objective, algorithm = calls()["dd"]
    first, steps = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0", []

    def told(step):
        steps.append(step.index)
        if first and rank == 1 and step.index == 13:
            os.kill(os.getpid(), signal.SIGKILL)

    often = dd.Checkpoint(folder / "saves", every=5)
    rows = share("logistic", rank, size, timeout=20.0)
    run = dd.fit(rows, None, objective, algorithm, 20, callbacks=told, checkpoint=often)
    history = torch.tensor([run.history.train_error, run.history.train_error_stderr])
    torch.save({"steps": steps, "history": history, "theta": run.theta}, folder / f"{rank}.pt")


def main():
    kind, folder = sys.argv[1], Path(sys.argv[2])
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    patience = 600 if kind == "stall" else 60  # as long as by default, or nearly
    dist.init_process_group("gloo", timeout=timedelta(seconds=patience))
    rank, size = dist.get_rank(), dist.get_world_size()
    if kind == "lose":
        lose(folder, rank, size)
    if kind == "stall":
        stall(folder, rank, size)
    elif kind == "restart":
        restart(folder, rank, size)
    else:
        compare(folder, rank, size)
        refuse(folder, rank, size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
