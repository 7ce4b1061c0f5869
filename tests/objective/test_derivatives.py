import torch

from decoupled_descent.objective.derivatives import Ask, weighted
from tests.problems import normal


def test_weights_multiply_the_last_axis():
    values, weights = normal(3, 2, 5), normal(5, seed=1)
    expected = torch.stack([values[..., k] * weights[k] for k in range(5)], -1)
    torch.testing.assert_close(weighted(values, weights), expected, rtol=0, atol=0)
    assert weighted(values, None) is values


def test_everything_is_asked_for_by_default():
    ask = Ask()
    assert ask.jacobian
    assert ask.head
    assert ask.jacobian_weights is ask.head_weights is None
