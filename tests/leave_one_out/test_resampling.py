"""How left-out outputs vary with the sample: against refits with slightly other weights."""

import numpy as np
import pytest
import torch

from decoupled_descent.leave_one_out.resampling import half_samples, is_designed, variation
from tests.leave_one_out.test_leave_out import Case
from tests.oracles import newton as oracle


def test_designs_have_equal_classes():
    assert is_designed(torch.tensor([0, 1, 1, 0]))
    assert is_designed(torch.tensor([0, 2, 2, 0]))  # class 1 has no rows
    assert not is_designed(torch.tensor([0, 1, 1]))
    assert not is_designed(torch.tensor([1, 1, 1]))


def test_signs_of_half_samples():
    drawn, designed = torch.arange(41) % 3, torch.arange(42) % 3
    signs = half_samples(designed, None, 400, seed=0)
    assert signs.shape == (42, 400)
    for label in range(3):
        assert not signs[designed == label].sum(0).any()
    free = half_samples(drawn, None, 400, seed=0)
    assert free.sum(0).any()
    for found in (signs, free):
        assert set(found.unique().tolist()) == {-1.0, 1.0}
        assert float(found.mean(1).abs().max()) < 5 / 400**0.5  # five standard errors
    groups = torch.arange(42) // 6
    together = half_samples(designed, groups, 20, seed=0)
    for group in range(7):
        assert (together[groups == group] == together[groups == group][:1]).all()


@pytest.mark.parametrize(("loss", "outputs"), [("logistic", 1), ("cross_entropy", 3)])
def test_variation_is_the_derivative_of_refits(loss, outputs):
    """Weights 1 + hξ of the other rows move the outputs by h times the variation.

    A strong ridge makes d = g, and the outputs of row i without it those of a refit.
    """
    at = Case(loss, 200.0, outputs, shape=(40, 6))
    n, h = 40, 1e-3
    signs = half_samples(at.shares.classes, None, 3, seed=1)
    assert not is_designed(at.shares.classes)
    found = variation(at.minimum, signs)
    weights = torch.ones(n, dtype=torch.float64)
    for row in (0, 17):
        for draw in range(3):
            ends = []
            for step in (h, -h):
                own = weights + step * signs[:, draw]
                own[row] = 0.0
                beta = oracle.fit(at.X, at.y, at.loss, at.ridge, own.numpy(), outputs)
                ends.append(oracle.predict(at.X[[row]], beta)[0])
            expected = (ends[0] - ends[1]) / (2 * h)
            moved = found.halves[:, row, draw].numpy()
            if outputs > 1:
                expected, moved = expected - expected.mean(), moved - moved.mean()
            scale = found.halves.abs().mean()
            np.testing.assert_allclose(moved, expected, atol=0.12 * float(scale), rtol=0.12)


def test_shares_that_are_drawn_are_not_kept():
    at = Case("logistic", 1.0)
    signs = torch.ones(40, 1, dtype=torch.float64)
    found = variation(at.minimum, signs)
    truth = torch.tensor(
        oracle.refits(at.X, at.y, lambda *args: oracle.logistic(*args), 1.0)  # no shares are kept
    )
    kept = at.again(at.once()).outputs
    missed = (kept + found.drawn - truth).abs().mean()
    assert missed < 0.35 * (kept - truth).abs().mean()
