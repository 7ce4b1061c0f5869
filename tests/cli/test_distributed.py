"""Training in several processes at the command line: the results of one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import decoupled_descent as dd
from decoupled_descent.cli.distributed import Share
from tests.cli.conftest import spoilt, table


def launched(*arguments, size=2):
    """Run the command under torchrun; exit status, standard output, standard error."""
    source = str(Path(dd.__file__).parents[1])
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    torchrun += [f"--nproc-per-node={size}", "-m", "decoupled_descent.cli"]
    ended = subprocess.run(
        [*torchrun, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    return ended.returncode, ended.stdout, ended.stderr


def test_two_processes_find_the_model_of_one(run, tmp_path):
    frame = spoilt(300).drop(columns=["grade", "price"])
    frame.to_csv(tmp_path / "data.csv", index=False)
    arguments = ("train", tmp_path / "data.csv", "--target", "answer", "--id", "id", "--json")
    options = (*arguments, "--features", "rbf")
    _, whole, _ = run(*options, "--out", tmp_path / "whole")
    status, found, err = launched(*options, "--out", tmp_path / "found", "--distributed")
    assert status == 0, err
    whole, found = json.loads(whole), json.loads(found)
    assert found["notes"][1:] == whole["notes"]
    assert found["candidates"] == [
        {k: pytest.approx(v, rel=1e-8) if k in ("error", "stderr") else v for k, v in one.items()}
        | {"share": pytest.approx(one["share"], abs=1e-7)}
        for one in whole["candidates"]
    ]
    for name in ("estimated_test_error", "estimated_test_error_stderr", "estimated_score"):
        assert found[name] == pytest.approx(whole[name], rel=1e-8)
    assert (found["verdict"], found["rows"]) == (whole["verdict"], 299)
    left_out = [pd.read_csv(tmp_path / name / "left_out.csv") for name in ("whole", "found")]
    pd.testing.assert_frame_equal(*left_out, rtol=1e-8)
    new = tmp_path / "new.csv"
    spoilt(80).to_csv(new, index=False)
    for name in ("whole", "found"):
        run("predict", tmp_path / name, new, "--out", tmp_path / f"{name}.csv")
    said = [pd.read_csv(tmp_path / f"{name}.csv") for name in ("whole", "found")]
    pd.testing.assert_frame_equal(*said, rtol=1e-8)


def test_what_cannot_be_done_is_one_line(run, monkeypatch, tmp_path):
    data = tmp_path / "data.csv"
    table().to_csv(data, index=False)
    np.save(tmp_path / "data.npy", np.eye(20))
    train = ("train", data, "--target", "answer", "--distributed", "--out", tmp_path / "o")
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for options, message in {
        (): "--distributed is for processes that torchrun starts: torchrun --nproc-per-node 2",
        ("--method", "gradient"): "--distributed needs --method newton, not gradient",
        ("--resume",): "--resume is for one process; leave it out, or leave out --distributed",
        ("--group", "town"): "--group is for one process",
    }.items():
        status, _, err = run(*train, *options)
        assert (status, err.count("\n")) == (2, 1)
        assert f"error: {message}" in err
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    status, _, err = run("train", tmp_path / "data.npy", "--target", "x0", "--distributed")
    assert (status, "--distributed needs a csv or parquet file" in err) == (2, True)
    assert not (tmp_path / "o").exists()


def test_shares_are_all_rows_once():
    for n in (1, 7, 8, 100):
        spans = [Share(rank, 4).span(n) for rank in range(4)]
        assert [k for span in spans for k in range(n)[span]] == list(range(n))
        sizes = [len(range(n)[span]) for span in spans]
        assert max(sizes) - min(sizes) <= 1
