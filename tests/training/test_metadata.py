"""With what a run was made, and with what it was continued."""

from __future__ import annotations

import platform

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.rows import threads
from decoupled_descent.training import Step, metadata
from tests.problems import binary, two_layer

X, Y = binary(dtype=torch.float64)
GIVEN = (dd.DecoupledDescent(0.05, 0.9), 6)


class StoppedError(Exception):
    """Ends a run after a save."""


def interrupted(step: Step) -> None:
    if step.index == 4:
        raise StoppedError


def test_a_run_says_with_what_it_was_made():
    rows = dd.Rows(X, Y, block_size=7)
    result = dd.fit(rows, None, two_layer(), *GIVEN).metadata
    assert result == {
        "decoupled_descent": dd.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": 1,  # the rows are few
        "processes": 1,
        "block_size": 7,
        "device": "cpu",
        "dtype": "float64",
    }


def test_threads_are_those_in_use(monkeypatch):
    monkeypatch.setattr(threads, "ENOUGH", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert dd.fit(X, Y, two_layer(), *GIVEN).metadata["threads"] == 3
    finally:
        torch.set_num_threads(before)


def test_all_runs_of_a_sweep_say_it_and_pages_do():
    result = dd.sweep(X, Y, two_layer(), [dd.GradientDescent(0.1), dd.GradientDescent(0.2)], 3)
    assert [run.metadata["dtype"] for run in result.runs] == ["float64"] * 2


def test_a_run_continued_with_something_else_says_so(tmp_path, monkeypatch):
    place = dd.Checkpoint(tmp_path, every=2)
    with pytest.raises(StoppedError):
        dd.fit(X, Y, two_layer(), *GIVEN, callbacks=interrupted, checkpoint=place)
    monkeypatch.setattr(metadata.np, "__version__", "77.0")
    result = dd.fit(X, Y, two_layer(), *GIVEN, checkpoint=place).metadata
    assert result["numpy"] != "77.0"
    assert result["continued with"] == {"numpy": "77.0"}
    monkeypatch.undo()
    again = dd.fit(X, Y, two_layer(), *GIVEN, checkpoint=place)  # finished: read from the file
    assert again.metadata == result


def test_models_keep_it_in_their_file(tmp_path):
    model = dd.DecoupledClassifier(features="linear").fit(X.numpy(), Y.numpy())
    loaded = dd.load_model(dd.save_model(model, tmp_path / "model.safetensors"))
    assert loaded.metadata["made_with"] == model.metadata_ == loaded.estimator.metadata_
    assert model.metadata_["torch"] == torch.__version__
