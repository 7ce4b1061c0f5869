"""Weights and groups, checked and combined."""

import numpy as np
import pytest
import torch

from decoupled_descent.tables.estimators.row_weights import check_groups, combine_weights


def test_no_weights_are_no_weights():
    weights = combine_weights(None, None, None, 3)
    assert weights.kept is weights.weights is weights.shares is weights.groups is None


def test_class_weights_count_in_training_only():
    weights = combine_weights([1.0, 1.0, 2.0, 0.0], np.array([3.0, 1.0, 1.0, 1.0]), None, 4)
    assert weights.kept.tolist() == [True, True, True, False]
    torch.testing.assert_close(weights.weights / weights.shares, torch.tensor([3.0, 1, 1]).double())
    torch.testing.assert_close(weights.unit * weights.shares, torch.tensor([1.0, 1, 2]).double())


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (["a", "a"], "has shape"),
        (["a", None, "b"], "1 missing value"),
        (["a", "a", "a"], "one value only"),
        (["a", "b", "c"], "3 different values"),
    ],
)
def test_groups_that_cannot_be_left_out(groups, message):
    with pytest.raises(ValueError, match=message):
        check_groups(np.array(groups, dtype=object), 3)
