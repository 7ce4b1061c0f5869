"""Rows of any shape, groups and weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import decoupled_descent as dd
from decoupled_descent.networks.examples import Examples
from tests.networks.path_problems import close, recorded, rows, tanh_network


def test_standard_error_of_groups_is_that_of_the_sums_of_their_deviations():
    X, y = rows(24, 3)
    groups = torch.arange(24) % 8
    algorithm = dd.DecoupledGaussNewton()
    run, seen = recorded(X, y, tanh_network(3, 3), algorithm, 2, loss="logistic", groups=groups)
    losses = nn.functional.binary_cross_entropy_with_logits(seen[1][:, 0], y, reduction="none")
    sums = torch.stack([(losses - losses.mean())[groups == k].sum() for k in range(8)])
    alone = sums.std() * 8**0.5 / 24
    close(run.train_error_stderr[1], (alone**2 + run.last.info.pairs).sqrt())
    assert 0 < run.last.info.pairs < alone**2


def test_members_of_groups_of_unequal_size():
    data = Examples(torch.zeros(6, 2), torch.zeros(6), groups=[4, 9, 4, 4, 7, 9])
    followed = data.followed(torch.tensor([0, 2]), 2)  # groups 4 and 9
    assert followed.rows.tolist() == [0, 1, 2, 3, 5]
    assert followed.first.tolist() == [0, 1]
    taken = [places[there].tolist() for places, there in zip(*followed.members(), strict=True)]
    assert taken == [[0, 1, 4, 5, 6, 7], [2, 3, 10, 11]]
    without = followed.weights_without(data)
    assert without.tolist() == [[0, 1, 0, 0, 1, 1], [1, 0, 1, 1, 1, 0]]


def test_a_part_of_the_groups_is_drawn_by_the_seed():
    data = Examples(torch.zeros(50, 2), torch.zeros(50))
    chosen = [data.follow(1, 10, seed).chosen.tolist() for seed in (0, 0, 1)]
    assert chosen[0] == chosen[1] != chosen[2]
    assert len(set(chosen[0])) == 10
    assert data.follow(1, 80).count == 50


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (torch.zeros(1, 3), torch.zeros(1), "at least 2 rows"),
        (torch.zeros(4, 3), torch.zeros(5), "y has shape"),
        (torch.full((4, 3), torch.nan), torch.zeros(4), "X\\[0, 0\\] is nan"),
        (torch.zeros(4, 3).half(), torch.zeros(4), "float32 or float64"),
        (np.array([["a"], ["b"]]), torch.zeros(2), "must be numeric"),
    ],
)
def test_wrong_rows(X, y, message):
    with pytest.raises(ValueError, match=message):
        Examples(X, y)


def test_tokens_stay_whole_numbers():
    data = Examples(torch.ones(4, 3, dtype=torch.int64), torch.tensor([True, False, True, True]))
    assert data.X.dtype == torch.int64
    assert data.y.dtype == data.like.dtype == torch.float32
