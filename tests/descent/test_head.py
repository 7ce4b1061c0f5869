"""The head's step by optimisers of PyTorch, against such an optimiser in a plain loop."""

from functools import partial

import pytest
import torch
from torch import nn, optim

import decoupled_descent as dd
from decoupled_descent.descent.head import moved, starting_slots
from tests.problems import binary, normal, two_layer

OPTIMISERS = {
    "sgd": partial(optim.SGD, lr=0.1),
    "momentum": partial(optim.SGD, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.01),
    "adam": partial(optim.Adam, lr=0.05),
    "amsgrad": partial(optim.Adam, lr=0.05, amsgrad=True),
    "adamw": partial(optim.AdamW, lr=0.05),
    "adamax": optim.Adamax,
    "nadam": optim.NAdam,
    "radam": optim.RAdam,
    "rmsprop": partial(optim.RMSprop, lr=0.01, centered=True, momentum=0.5),
    "rprop": optim.Rprop,
    "adagrad": partial(optim.Adagrad, lr=0.1, initial_accumulator_value=0.5),
    "adadelta": optim.Adadelta,
    "asgd": optim.ASGD,
}
every_optimiser = pytest.mark.parametrize("make", OPTIMISERS.values(), ids=OPTIMISERS)


@every_optimiser
def test_steps_are_those_of_the_optimiser(make):
    parameters = {"1.weight": normal(3, 2), "1.bias": normal(3, seed=1)}
    values = [value.clone().requires_grad_() for value in parameters.values()]
    optimiser, slots = make(values), starting_slots(make, parameters)
    for step in range(12):
        gradient = {name: normal(*v.shape, seed=step) for name, v in parameters.items()}
        for value, slope in zip(values, gradient.values(), strict=True):
            value.grad = slope.clone()
        optimiser.step()
        parameters, following = moved(make, parameters, gradient, slots, first=step == 0)
        assert list(following) == list(slots)
        slots = following
        for mine, value in zip(parameters.values(), values, strict=True):
            assert torch.equal(mine, value)


@every_optimiser
@pytest.mark.parametrize("kind", [dd.GradientDescent, dd.DecoupledDescent])
def test_checkpoints_carry_it(make, kind, tmp_path):
    (X, y), objective = binary(), two_layer()
    algorithm = kind(0.05, head_optimizer=make)
    run = dd.fit(X, y, objective, algorithm, 10)

    def stop(step):
        if step.index == 4:
            raise InterruptedError

    often = dd.Checkpoint(tmp_path, every=3)
    with pytest.raises(InterruptedError):
        dd.fit(X, y, objective, algorithm, 10, callbacks=stop, checkpoint=often)
    resumed = dd.fit(X, y, objective, algorithm, 10, checkpoint=often)
    assert resumed.history == run.history
    torch.testing.assert_close(resumed.state, run.state, rtol=0, atol=0)


def test_whole_training_is_that_of_two_optimisers():
    """Gradient descent with SGD on the first layer and AdamW on the rest, as in PyTorch."""
    (X, y), theta, objective = binary(), normal(3, 16), two_layer(bias=True)
    make = partial(optim.AdamW, lr=0.05)
    algorithm = dd.GradientDescent(
        0.5, reduction="mean", rule=dd.rules.SGD(0.5, 0.9), head_optimizer=make
    )
    run = dd.fit(X, y, objective, algorithm, 21, theta=theta)
    first, head = nn.Linear(16, 3, bias=False).double(), dd.heads.TwoLayer(3, bias=True).double()
    head.load_state_dict(objective.head.state_dict())
    with torch.no_grad():
        first.weight.copy_(theta)
    optimisers = optim.SGD(first.parameters(), 0.5, 0.9), make(list(head.parameters()))
    for _ in range(20):
        output = head(first(X)).squeeze(1)
        first.zero_grad()
        head.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(output, y).backward()
        for optimiser in optimisers:
            optimiser.step()
    torch.testing.assert_close(run.theta, first.weight.detach(), rtol=0, atol=1e-12)
    for mine, its in zip(run.head.parameters(), head.parameters(), strict=True):
        torch.testing.assert_close(mine, its, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"head_optimizer": optim.LBFGS}, "LBFGS evaluates the loss several times"),
        ({"head_optimizer": lambda values: None}, "must make a torch.optim.Optimizer"),
        ({"head_optimizer": partial(optim.Adam, lr=-1)}, "cannot be made: Invalid learning rate"),
    ],
)
def test_bad_optimisers(options, message):
    (X, y), objective = binary(), two_layer()
    with pytest.raises(ValueError, match=message):
        dd.fit(X, y, objective, dd.DecoupledDescent(0.1, **options), 2)


def test_rates_beside_an_optimiser():
    for options in ({"head_lr": 0.1}, {"head_damping": 0.9}):
        with pytest.raises(ValueError, match="no effect beside head_optimizer"):
            dd.DecoupledDescent(0.1, head_optimizer=optim.Adam, **options)
