"""Folders of checkpoints: one call at a time, and one folder for all calls of a block."""

import subprocess
import sys
from pathlib import Path

import pytest

import decoupled_descent as dd
from decoupled_descent.training import folders
from decoupled_descent.training.folders import Lock, kept_in
from tests.problems import binary, two_layer

HOLDS = """
import sys
from pathlib import Path
from decoupled_descent.training.folders import Lock
lock = Lock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_folder_belongs_to_one_process(tmp_path):
    source = str(Path(dd.__file__).parents[1])
    command = [sys.executable, "-c", HOLDS, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": {"PYTHONPATH": source}}
    with subprocess.Popen(command, **pipes) as other:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(ValueError, match=r"is in use by another call.*use another folder"):
            fit(checkpoint=tmp_path)
        other.kill()
    fit(checkpoint=tmp_path)  # a process that was killed holds nothing
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.safetensors"]


def fit(steps=4, lr=0.05, **options):
    return dd.fit(*binary(), two_layer(), dd.DecoupledDescent(lr), steps, **options)


def test_a_folder_is_free_after_a_call_that_failed(tmp_path):
    def fail(step):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no") as held:
        fit(checkpoint=tmp_path, callbacks=fail)
    with pytest.raises(ValueError, match="lr was"):  # refused, and free again
        _ = fit(checkpoint=tmp_path), fit(lr=0.1, checkpoint=tmp_path)
    assert fit(checkpoint=tmp_path).history == fit().history
    assert held.type is RuntimeError


def test_systems_without_such_locks(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "fcntl", None)
    first, second = Lock(tmp_path), Lock(tmp_path)
    first.release()
    second.release()


def test_calls_within_a_block_are_kept_apart(tmp_path):
    with kept_in(tmp_path):
        runs = [fit(), fit(lr=0.1), fit(6)]
    files = sorted(tmp_path.glob("*/checkpoint.safetensors"))
    assert len(files) == 3
    before = [path.stat().st_mtime_ns for path in files]
    with kept_in(tmp_path):
        again = [fit(), fit(lr=0.1), fit(6)]
    assert [run.history for run in again] == [run.history for run in runs]
    assert [path.stat().st_mtime_ns for path in files] == before  # nothing was trained again
    fit(5)
    assert len(list(tmp_path.iterdir())) == 3
