"""The file of one call: options, times, locks, and calls that differ."""

import math

import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.training.checkpoint_file import (
    BEFORE,
    FILE,
    Checkpoint,
    CheckpointFile,
    as_checkpoint,
)
from decoupled_descent.training.folders import kept_in


@pytest.mark.parametrize("options", [{"every": 0}, {"seconds": -1}, {"seconds": math.nan}])
def test_options_are_checked(tmp_path, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        dd.Checkpoint(tmp_path, **options)


def test_what_is_a_checkpoint(tmp_path):
    assert as_checkpoint(None) is None
    assert as_checkpoint(str(tmp_path)) == Checkpoint(str(tmp_path))
    assert as_checkpoint(Checkpoint(tmp_path, every=2)).every == 2
    with kept_in(tmp_path):
        assert as_checkpoint(None).apart
    with pytest.raises(ValueError, match="must be a folder"):
        as_checkpoint(5)


def test_steps_or_time_decide(tmp_path):
    file = CheckpointFile(Checkpoint(tmp_path / "a", every=3), {})
    assert [file.due(step) for step in range(6)] == [False, False, True] * 2
    assert not CheckpointFile(Checkpoint(tmp_path / "b"), {}).due(0)  # half a minute
    assert CheckpointFile(Checkpoint(tmp_path / "c", seconds=0), {}).due(0)


def test_the_save_before_is_kept_where_asked(tmp_path):
    file = CheckpointFile(Checkpoint(tmp_path), {"steps": 5}, "part")
    assert file.saves() == []
    for number in range(3):
        file.write({"x": torch.tensor([number])}, {}, keep_before=True)
    assert [int(save["x"]) for save in file.saves()] == [2, 1]
    assert {path.name for path in (tmp_path / "part").iterdir()} == {FILE, BEFORE}


def test_another_call_and_two_at_once_are_refused(tmp_path):
    file = CheckpointFile(Checkpoint(tmp_path), {"steps": 5})
    file.write({"x": 1}, {})
    with pytest.raises(ValueError, match="in use by another call"):
        CheckpointFile(Checkpoint(tmp_path), {"steps": 5})
    file.close()
    other = CheckpointFile(Checkpoint(tmp_path), {"steps": 6})
    with pytest.raises(ValueError, match="steps was 5 and is now 6"):
        other.saves()
