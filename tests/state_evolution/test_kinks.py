import pytest
import torch
from torch import nn
from torch.nn import functional

import decoupled_descent as dd
from decoupled_descent.descent.info import LimitStep
from decoupled_descent.state_evolution.averages import Model
from decoupled_descent.state_evolution.orders import has_kinks, loss_has_kinks

MIXTURE = dd.mixtures.flipped_classes(10, flip=0.01)
LINEAR = dd.heads.Linear()


def two_layer(activation):
    return nn.Sequential(nn.Linear(2, 3), activation, nn.Linear(3, 1))


def hinge(u, y):
    return functional.relu(1 - y * u[:, 0])


def rare(u, y):
    """A kink for the rarer label of either class only."""
    return torch.where(y == 1, u[:, 0].abs(), u[:, 0].square())


def huber(u, y):
    return functional.huber_loss(u[:, 0], y, reduction="none", delta=0.5)


def wrong(u, y):
    return y * u[:, 0] < 0


CASES = {
    "squared": (LINEAR, "squared", False, False),
    "smooth loss of one's own": (LINEAR, lambda u, y: torch.cosh(u[:, 0] - y), False, False),
    "absolute": (LINEAR, "absolute", True, True),
    "hinge": (LINEAR, hinge, True, True),
    "a rare label": (LINEAR, rare, True, True),
    "Huber: a kink of the slope": (LINEAR, huber, False, True),
    "wrong classes": (LINEAR, wrong, True, True),
    "no gradient": (LINEAR, lambda u, y: u.detach()[:, 0].square(), True, True),
    "tanh": (two_layer(nn.Tanh()), "squared", False, False),
    "Mish": (two_layer(nn.Mish()), "squared", False, False),
    "ReLU": (two_layer(nn.ReLU()), "squared", True, True),
    "ELU: a kink of the slope": (two_layer(nn.ELU()), "squared", False, True),
}


@pytest.mark.parametrize("name", CASES)
def test_kinks_are_found(name):
    head, loss, in_loss, in_direction = CASES[name]
    objective = dd.Objective(head, loss)
    model = Model(objective, MIXTURE, objective.width or 1)
    assert loss_has_kinks(model) is in_loss
    assert has_kinks(model) is in_direction


@pytest.mark.parametrize("curvature", ["autodiff", "smoothed"])
def test_what_the_curvature_is_called_makes_no_difference(curvature):
    for loss, kinked in (("absolute", True), ("squared", False), (hinge, True)):
        objective = dd.Objective(LINEAR, loss, curvature=curvature)
        assert has_kinks(Model(objective, MIXTURE, 1)) is kinked


@pytest.mark.filterwarnings("ignore::decoupled_descent.KinkWarning")
@pytest.mark.parametrize(
    ("g", "kinked"),
    [
        (lambda h, y, a: torch.tanh(h - y[:, None]), False),
        (lambda h, y, a: torch.sign(h - y[:, None]), True),
        (lambda h, y, a: (h - y[:, None]).clamp(-1, 1), True),
        (lambda h, y, a: h * torch.ones(7, 1), False),  # for seven rows of its own only
    ],
)
def test_directions_of_one_s_own(g, kinked):
    step = LimitStep(g)
    assert has_kinks(Model(dd.Objective(LINEAR, "squared"), MIXTURE, 1, step)) is kinked
    assert has_kinks(Model(dd.Objective(LINEAR, "absolute"), MIXTURE, 1, step))


def test_kinks_far_from_where_heads_begin():
    mixture = dd.mixtures.flipped_classes(10, labels=(39.0, 41.0))
    kinked = dd.Objective(dd.heads.Linear(), lambda u, y: (u.reshape(-1) - y).abs())
    smooth = dd.Objective(dd.heads.Linear(), lambda u, y: torch.log1p((u.reshape(-1) - y) ** 2))
    assert loss_has_kinks(Model(kinked, mixture, 1))
    assert not loss_has_kinks(Model(smooth, mixture, 1))
