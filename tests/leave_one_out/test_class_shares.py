"""Weights that keep the shares of the classes."""

from dataclasses import replace

import pytest
import torch

from tests.leave_one_out.test_leave_out import Case


@pytest.mark.parametrize(("loss", "outputs"), [("logistic", 1), ("cross_entropy", 3)])
def test_the_other_rows_of_a_class_get_the_weight_of_the_row(loss, outputs):
    shares = Case(loss, 1.0, outputs, weights=torch.rand(40).numpy() + 0.5).shares
    for row in (0, 11):
        weights = shares.weights_without(row)
        assert weights[row] == 0
        for c, total in enumerate(shares.totals):
            torch.testing.assert_close(weights[shares.classes == c].sum(), total)
        others = shares.classes != shares.classes[row]
        assert torch.equal(weights[others], shares.weights[others])


def test_numbers_have_no_shares():
    assert Case("squared", 1.0).shares is None


def test_the_last_row_of_a_class_leaves_without_a_raise():
    at = Case("logistic", 1.0)
    single = at.shares.classes.clone()
    single[:] = 0
    single[7] = 1
    totals = torch.tensor([39.0, 1.0], dtype=torch.float64)
    shares = replace(at.shares, classes=single, totals=totals)
    raises = shares.raises(torch.tensor([[7], [3]]))
    torch.testing.assert_close(raises, torch.tensor([[0.0, 0.0], [1 / 38, 0.0]]).double())
