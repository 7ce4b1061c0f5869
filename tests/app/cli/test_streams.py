"""Streams that are closed or full, and tables from pipes: with real processes."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

COMMAND = f"{sys.executable} -m decoupled_descent.app.cli"
pytestmark = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("streams") / "a.csv"
    frame = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"])
    frame.assign(y=frame["a"] + rng.normal(size=40)).to_csv(path, index=False)
    return path


def shell(command, folder):
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("more", ["--json", pytest.param("", marks=pytest.mark.slow)])
def test_results_that_cannot_be_printed_are_one_line_and_the_model_is_saved(table, tmp_path, more):
    train = f"{COMMAND} train {table} --target y --ridge 1 --features linear --out o"
    result = shell(f"{train} {more} > /dev/full", tmp_path)
    last = result.stderr.splitlines()[-1]
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert last.startswith("error: standard output cannot be written (No space left on device)")
    assert (tmp_path / "o" / "model.safetensors").exists()
    result = shell(f"{COMMAND} predict o {table} > /dev/full", tmp_path)
    assert (result.returncode, result.stderr.count("error: standard output")) == (1, 1)


def test_an_error_that_cannot_be_printed_as_json_is_one_line(tmp_path):
    result = shell(f"{COMMAND} train /dev/null --target y --json > /dev/full", tmp_path)
    assert (result.returncode, len(result.stderr.splitlines())) == (2, 1)


@pytest.mark.parametrize("errors", ["2>&-", "2>/dev/full"])
def test_notes_that_cannot_be_printed_are_lost(table, tmp_path, errors):
    train = f"{COMMAND} train {table} --target y --ridge 1 --features linear --out o"
    result = shell(f"{train} {errors}", tmp_path)
    assert result.returncode == 0
    assert "Saved in o" in result.stdout
    assert (
        shell(f"{COMMAND} train absent.csv --target y --out p {errors}", tmp_path).returncode == 2
    )


def test_pipes_are_read_once(table, tmp_path):
    train = f"{COMMAND} train <(cat {table}) --target y --ridge 1 --features linear --out o"
    result = shell(train, tmp_path)
    assert (result.returncode, "Saved in o" in result.stdout) == (0, True)
    os.mkfifo(tmp_path / "fifo")
    result = shell(f"cat {table} > fifo & {COMMAND} predict o fifo", tmp_path)
    assert (result.returncode, len(result.stdout.splitlines())) == (0, 41)
    result = shell(f"{COMMAND} predict o /dev/null", tmp_path)
    assert (result.returncode, result.stderr.splitlines()) == (
        2, ["error: /dev/null is empty; pipe a table into the command"],
    )  # fmt: skip
    result = shell(f"{COMMAND} predict o - <&-", tmp_path)
    assert (result.returncode, "standard input is empty" in result.stderr) == (2, True)
