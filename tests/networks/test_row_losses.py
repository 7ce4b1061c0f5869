"""Losses row by row."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from decoupled_descent.networks.row_losses import RowLosses
from tests.networks.problems import rows


@pytest.mark.parametrize(
    "criterion", [nn.CrossEntropyLoss(label_smoothing=0.1), F.cross_entropy,
                  lambda o, y: F.cross_entropy(o, y, reduction="none")]
)  # fmt: skip
def test_the_mean_over_rows_is_the_criterion(criterion):
    X, y = rows()
    found = RowLosses(criterion)
    losses = found(X[:, :3], y)
    assert losses.shape == (60,)
    torch.testing.assert_close(losses.mean(), criterion(X[:, :3], y).mean())
    one = criterion(X[5:6, :3], y[5:6]).reshape(())
    torch.testing.assert_close(losses[5], one)
    found.check(X[:, :3], y)


def test_numbers_of_one_row_are_averaged():
    outputs, y = torch.randn(5, 7, 4), torch.randint(7, (5, 4))  # classes on the second axis
    losses = RowLosses(nn.CrossEntropyLoss())(outputs, y)
    torch.testing.assert_close(losses.mean(), F.cross_entropy(outputs, y))


def test_a_column_is_not_compared_with_every_label():
    X, _ = rows()
    losses = RowLosses(nn.MSELoss())(X[:, :1], X[:, 1])
    torch.testing.assert_close(losses, (X[:, 0] - X[:, 1]) ** 2)


def test_refusals():
    X, y = rows()
    with pytest.raises(ValueError, match=r"give weights of rows, weight\[y\]"):
        RowLosses(nn.CrossEntropyLoss(weight=torch.ones(3)))
    with pytest.raises(ValueError, match="it must be a mean over rows"):
        RowLosses(lambda o, y: F.cross_entropy(o, y) ** 2).check(X[:, :3], y)
    labels = y.clone()
    labels[:30] = -100
    with pytest.raises(ValueError, match="ignored labels, give sample_weight=0"):
        RowLosses(nn.CrossEntropyLoss()).check(X[:, :3], labels)
    with pytest.raises(ValueError, match=r"criterion returned shape \(1,\) for 60 rows"):
        RowLosses(lambda o, y: F.cross_entropy(o, y).reshape(1))(X[:, :3], y)
