"""Every example runs as a script."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name, *arguments, needs=None):
    if needs is not None:
        pytest.importorskip(needs, reason=f"{name} needs {needs}")
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"MLFLOW_ALLOW_FILE_STORE": "true"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_own_training_loop(capsys):
    runpy.run_path(str(EXAMPLES / "own_training_loop.py"), run_name="__main__")
    assert "an ordinary module" in capsys.readouterr().out


def test_tensorboard_logger_writes_every_step(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run("tensorboard_logger.py", tmp_path)
    events = accumulator.EventAccumulator(str(tmp_path))
    events.Reload()
    assert [event.step for event in events.Scalars("train error")] == list(range(60))


@pytest.mark.slow
def test_mlflow_logger_writes_every_step(tmp_path):
    run("mlflow_logger.py", f"file://{tmp_path}/runs", needs="mlflow")
    (metric,) = tmp_path.glob("runs/*/*/metrics/train_error")
    assert len(metric.read_text().splitlines()) == 20


def test_optuna_prunes_on_the_train_error(capsys):
    pytest.importorskip("optuna")
    runpy.run_path(str(EXAMPLES / "optuna_pruning.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "best estimated test error" in out
    assert int(out.split(";")[1].split()[0]) > 0


@pytest.mark.slow
def test_distributed_training(tmp_path):
    """Two processes, as torchrun starts them, and again: the finished run is read."""
    text = (EXAMPLES.parent / "docs" / "big.md").read_text()
    script = str(EXAMPLES / "distributed_training.py")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", script, str(tmp_path)]
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
        assert done.stdout in text
    assert (tmp_path / "model.pt").exists()
