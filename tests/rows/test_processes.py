"""Rows divided among real processes: the same training, and clear words when one is gone."""

import os
import runpy
import socket
import subprocess
import sys
import weakref
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.objective import KinkWarning
from decoupled_descent.rows import ProcessLostError

WORKER = Path(__file__).with_name("processes_worker.py")


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def started(*arguments, size=2, worker=WORKER):
    """Start processes that know each other, and wait for their end."""
    source = str(Path(dd.__file__).parents[1])
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": str(size)}
    paths = {"PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])}
    workers = [
        subprocess.Popen(
            [sys.executable, str(worker), *map(str, arguments)],
            env={**os.environ, **common, **paths, "RANK": str(rank), "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    return [(worker.communicate(timeout=120)[1], worker.returncode) for worker in workers]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    ended = started("compare", folder)
    assert [code for _, code in ended] == [0, 0], ended
    return folder


@pytest.fixture(scope="module")
def worker():
    return runpy.run_path(str(WORKER))


def test_training_is_that_of_one_process(compared, worker):
    parts = [torch.load(compared / f"{rank}.pt") for rank in range(2)]
    close = {"rtol": 1e-10, "atol": 1e-11}
    for name, (labels, objective, algorithm) in worker["calls"]().items():
        X, y = worker["problem"](labels)
        with pytest.warns(KinkWarning) if "kinks" in name else nullcontext():
            rows = dd.Rows(X, y, weights=worker["weights"]() if "weights" in name else None)
            run = dd.fit(rows, None, objective, algorithm, worker["STEPS"], seed=0)
        result = [part[name] for part in parts]
        history = torch.tensor([run.history.train_error, run.history.train_error_stderr])
        losses = torch.cat([one["losses"] for one in result])
        torch.testing.assert_close(losses, run.best_losses, **close)
        for one in result:
            torch.testing.assert_close(one["history"], history, **close)
            torch.testing.assert_close(one["state"]["theta"], run.theta, **close)
            torch.testing.assert_close(one["state"]["head"], run.state.head, **close)
            assert torch.equal(one["state"]["theta"], result[0]["state"]["theta"])  # to the bit
            assert torch.equal(one["history"], result[0]["history"])


def test_what_cannot_be_divided_is_refused(compared):
    for rank in range(2):
        lines = (compared / f"{rank}.txt").read_text().splitlines()
        wanted = [
            "batch_size=8: mini-batches are drawn from rows in one process",
            "loss 'absolute' has kinks",
            "sweep compares losses row by row",
            "groups= is for rows in one process, but these are divided",
            "1 of 2 processes pass weights; all must, or none",
            f"X has {4 + rank} columns here, and another number in other processes",
        ]
        for line, start in zip(lines, wanted, strict=True):
            assert line.startswith(start), line


@pytest.mark.slow
def test_missing_processes_are_named(tmp_path):
    """One dies, another stalls."""
    started("lose", tmp_path, size=3)
    message = (tmp_path / "0.txt").read_text()
    assert message.startswith("rank 1, 2 of 3 is gone or did not answer within 2 seconds")
    assert "checkpoint=" in message


@pytest.mark.slow
def test_a_stalled_process_does_not_keep_the_others(tmp_path):
    """The first ends with an error, long before the time limit of the group; then the second."""
    (message, status), _ = started("stall", tmp_path, 2)
    assert status == 1
    assert "ProcessLostError: rank 1 of 2 is gone or did not answer within 2 seconds" in message


@pytest.mark.slow
def test_a_process_that_dies_costs_one_interval(tmp_path, worker):
    """Under torchrun, which starts all of them again."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--standalone", "--max-restarts", "1", str(WORKER), "restart", str(tmp_path)]
    source = os.pathsep.join([str(Path(dd.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    variables = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    variables["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"  # else they may find the old addresses
    ended = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=200)
    assert ended.returncode == 0, ended.stderr
    _, objective, algorithm = worker["calls"]()["dd"]
    run = dd.fit(*worker["problem"](), objective, algorithm, 20)
    history = torch.tensor([run.history.train_error, run.history.train_error_stderr])
    for rank in range(2):
        result = torch.load(tmp_path / f"{rank}.pt")
        assert result["steps"] == list(range(10, 20))  # of 13 made, 10 were saved
        torch.testing.assert_close(result["history"], history, rtol=1e-10, atol=1e-11)
        torch.testing.assert_close(result["theta"], run.theta, rtol=1e-10, atol=1e-11)
    names = {path.name for path in (tmp_path / "saves").iterdir()}
    assert names == {"rank 0 of 2", "rank 1 of 2"}


def test_processes_must_know_each_other():
    with pytest.raises(ValueError, match=r"start them with torchrun"):
        dd.Rows(torch.ones(3, 2), torch.ones(3), group=object())


def test_rows_do_not_keep_a_destroyed_group_alive(tmp_path):
    file = f"file://{tmp_path}/store"
    torch.distributed.init_process_group("gloo", init_method=file, rank=0, world_size=1)
    try:
        group = weakref.ref(torch.distributed.group.WORLD)
        rows = dd.Rows(torch.eye(3), torch.ones(3), group=group())
        assert rows.total(torch.ones(2))[0].tolist() == [1, 1]
    finally:
        torch.distributed.destroy_process_group()
    assert group() is None  # its threads have ended, before Python shuts down
    with pytest.raises(ProcessLostError, match="the group of these rows was destroyed"):
        rows.total(torch.ones(2))
