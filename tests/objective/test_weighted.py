"""Weighted mean Jacobians against a loop of per-row Hessians."""

import pytest
import torch
from torch import nn

import decoupled_descent as dd
from tests.objective.references import labels, row_losses
from tests.problems import normal

N, L = 15, 3
H = normal(N, L, seed=1)
WEIGHTS = normal(N, seed=2).exp()


def weighted_jacobian(objective, h, y, a, weights, **options):
    return objective.derivatives(h, y, a, weights=weights, head=False, **options).jacobian


def naive(psi, h, y, weights):
    """The mean over rows of weight times Hessian, row by row."""
    total = torch.zeros(h.shape[1], h.shape[1], dtype=h.dtype)
    for i in range(len(h)):

        def row(x, i=i):
            return psi(x.unsqueeze(0), y[i : i + 1]).squeeze()

        total += weights[i] * torch.autograd.functional.hessian(row, h[i])
    return total / len(h)


HEADS = {
    "two-layer": lambda outputs: dd.heads.TwoLayer(L, outputs=outputs, seed=0),
    "deep": lambda outputs: dd.heads.Deep([L, 4, 3], outputs=outputs, seed=0),
    "linear first": lambda outputs: nn.Sequential(
        nn.Linear(L, 4), nn.Sigmoid(), nn.Linear(4, 2), nn.Softplus(), nn.Linear(2, outputs)
    ),
}


@pytest.mark.parametrize("curvature", ["auto", "autodiff"])
@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize(
    ("loss", "outputs"), [("squared", 1), ("logistic", 1), ("squared", 2), ("cross_entropy", 4)]
)
def test_is_the_loop_over_rows(kind, loss, outputs, curvature):
    torch.manual_seed(0)
    head = HEADS[kind](outputs).double()
    y = labels(loss, N, outputs)
    objective = dd.Objective(head, loss, curvature=curvature)
    result = weighted_jacobian(objective, H, y, objective.parameters(H), WEIGHTS)
    expected = naive(lambda h, y: row_losses(head, loss, h, y), H, y, WEIGHTS)
    torch.testing.assert_close(result, expected)
    assert not result.requires_grad


@pytest.mark.parametrize("curvature", ["auto", "autodiff"])
def test_product_head(curvature):
    head, h, y = dd.heads.Product(a=0.7).double(), H[:, :2], labels("logistic", N, 1)
    objective = dd.Objective(head, "logistic", curvature=curvature)
    result = weighted_jacobian(objective, h, y, objective.parameters(h), WEIGHTS)
    expected = naive(lambda h, y: row_losses(head, "logistic", h, y), h, y, WEIGHTS)
    torch.testing.assert_close(result, expected)


def test_equal_weights_give_the_mean_jacobian():
    objective = dd.Objective(dd.heads.TwoLayer(L, seed=0).double(), "logistic")
    y, a = labels("logistic", N, 1), objective.parameters(H)
    expected = objective.derivatives(H, y, a).jacobian
    ones = torch.ones(N, dtype=H.dtype)
    torch.testing.assert_close(weighted_jacobian(objective, H, y, a, ones), expected)


def test_another_direction_need_not_be_symmetric():
    objective = dd.Objective(dd.heads.TwoLayer(L, seed=0).double(), "logistic")
    mix = normal(L, L, seed=5)
    y, a = labels("logistic", N, 1), objective.parameters(H)
    result = weighted_jacobian(objective, H, y, a, WEIGHTS, g=lambda h, y, a: torch.tanh(h @ mix))
    slopes = 1 - torch.tanh(H @ mix).square()
    expected = sum(w * torch.diag(s) @ mix.T for w, s in zip(WEIGHTS, slopes, strict=True)) / N
    torch.testing.assert_close(result, expected)
    assert not torch.allclose(result, result.T)


@pytest.mark.parametrize("spacing", [None, torch.tensor([0.3, 0.2, 0.1], dtype=torch.float64)])
def test_smoothed_differences_of_a_head_with_kinks(spacing):
    """With weights on one row at a time, all of them add up to any weights."""
    head = dd.heads.TwoLayer(L, "relu", seed=0).double()
    objective = dd.Objective(head, "logistic", curvature="smoothed")
    y, a = labels("logistic", N, 1), objective.parameters(H)
    parts = [
        weighted_jacobian(objective, H, y, a, torch.eye(N, dtype=H.dtype)[i], spacing=spacing)
        for i in range(N)
    ]
    complete = weighted_jacobian(objective, H, y, a, WEIGHTS, spacing=spacing)
    torch.testing.assert_close(complete, sum(w * J for w, J in zip(WEIGHTS, parts, strict=True)))
    mean = weighted_jacobian(objective, H, y, a, torch.ones(N, dtype=H.dtype), spacing=spacing)
    expected = objective.derivatives(H, y, a, spacing=spacing).jacobian
    torch.testing.assert_close(mean, expected)


def test_smoothed_differences_of_a_smooth_head_tend_to_its_hessians():
    head = dd.heads.TwoLayer(L, seed=0).double()
    objective = dd.Objective(head, "logistic", curvature="smoothed")
    y = labels("logistic", N, 1)
    fine = torch.full((L,), 1e-4, dtype=torch.float64)
    result = weighted_jacobian(objective, H, y, objective.parameters(H), WEIGHTS, spacing=fine)
    expected = naive(lambda h, y: row_losses(head, "logistic", h, y), H, y, WEIGHTS)
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-6)
