"""Kinks of losses of one's own, wherever the labels are."""

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional

import decoupled_descent as dd
from decoupled_descent.objective import KinkWarning, kinks
from tests.objective.test_kinks import absolute, difference, pinball
from tests.problems import in_turn, normal


def linear(weight=0.3):
    head = nn.Linear(1, 1).double()
    nn.init.constant_(head.weight, weight)
    nn.init.constant_(head.bias, 0.1)
    return head


LOSS_HEADS = {
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


def insensitive(u, y):
    return torch.relu(absolute(u, y) - 0.001 * (1 + y))


def curvature(head, loss, y, g=None):
    """How the objective decides to take J̄ for these labels."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KinkWarning)
        objective = dd.Objective(head, loss)
        like = torch.zeros((), dtype=torch.float64)
        return objective.bind(y, objective.width or 1, like, g=g).curvature


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("head", LOSS_HEADS)
@pytest.mark.parametrize("loss", [absolute, pinball, insensitive])
def test_kinks_are_found_where_the_labels_are(loss, head, labels):
    assert curvature(LOSS_HEADS[head](), loss, LABELS[labels]) == "smoothed"


SMOOTH_LOSSES = {
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


@in_turn(("loss", "head", "labels"), SMOOTH_LOSSES, LOSS_HEADS, LABELS)
def test_smooth_losses_are_left_alone(loss, head, labels):
    assert curvature(LOSS_HEADS[head](), SMOOTH_LOSSES[loss], LABELS[labels]) == "autodiff"


def test_slopes_of_named_losses_are_taken_row_by_row():
    u, y = normal(5, 1), normal(5, seed=1)
    slopes = kinks._slopes(dd.Objective(nn.Linear(1, 1), "squared").loss, normal(9, 1, seed=2))
    inside = slopes(u, y).isfinite()
    assert inside.any()
    torch.testing.assert_close(slopes(u, y)[inside], (u - y[:, None])[inside])


def test_the_same_run_as_with_the_named_loss():
    X, _ = dd.mixtures.signalless(40).sample(60, seed=0)
    y = torch.where(normal(60) > 0, 39.0, 41.0)
    head, algorithm = nn.Linear(1, 1), dd.DecoupledDescent(0.05)
    with pytest.warns(KinkWarning):
        result = dd.fit(X, y, dd.Objective(head, absolute), algorithm, 10, seed=0)
    named = dd.Objective(head, "absolute", curvature="smoothed")
    wanted = dd.fit(X, y, named, algorithm, 10, seed=0)
    torch.testing.assert_close(result.theta, wanted.theta)


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


def test_every_fit_looks_at_its_own_labels():
    """Fits before make no difference, whatever their labels were."""
    X, _ = dd.mixtures.signalless(40).sample(60, seed=0)
    y, algorithm = normal(60), dd.DecoupledDescent(0.05)
    objective = dd.Objective(dd.heads.Linear(), clipped_below_five)
    first = dd.fit(X, y + 30, objective, algorithm, 3)
    with pytest.warns(KinkWarning):
        kinked = dd.fit(X, y, objective, algorithm, 3)
    second = dd.fit(X, y + 30, objective, algorithm, 3)  # warnings are errors here
    with pytest.warns(KinkWarning):
        again = dd.fit(X, y, objective, algorithm, 3)
    assert first.bound.curvature == second.bound.curvature == "autodiff"
    assert kinked.bound.curvature == again.bound.curvature == "smoothed"
    assert torch.equal(first.theta, second.theta)
    assert torch.equal(kinked.theta, again.theta)


def test_labels_are_looked_at_once_per_fit():
    (X, _), y = dd.mixtures.signalless(40).sample(60, seed=0), normal(60)
    calls = []

    def counted(o, y):
        calls.append(len(o))
        return SMOOTH_LOSSES["log cosh"](o, y)

    objective = dd.Objective(dd.heads.Linear(), counted)
    objective.bind(y, 1, like=X)
    once = len(calls)
    counts = []
    for steps in (4, 5):
        calls.clear()
        dd.fit(X, y, objective, dd.DecoupledDescent(0.05), steps)
        counts.append(len(calls))
    per_step = counts[1] - counts[0]
    assert once > per_step  # to look takes more calls than a step
    assert counts[0] - 4 * per_step <= once
