"""Schedules unrolled into rates, against an optimiser that is really stepped."""

from functools import partial

import pytest
import torch
from torch.optim import lr_scheduler

import decoupled_descent as dd
from decoupled_descent.descent.schedules import Unrolled


def chained(optimiser):
    warm = lr_scheduler.LinearLR(optimiser, 0.1, total_iters=5)
    return lr_scheduler.SequentialLR(
        optimiser, [warm, lr_scheduler.CosineAnnealingLR(optimiser, 20)], [5]
    )


SCHEDULERS = {
    "step": partial(lr_scheduler.StepLR, step_size=7, gamma=0.5),
    "multi-step": partial(lr_scheduler.MultiStepLR, milestones=[3, 9], gamma=0.3),
    "constant": lr_scheduler.ConstantLR,
    "exponential": partial(lr_scheduler.ExponentialLR, gamma=0.95),
    "linear": lr_scheduler.LinearLR,
    "polynomial": partial(lr_scheduler.PolynomialLR, total_iters=20, power=2),
    "cosine": partial(lr_scheduler.CosineAnnealingLR, T_max=12),
    "warm restarts": partial(lr_scheduler.CosineAnnealingWarmRestarts, T_0=6),
    "lambda": partial(lr_scheduler.LambdaLR, lr_lambda=lambda epoch: 0.9**epoch),
    "multiplicative": partial(lr_scheduler.MultiplicativeLR, lr_lambda=lambda epoch: 0.97),
    "cyclic": partial(lr_scheduler.CyclicLR, base_lr=0.01, max_lr=0.1, step_size_up=5),
    "one cycle": partial(lr_scheduler.OneCycleLR, max_lr=0.2, total_steps=30),
    "a function": chained,
}


@pytest.mark.parametrize("schedule", SCHEDULERS.values(), ids=SCHEDULERS)
def test_rates_are_those_of_an_optimiser(schedule):
    parameter = torch.zeros(1, requires_grad=True)
    optimiser = torch.optim.SGD([parameter], lr=0.1, momentum=0.9)
    scheduler, rates = schedule(optimiser), Unrolled(schedule, 0.1, 0.9)
    for step in range(30):
        group = optimiser.param_groups[0]
        assert rates[step] == (group["lr"], group["momentum"])
        optimiser.step()
        scheduler.step()


def test_a_function_of_the_step_multiplies_the_rate():
    rates = Unrolled(lambda step: 1 / (step + 1), 0.3, 0.5)
    assert [rates[k] for k in range(3)] == [(0.3, 0.5), (0.15, 0.5), (0.3 / 3, 0.5)]
    assert Unrolled(None, 0.3)[10**6] == (0.3, 0.0)


def test_steps_in_any_order():
    forward, backward = (Unrolled(SCHEDULERS["cosine"], 0.1) for _ in range(2))
    assert [forward[k] for k in range(40)] == [backward[k] for k in reversed(range(40))][::-1]


def test_the_end_of_a_schedule():
    rule = dd.rules.SGD(0.1, 0.9, schedule=SCHEDULERS["one cycle"])
    assert rule.rates(30)
    with pytest.raises(IndexError, match=r"no rate for step 31: OneCycleLR ends after step 30"):
        rule.rates(31)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (0.1, "schedule=0.1 must be a function of the step"),
        (lambda step: None, "schedule returned None for step 0"),
        (lr_scheduler.StepLR, "cannot be made: .*step_size"),
        (lr_scheduler.ReduceLROnPlateau, "ReduceLROnPlateau watches the error"),
    ],
)
def test_bad_schedules(schedule, message):
    with pytest.raises(ValueError, match=message):
        dd.rules.SGD(0.1, schedule=schedule)
