"""Kinks of losses of one's own, wherever the labels are and however rare."""

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional

import decoupled_descent as dd
from decoupled_descent.objective.losses import varied_rows
from decoupled_descent.objective.smoothed import jumps
from tests.problems import normal


def linear(weight=0.3):
    head = nn.Linear(1, 1).double()
    nn.init.constant_(head.weight, weight)
    nn.init.constant_(head.bias, 0.1)
    return head


HEADS = {
    "nn.Linear": linear,
    "next to nothing": lambda: linear(1e-3),
    "Linear": dd.heads.Linear,
    "TwoLayer": lambda: dd.heads.TwoLayer(3, seed=0).double(),
    "positive": lambda: dd.heads.TwoLayer(3, link="softplus", seed=0).double(),
}
LABELS = {
    "around 10": 10 + normal(200),
    "two far ones": torch.where(normal(200) > 0, 39.0, 41.0),
    "huge": 1e5 * (1 + normal(200).abs()),
    "small": 0.01 * normal(200).abs() + 1e-4,
    "whole numbers": (10 * normal(200)).round().long() + 50,
}


def difference(u, y):
    return u.reshape(-1) - y


def absolute(u, y):
    return difference(u, y).abs()


def pinball(u, y):
    return torch.maximum(0.2 * difference(u, y), -0.8 * difference(u, y))


def insensitive(u, y):
    return torch.relu(absolute(u, y) - 0.001 * (1 + y))


def curvature(head, loss, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dd.KinkWarning)
        objective = dd.Objective(head, loss)
        return objective.curvature_for(y, objective.width or 1)


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("loss", [absolute, pinball, insensitive])
def test_kinks_are_found_where_the_labels_are(loss, head, labels):
    assert curvature(HEADS[head](), loss, LABELS[labels]) == "smoothed"


SMOOTH = {
    "Huber": lambda u, y: functional.huber_loss(u.reshape(-1), y.to(u), reduction="none"),
    "steep Huber": lambda u, y: functional.smooth_l1_loss(
        u.reshape(-1), y.to(u), reduction="none", beta=0.01
    ),
    "Welsch": lambda u, y: 1 - torch.exp(-difference(u, y).square() / 2),
    "narrow Welsch": lambda u, y: 1 - torch.exp(-difference(u, y).square() / 2e-4),
    "log cosh": lambda u, y: torch.log(torch.cosh(difference(u, y))),
    "sharp softplus": lambda u, y: functional.softplus(100 * difference(u, y)) / 100,
    "Cauchy": lambda u, y: torch.log1p(difference(u, y).square()),
    "expectile": lambda u, y: torch.where(difference(u, y) > 0, 0.2, 0.8) * difference(u, y) ** 2,
    "Poisson": lambda u, y: u.reshape(-1).exp() - y * u.reshape(-1),
    "gamma": lambda u, y: y / u.reshape(-1) + u.reshape(-1).log(),
    "a pole": lambda u, y: y / u.reshape(-1) ** 2 + u.reshape(-1),
}


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("loss", SMOOTH)
def test_smooth_losses_are_left_alone(loss, head, labels):
    assert curvature(HEADS[head](), SMOOTH[loss], LABELS[labels]) == "autodiff"


def test_the_same_run_as_with_the_named_loss():
    X, _ = dd.mixtures.signalless(40).sample(60, seed=0)
    y = torch.where(normal(60) > 0, 39.0, 41.0)
    head, algorithm = nn.Linear(1, 1), dd.DecoupledDescent(0.05)
    with pytest.warns(dd.KinkWarning):
        found = dd.fit(X, y, dd.Objective(head, absolute), algorithm, 10, seed=0)
    named = dd.Objective(head, "absolute", curvature="smoothed")
    wanted = dd.fit(X, y, named, algorithm, 10, seed=0)
    torch.testing.assert_close(found.theta, wanted.theta)


def test_kinks_of_a_rare_class():
    def hurdle(u, y):
        return torch.where(y > 0.5, 5 * torch.relu(1 - u.reshape(-1)), u.reshape(-1) ** 2 / 2)

    y = (torch.arange(1000) % 20 == 7).double()
    assert curvature(dd.heads.Linear(), hurdle, y) == "smoothed"
    assert curvature(dd.heads.Linear(), hurdle, torch.zeros(1000)) == "autodiff"


