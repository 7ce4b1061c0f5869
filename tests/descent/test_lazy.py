"""Rows that wait for their turn, against rows that are all moved at every step."""

import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.descent.lazy import LazyRows, transition
from decoupled_descent.descent.rules import Damped
from tests.problems import normal

RULES = {
    "still": Damped(0.1),
    "damped": Damped(0.1, 0.9),
    "nothing kept": Damped(0.1, 0.0),
    "momentum": dd.rules.SGD(0.1, 0.8, dampening=0.2),
    "nesterov": dd.rules.SGD(
        0.1, 0.8, nesterov=True, weight_decay=0.05, schedule=lambda step: 1 / (1 + step)
    ),
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_lazy_is_dense(rule):
    value, generator = normal(3, 10), torch.Generator().manual_seed(0)
    slots = rule.slots(value)
    lazy = LazyRows(value, slots)
    for step in range(40):
        index = torch.randperm(10, generator=generator)[:4]
        fresh = normal(3, 4, seed=step)
        kept = lazy.read(index)
        moved, following = rule(kept[0], fresh, kept[1:], step, 0.7)
        lazy.advance(transition(rule, step, value))
        lazy.write(index, (moved, *following))
        direction = torch.zeros_like(value)
        direction[:, index] = fresh
        value, slots = rule(value, direction, slots, step, 0.7)
        if step == 25:
            torch.testing.assert_close(lazy.settled()[0], value, rtol=0, atol=1e-12)
            assert lazy.age == 0
    for mine, dense in zip(lazy.settled(), (value, *slots), strict=True):
        torch.testing.assert_close(mine, dense, rtol=0, atol=1e-12)


def test_rows_that_stay_are_not_multiplied():
    lazy = LazyRows(normal(3, 10), ())
    for step in range(5):
        lazy.advance(transition(RULES["still"], step, normal(3, 4)))
    assert lazy.age == 0


class RowRates:
    """A decay of its own for every pre-activation."""

    def slots(self, value):
        return ()

    def __call__(self, value, direction, slots, step, scale):
        decay = torch.tensor([[0.9], [0.8], [0.7]], dtype=value.dtype)
        return decay * value - 0.1 * scale * direction, slots


class Counting(RowRates):
    def slots(self, value):
        return (torch.zeros(()),)


@pytest.mark.parametrize(
    ("rule", "message"), [(RowRates(), "decays some"), (Counting(), "must have the shape of theta")]
)
def test_rules_that_cannot_wait(rule, message):
    with pytest.raises(ValueError, match=message):
        transition(rule, 0, torch.zeros(3, 4))
