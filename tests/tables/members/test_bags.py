"""Bags: sizes, classes, groups."""

import numpy as np
import pytest
import torch

from decoupled_descent.tables.members.bags import draw_bags
from tests.tables.members.problems import table


def test_rows_are_drawn_with_replacement():
    bags = draw_bags(table("squared"), 300, seed=0)
    assert bags.shape == (300, 80)
    assert (bags.sum(1) == 80).all()
    share = (bags == 0).mean()
    expected = (1 - 1 / 80) ** 80
    assert abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / bags.size)


@pytest.mark.parametrize(("kind", "outputs"), [("logistic", 1), ("cross_entropy", 3)])
def test_every_bag_has_the_shares_of_the_classes(kind, outputs):
    given = table(kind, outputs=outputs)
    classes = given.classes.numpy()
    for bag in draw_bags(given, 20, seed=1):
        np.testing.assert_array_equal(
            np.bincount(classes, bag, minlength=given.width), np.bincount(classes)
        )


def test_groups_are_drawn_whole():
    groups = torch.arange(80) // 4
    for bag in draw_bags(table(groups=groups), 20, seed=2):
        drawn = bag.reshape(20, 4)
        assert (drawn == drawn[:, :1]).all()
        assert (drawn == 0).any()


def test_a_class_of_one_row_is_not_in_every_bag():
    given = table("cross_entropy", outputs=4)
    y = given.y.clone()
    y[0] = 3
    bags = draw_bags(given._replace(y=y), 100, seed=3)
    assert 0 < (bags[:, 0] == 0).sum() < 100
    assert draw_bags(given._replace(y=torch.arange(80)), 50, seed=3).any(1).all()