@pytest.mark.parametrize("target", [0, 1])
def test_labels_in_several_columns(target):
    y = torch.stack([40 + normal(200), normal(200, seed=1).abs()], 1)
    y = y if target == 0 else y.flip(1)

    def weighted(u, y):
        return y[:, 1 - target] * (u.squeeze(1) - y[:, target]).abs()

    assert curvature(dd.heads.Linear(), weighted, y) == "smoothed"


def test_several_outputs():
    levels = torch.tensor([0.1, 0.5, 0.9])

    def quantiles(u, y):
        error = y.unsqueeze(1) - u
        return torch.maximum(levels * error, (levels - 1) * error).sum(1)

    def vector(u, y):
        return (u - y).abs().sum(1)

    def head(outputs):
        return dd.heads.TwoLayer(3, outputs=outputs, seed=0)

    assert curvature(head(3), quantiles, 40 + normal(200)) == "smoothed"
    y = torch.stack([normal(200), normal(200) - 300], 1)
    assert curvature(head(2), vector, y) == "smoothed"
    classes = torch.arange(200) % 30
    margin = nn.MultiMarginLoss(reduction="none")
    assert curvature(head(30), margin, classes) == "smoothed"
    assert curvature(head(30), nn.CrossEntropyLoss(reduction="none"), classes) == "autodiff"


def test_only_outputs_of_the_head_count():
    """Beyond them a loss may have kinks, or refuse to be evaluated."""
    sigmoid = dd.heads.TwoLayer(3, link="sigmoid", seed=0)
    y = (normal(200) > 0).double()
    assert curvature(sigmoid, lambda u, y: absolute(u.clamp(-0.5, 1.5), y) ** 2, y) == "autodiff"
    assert curvature(sigmoid, lambda u, y: (u.squeeze(1) - 0.3).abs(), y) == "smoothed"
    strict = nn.BCELoss(reduction="none")
    assert curvature(sigmoid, lambda u, y: strict(u.squeeze(1), y), y) == "autodiff"


def test_a_loss_that_fails_far_from_the_data_is_taken_to_be_smooth():
    def guarded(u, y):
        assert (u.abs() < 70).all()
        return difference(u, y).square()

    assert curvature(dd.heads.Linear(), guarded, 40 + normal(200)) == "autodiff"


def clipped_below_five(u, y):
    return torch.where(y < 5, absolute(u, y), difference(u, y) ** 2)


def test_labels_of_another_range_are_looked_at_again():
    X, _ = dd.mixtures.signalless(40).sample(60, seed=0)
    y, algorithm = normal(60), dd.DecoupledDescent(0.05)
    objective = dd.Objective(dd.heads.Linear(), clipped_below_five)
    dd.fit(X, y + 30, objective, algorithm, 2)
    assert objective.curvature == "autodiff"
    with pytest.warns(dd.KinkWarning) as caught:
        dd.fit(X, y, objective, algorithm, 2)
    assert objective.curvature == "smoothed"
    dd.fit(X, y + 30, objective, algorithm, 2)
    dd.fit(X, y - 30, objective, algorithm, 2)
    assert len(caught) == 1


def test_looking_once_is_enough_for_labels_seen_before(monkeypatch):
    X, _ = dd.mixtures.signalless(40).sample(60, seed=0)
    y, objective = normal(60), dd.Objective(dd.heads.Linear(), SMOOTH["log cosh"])
    dd.fit(X, y, objective, dd.DecoupledDescent(0.05), 2)
    monkeypatch.setattr("decoupled_descent.objective.smoothed.find_kinks", None)
    dd.fit(X, y / 2, objective, dd.DecoupledDescent(0.05), 5, test=(X, y))


def test_poles_and_holes_are_no_jumps():
    y = normal(16)
    assert not jumps(lambda h, y: 1 / h, 1, y)
    assert not jumps(lambda h, y: (h - 0.3).log(), 1, y)
    assert jumps(lambda h, y: (h + 3).sqrt() * (h - 0.3).sign(), 1, y)


@pytest.mark.parametrize(
    ("labels", "count", "picked"),
    [
        ([3.0, 3.0, 1.0, 3.0, 2.0], 3, [1.0, 2.0, 3.0]),
        ([True, False, False, False], 4, [False, False, True, True]),
        (list(range(100)), 4, [0, 33, 66, 99]),
        ([7], 2, [7, 7]),
        ([[0, 5], [0, 6], [1, 5], [0, 7]], 4, [[0, 5], [1, 5], [0, 5], [0, 7]]),
    ],
)
def test_varied_rows(labels, count, picked):
    y = torch.tensor(labels)
    assert y[varied_rows(y, count)].tolist() == picked
