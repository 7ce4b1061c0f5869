"""The paper's listing against this package: the same iterates, in double precision."""

import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.app.reproduce.experiment import default_theta
from decoupled_descent.app.reproduce.listing import Listing
from tests.problems import binary


@pytest.mark.parametrize("width", [1, 4])
def test_the_listing_is_decoupled_descent_with_the_mean_loss(width):
    X, y = binary(n=30, d=20)
    theta = default_theta(width, 20, seed=1).double()
    head = dd.heads.TwoLayer(width, seed=2).double()
    listing = Listing(X, y, theta, next(head.parameters()).detach(), lr=1.0)
    errors = [listing.step() for _ in range(25)]
    algorithm = dd.DecoupledDescent(1.0, reduction="mean")
    run = dd.fit(X, y, dd.Objective(head, "logistic"), algorithm, 26, theta=theta, progress=False)
    expected = torch.tensor(errors, dtype=torch.float64)
    torch.testing.assert_close(run.train_error[:25], expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(run.theta, listing.first.detach(), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(
        next(run.head.parameters()).detach(), listing.second.detach(), rtol=1e-10, atol=1e-12
    )
    torch.testing.assert_close(run.state.memory.T, listing.memory, rtol=1e-10, atol=1e-12)
    assert not torch.allclose(listing.first.detach(), theta, atol=1e-3)


def test_the_start_is_not_changed():
    X, y = binary(n=30, d=20)
    theta, output = torch.zeros(2, 20, dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64)
    Listing(X, y, theta, output).step()
    assert bool((theta == 0).all())
    assert bool((output == 1).all())
