"""Several heads at once against one after the other."""

import pytest
import torch

import decoupled_descent as dd
from tests.objective.references import LOSSES, labels
from tests.objective.test_structured import HEADS, N
from tests.problems import normal


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("loss", LOSSES)
def test_several_heads_are_one_after_the_other(name, loss):
    width, make = HEADS[name]
    K = 3 if loss == "cross_entropy" else 1
    head = make(torch.nn.Tanh, K)
    first = next(head.parameters(), None)
    if first is None:
        pytest.skip("a head without parameters")
    first.requires_grad_(requires_grad=name != "three layers")  # a constant among them
    objective = dd.Objective(head, loss, width=width)
    assert objective.several is not None
    h, y = normal(N, width), labels(loss, N, K)
    bound = objective.bind(y, width, h)
    own = objective.parameters(h)
    heads = {k: v + normal(4, *v.shape, seed=3) for k, v in own.items()}
    weights = normal(4, N, seed=9).abs()
    losses, means = bound.several_heads(h, y, heads, weights)
    for k in range(4):
        parameters = {name: value[k] for name, value in heads.items()}
        alone = bound.derivatives(h, y, parameters, jacobian=False, weights=weights[k])
        torch.testing.assert_close(losses[k], alone.loss, rtol=1e-12, atol=1e-12)
        found = {name: value[k] for name, value in means.items()}
        torch.testing.assert_close(found, alone.head, rtol=1e-12, atol=1e-12)
