"""Losses to second order: against autograd, in kinks, and the curvature of learning rates."""

import pytest
import torch

from decoupled_descent.objective.losses import LOSSES, get_loss
from decoupled_descent.objective.second_order import curvature, second_order
from tests.objective.test_losses import OUTPUTS, REAL, REFERENCES
from tests.problems import normal


@pytest.mark.parametrize("name", ["squared", "logistic", "cross_entropy"])
def test_second_order_against_autodiff(name):
    y, reference = REFERENCES[name]
    result = second_order(get_loss(name), OUTPUTS, y)
    own = second_order(get_loss(reference), OUTPUTS, y)  # a callable: autodiff alone knows it
    torch.testing.assert_close(result.value, reference(OUTPUTS, y))
    for row in range(12):
        label = y[row : row + 1]
        bend = torch.func.hessian(lambda u, label=label: reference(u[None], label)[0])(OUTPUTS[row])
        torch.testing.assert_close(result.matrices()[row], bend)
        torch.testing.assert_close(own.matrices()[row], bend)
    torch.testing.assert_close(result.slope, own.slope)
    torch.testing.assert_close(result.matrices(slice(3, 5)), result.matrices()[3:5])
    assert (own.full is not None) == (name == "cross_entropy")


def test_a_loss_without_curvature_has_none():
    result = second_order(get_loss("absolute"), OUTPUTS, REAL)
    assert not result.matrices().any()
    torch.testing.assert_close(result.slope, (OUTPUTS - REAL).sign())


def test_smoothing_averages_over_a_window():
    def hinge(u, y):
        return torch.relu(1 - u[:, 0] * y)

    u, y = torch.linspace(-3, 3, 25).double().unsqueeze(1), torch.ones(25).double()
    result = second_order(get_loss(hinge), u, y, 0.3)
    shifts = torch.linspace(-0.3, 0.3, 20001).double()
    values = torch.relu(1 - u - shifts).mean(1)
    slopes = -(1 - u - shifts > 0).double().mean(1, keepdim=True)
    torch.testing.assert_close(result.value, values, atol=1e-5, rtol=0)
    torch.testing.assert_close(result.slope, slopes, atol=1e-4, rtol=0)
    torch.testing.assert_close(result.diagonal, ((1 - u).abs() < 0.3).double() / 0.6)


@pytest.mark.parametrize("name", ["squared", "logistic", "cross_entropy"])
def test_named_losses_bend_most_at_zero(name):
    labels, _ = REFERENCES[name]
    at_zero = curvature(LOSSES[name], torch.zeros_like(OUTPUTS), labels)
    for scale in (0.1, 1.0, 3.0):
        assert curvature(LOSSES[name], scale * normal(12, 3, seed=5), labels) <= at_zero + 1e-12


def test_absolute_loss_bends_nowhere():
    assert curvature(LOSSES["absolute"], OUTPUTS, REAL) == 0.0


def bent(u, y):
    """Not convex, with mixed derivatives, and its own curvature in every row and column."""
    return (u * y).cos().sum(1) + u.prod(1) + (u.sum(1) * y[:, 0]).exp()


def test_curvature_of_any_loss():
    loss = get_loss(bent)
    total = 0.0
    for i in range(len(REAL)):

        def row(u, i=i):
            return bent(u.unsqueeze(0), REAL[i : i + 1])[0]

        total += torch.func.hessian(row)(OUTPUTS[i]).diagonal().abs().sum().item()
    assert curvature(loss, OUTPUTS, REAL) == pytest.approx(total / REAL.numel())
