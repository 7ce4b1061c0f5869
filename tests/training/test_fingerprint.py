"""Descriptions agree where calls agree, in every process, and differ where they differ."""

import math
import subprocess
import sys
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, partial

import numpy as np
import pytest
import torch
from torch import nn

import decoupled_descent as dd
from decoupled_descent.training.fingerprint import checksum, described
from tests.problems import binary, two_layer


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass
class Option:
    value: float

    def __call__(self, h):
        return self.value * h


class Lazy:
    def __init__(self, value):
        self.value = value

    @cached_property
    def twice(self):
        return 2 * self.value


def scaled(factor, power=2):
    return lambda h: factor * h**power


def frozen(layer):
    layer.weight.requires_grad_(False)
    return layer


def layer(value=0.5):
    made = nn.Linear(2, 2)
    for parameter in made.parameters():
        nn.init.constant_(parameter, value)
    return made


PAIRS = {
    "number": (0.1, 0.2),
    "whole number": (np.int64(3), np.int64(4)),
    "text": ("sum", "mean"),
    "tensor": (torch.zeros(2), torch.zeros(3)),
    "dtype of a tensor": (torch.zeros(2), torch.zeros(2).double()),
    "array": (np.zeros(2), np.ones(2)),
    "dtype": (torch.float32, torch.float64),
    "enumeration": (Colour.RED, Colour.BLUE),
    "set": ({"a", "b"}, {"a", "c"}),
    "function": (math.sin, math.cos),
    "code": (lambda h: h + 1, lambda h: h - 1),
    "constant": (lambda h: h + 1, lambda h: h + 2),
    "name": (lambda h: h.sin(), lambda h: h.cos()),
    "closure": (scaled(1.0), scaled(2.0)),
    "partial": (partial(scaled, power=1), partial(scaled, power=3)),
    "method": (Option(1.0).__call__, Option(2.0).__call__),
    "dataclass": (Option(1.0), Option(2.0)),
    "object": (Lazy(1.0), Lazy(2.0)),
    "module": (layer(), layer(1.0)),
    "frozen": (layer(), frozen(layer())),
    "activation": (nn.Sequential(nn.Tanh()), nn.Sequential(nn.ReLU())),
    "option of a module": (nn.LeakyReLU(0.1), nn.LeakyReLU(0.2)),
    "objective": (two_layer(), two_layer(4)),
    "rule": (dd.rules.SGD(0.1, 0.5), dd.rules.SGD(0.1, 0.6)),
    "rows": (dd.Rows(*binary()), dd.Rows(*binary(seed=1))),
    "blocks": (dd.Rows(*binary()), dd.Rows(*binary(), block_size=3)),
}


@pytest.mark.parametrize(("one", "other"), PAIRS.values(), ids=PAIRS)
def test_what_differs_is_told_apart(one, other):
    assert described({"a": one}) == described({"a": one}) != described({"a": other})


def test_equal_things_agree():
    assert described({"f": scaled(2.0)}) == described({"f": scaled(2.0)})
    assert described({"n": 3}) == described({"n": np.int64(3)})
    used = Lazy(1.0)
    before = described({"o": used})
    assert used.twice == 2.0
    assert described({"o": used}) == before


def test_slices_with_steps_are_what_is_in_them():
    """As in ``y[rank::world]``, the labels of one process."""
    y = torch.arange(10.0)
    for part in (y[1::3], y[::2], torch.ones(4, 6)[:, ::2], np.arange(9.0)[::4]):
        copied = torch.as_tensor(part).clone(memory_format=torch.contiguous_format)
        assert described({"y": part}) == described({"y": copied})
    assert described({"y": y[1::3]}) != described({"y": y[::3][:3]})


def test_a_single_entry_of_a_larger_tensor_has_a_checksum():
    """Its stride is that of the larger one, which PyTorch calls contiguous all the same."""
    column = torch.arange(14.0).reshape(2, 7)[1:, 3]
    assert column.stride() == (7,)
    assert column.is_contiguous()
    assert checksum(column) == checksum(torch.tensor([10.0]))


def test_loops_end():
    inside = []
    inside.append(inside)
    assert described({"a": inside, "b": 1}) == {"b": "1"}


PROGRAM = """
import math, torch, decoupled_descent as dd
from decoupled_descent.training.fingerprint import checksum, described
class Head(torch.nn.Module):
    width = 2
    def forward(self, h):
        return h.sum(1) if "a" in {"a", "b", "c"} else h
optimiser = lambda p: torch.optim.Adam(p, lr=0.1)
algorithm = dd.DecoupledDescent(0.1, g=lambda h, y, a: h, head_optimizer=optimiser)
objective = dd.Objective(Head(), lambda u, y: (u - y) ** 2)
print(described({"algorithm": algorithm, "objective": objective, "f": torch.tanh, "s": {"x", "y"}}))
"""


@pytest.mark.slow
def test_every_process_says_the_same():
    """Order in sets and addresses differ from process to process."""
    command = [sys.executable, "-c", PROGRAM]
    one, other = (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in "ab"
    )
    assert one == other
    assert "0x" not in one
    assert "Head" in one
