"""Heads as descriptions of their layers, and back again."""

import json
import os

import numpy as np
import pytest
import torch
from torch import nn

from decoupled_descent.objective import heads
from decoupled_descent.tables.estimators.layers import describe_head, rebuild_head
from decoupled_descent.tables.estimators.saving import save_model
from tests.tables.estimators.test_saving import regressor


class Mine(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 1)

    def forward(self, h):
        return self.layer(torch.tanh(h))


class Chain(nn.Sequential):
    def forward(self, h):
        return super().forward(h) + 1


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (Mine(), "Mine"),
        (Chain(nn.Linear(3, 1)), "Chain"),
        (heads.TwoLayer(3, torch.sin), "Elementwise"),
        (nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3), nn.Linear(3, 1)), "LayerNorm"),
    ],
)
def test_heads_that_cannot_be_described(tmp_path, head, name):
    model = regressor(head=head, lr=0.01, max_iter=2)
    with pytest.raises(ValueError, match=rf"type {name},.*head_.state_dict\(\)") as caught:
        save_model(model, tmp_path / "model.safetensors")
    assert "\n" not in str(caught.value)
    assert not os.listdir(tmp_path)


def test_descriptions_of_heads():
    head = heads.Deep([3, 2], "softplus", 4, bias=True, seed=0)
    state = {f"head.{name}": value for name, value in head.state_dict().items()}
    again = rebuild_head(json.loads(json.dumps(describe_head(head))), state, np.zeros((3, 2)))
    h = torch.randn(7, 3)
    assert torch.equal(again(h), head(h))
    assert describe_head(again) == describe_head(head)
