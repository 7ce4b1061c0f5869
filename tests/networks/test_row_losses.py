"""Losses row by row."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from decoupled_descent.networks.row_losses import RowLosses, by_rows
from decoupled_descent.objective.losses import get_loss
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


def test_a_function_that_averages_is_taken_row_by_row():
    outputs, y = torch.randn(6, 3), torch.arange(6) % 3
    wanted = F.cross_entropy(outputs, y, reduction="none")
    for function in (F.cross_entropy, lambda o, labels: F.cross_entropy(o, labels)):
        loss = by_rows(get_loss(function), outputs, y)
        torch.testing.assert_close(loss.of(outputs, y), wanted)
    rows = get_loss(lambda o, labels: F.cross_entropy(o, labels, reduction="none"))
    assert by_rows(rows, outputs, y) is rows


def test_a_weighted_mean_and_a_sum_are_refused():
    outputs, y = torch.randn(6, 3), torch.arange(6) % 3
    y[:2] = 0
    for options in ({"reduction": "sum"}, {"weight": torch.tensor([1.0, 2.0, 3.0])}):
        loss = get_loss(lambda o, labels, options=options: F.cross_entropy(o, labels, **options))
        with pytest.raises(ValueError, match="it must be a mean over rows"):
            by_rows(loss, outputs, y)


def test_classes_in_the_last_dimension_are_refused_with_the_remedy():
    with pytest.raises(ValueError, match=r"criterion CrossEntropyLoss fails .* return outputs.mT"):
        RowLosses(nn.CrossEntropyLoss()).check(torch.randn(6, 5, 3), torch.zeros(6, 5).long())
