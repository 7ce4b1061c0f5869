"""The file of a checkpoint: what goes in comes out, with shared tensors and their layout."""

from typing import NamedTuple

import pytest
import torch

from decoupled_descent.training.state_file import (
    leaves,
    read,
    rebuilt,
    write,
)
from tests.problems import normal


class State(NamedTuple):
    theta: torch.Tensor
    slots: tuple[torch.Tensor, ...]
    head: dict[str, torch.Tensor]
    step: int


def state():
    theta = normal(3, 4).T  # not contiguous
    return State(theta, (theta, normal(2, seed=1)), {"1.weight": normal(1, 3, seed=2)}, 7)


def test_names_of_leaves():
    names = [name for name, _ in leaves(state())]
    assert names == ["theta", "slots.0", "slots.1", "head.1.weight", "step"]


def test_what_goes_in_comes_out(tmp_path):
    given, path = state(), tmp_path / "a.safetensors"
    write(path, {"0": {"state": given}}, {"lr": "0.1"}, {"threads": 2})
    result, settings = read(path)
    again = rebuilt(given, result, "0.state")
    assert settings == {"lr": "0.1"}
    assert result["made with"] == {"threads": 2}
    assert isinstance(again, State)
    for (_, one), (_, other) in zip(leaves(again), leaves(given), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    assert again.theta.stride() == given.theta.stride()
    assert again.theta is again.slots[0]  # one tensor, as before


def test_a_changed_number_is_noticed(tmp_path):
    path = tmp_path / "a.safetensors"
    write(path, {"x": torch.zeros(3)}, {}, {})
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(
        ValueError, match=r"is damaged or no checkpoint \(the checksum is wrong[^)]*\)"
    ):
        read(path)


def test_what_no_file_can_hold(tmp_path):
    with pytest.raises(ValueError, match="x is a complex, which no checkpoint can hold"):
        write(tmp_path / "a.safetensors", {"x": 1j}, {}, {})
