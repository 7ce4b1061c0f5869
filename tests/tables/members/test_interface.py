"""What a table says about its labels and units."""

import torch

from tests.tables.members.problems import table


def test_width_is_that_of_predictions():
    assert table("logistic").width == 2
    assert table("cross_entropy", outputs=3).width == 3
    assert table("squared", outputs=2).width == 2
    assert table("squared").width == 1


def test_classes_and_units():
    assert table("squared").classes is None
    assert set(table("logistic").classes.tolist()) == {0, 1}
    assert table().units.tolist() == list(range(80))
    groups = torch.arange(80) // 4
    assert table(groups=groups).units is groups
