"""Training in several processes at the command line: the results of one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import decoupled_descent as dd
from tests.app.cli.conftest import spoilt, table
from tests.rows.test_processes import free_port, started

KILLED = Path(__file__).with_name("distributed_worker.py")


def launched(*arguments, restarts=0, program=("-m", "decoupled_descent.app.cli")):
    """Run the command in two processes of torchrun; exit status, standard output and error."""
    source = os.pathsep.join([str(Path(dd.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    torchrun += ["--nproc-per-node=2", f"--max-restarts={restarts}", *map(str, program)]
    variables = {"PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    variables["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"  # else they may find the old addresses
    ended = subprocess.run(
        [*torchrun, *map(str, arguments)],
        env={**os.environ, **variables}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    return ended.returncode, ended.stdout, ended.stderr


@pytest.fixture
def call(tmp_path):
    """A training, without its folder of results: rows of the same kind are in both processes."""
    frame = spoilt(180).drop(columns=["grade", "price"])
    frame.assign(town=[f"town {k % 40}" for k in range(len(frame))]).to_csv(
        tmp_path / "data.csv", index=False
    )
    named = ("--target", "answer", "--id", "id", "--group", "town", "--features", "rbf")
    return ("train", tmp_path / "data.csv", *named, "--json")


def assert_alike(run, tmp_path, whole, found):
    """Compare what two calls printed and wrote into the folders ``whole`` and ``found``."""
    whole, found = json.loads(whole), json.loads(found)
    assert found["notes"][1:] == whole["notes"]
    assert found["candidates"] == [
        {k: pytest.approx(v, rel=1e-8) if k in ("error", "stderr") else v for k, v in one.items()}
        | {"share": pytest.approx(one["share"], abs=1e-7)}
        for one in whole["candidates"]
    ]
    for name in ("estimated_test_error", "estimated_test_error_stderr", "estimated_score"):
        assert found[name] == pytest.approx(whole[name], rel=1e-8)
    assert (found["verdict"], found["rows"]) == (whole["verdict"], 179)
    left_out = [pd.read_csv(tmp_path / name / "left_out.csv") for name in ("whole", "found")]
    pd.testing.assert_frame_equal(*left_out, rtol=1e-8)
    new = tmp_path / "new.csv"
    spoilt(80).to_csv(new, index=False)
    for name in ("whole", "found"):
        run("predict", tmp_path / name, new, "--out", tmp_path / f"{name}.csv")
    predictions = [pd.read_csv(tmp_path / f"{name}.csv") for name in ("whole", "found")]
    pd.testing.assert_frame_equal(*predictions, rtol=1e-8)
    assert not (tmp_path / "found" / "checkpoints").exists()


def test_two_processes_find_the_model_of_one(run, call, tmp_path):
    _, whole, _ = run(*call, "--out", tmp_path / "whole")
    status, found, err = launched(*call, "--out", tmp_path / "found", "--distributed")
    assert status == 0, err
    assert_alike(run, tmp_path, whole, found)


@pytest.mark.slow
def test_a_killed_process_is_named_and_the_same_command_continues(call, tmp_path):
    """Without torchrun, which would end the other process."""
    out = tmp_path / "found"
    call = (tmp_path / "killed", *call, "--out", out, "--distributed", "--resume")
    (printed, status), (_, killed) = started(*call, worker=KILLED)
    assert (status, killed) == (2, -9)
    line = "error: --distributed: rank 1 of 2 is gone or did not answer within 120 seconds"
    assert printed.splitlines()[-1] == f"{line}; the same command continues"
    assert len(list(out.glob("checkpoints/process 0/*/*/checkpoint.safetensors"))) >= 2
    assert [code for _, code in started(*call, worker=KILLED)] == [0, 0]
    assert (out / "model.safetensors").exists()


@pytest.mark.slow
def test_torchrun_starts_again_after_a_kill(run, call, tmp_path):
    _, whole, _ = run(*call, "--out", tmp_path / "whole")
    options = ("--out", tmp_path / "found", "--distributed", "--resume")
    status, found, err = launched(*call, *options, restarts=1, program=(KILLED, tmp_path / "mark"))
    assert status == 0, err
    assert (tmp_path / "mark").exists()
    first, rest = found.split("\n", 1)  # what the other process said in its first life, if it could
    assert_alike(run, tmp_path, whole, rest if first.startswith('{"error"') else found)


def test_what_cannot_be_done_is_one_line(run, monkeypatch, tmp_path):
    data = tmp_path / "data.csv"
    table().to_csv(data, index=False)
    np.save(tmp_path / "data.npy", np.eye(20))
    train = ("train", data, "--target", "answer", "--distributed", "--out", tmp_path / "o")
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    status, _, err = run(*train)
    assert (status, err.count("\n")) == (2, 1)
    assert "error: --distributed is for processes that torchrun starts: torchrun --nproc-per" in err
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    for name, value in alone.items():
        monkeypatch.setenv(name, value)
    status, _, err = run("train", tmp_path / "data.npy", "--target", "x0", "--distributed")
    torch.distributed.destroy_process_group()
    assert (status, "--distributed needs a csv or parquet file" in err) == (2, True)
    assert not (tmp_path / "o").exists()
