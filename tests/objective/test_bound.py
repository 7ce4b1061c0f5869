"""A bound objective: frozen, the same at every call, with row weights, and easy to send away."""

import copy
import dataclasses
import pickle
import threading

import pytest
import torch
from torch import nn

import decoupled_descent as dd
from tests.objective.references import assert_agree
from tests.problems import binary, normal, two_layer

N, L = 12, 3


class Bilinear(nn.Module):
    """No closed form."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([0.5, -0.7, 0.9], dtype=torch.float64))

    def forward(self, h):
        return (self.scale * h * h.roll(1, 1)).sum(1)


def sine(h, y, a):
    return torch.sin(h) - y.unsqueeze(1)


def rows_of_f(h, y, a):
    return {"1.weight": (torch.tanh(h) * y.unsqueeze(1)).unsqueeze(1)}


CASES = {
    "structured": (lambda: dd.heads.TwoLayer(L, seed=0), "auto", {}),
    "deep": (lambda: dd.heads.Deep([L, 4], bias=True, seed=0), "auto", {}),
    "autodiff": (Bilinear, "auto", {}),
    "smoothed": (lambda: dd.heads.TwoLayer(L, "relu", seed=0), "smoothed", {}),
    "g and f": (lambda: dd.heads.TwoLayer(L, seed=0), "auto", {"g": sine, "f": rows_of_f}),
}


def bound_to(case):
    make, curvature, directions = CASES[case]
    h, y = normal(N, L), (normal(N, seed=1) > 0).double()
    objective = dd.Objective(make().double(), "logistic", width=L, curvature=curvature)
    return objective.bind(y, L, h, **directions), h, y


@pytest.mark.parametrize("case", CASES)
def test_weights_count_in_the_jacobian_and_in_the_head_alike(case):
    """Whole weights are repetitions of rows, for every mean."""
    bound, h, y = bound_to(case)
    times = torch.arange(N) % 3
    spacing = torch.full((L,), 0.4, dtype=torch.float64)
    result = bound.derivatives(h, y, weights=times.double(), spacing=spacing)
    repeated = (each.repeat_interleave(times, 0) for each in (h, y))
    wanted = bound.derivatives(*repeated, spacing=spacing)
    share = float(times.sum()) / N
    assert_agree(result.jacobian, share * wanted.jacobian)
    assert_agree(result.head, {name: share * value for name, value in wanted.head.items()})
    assert_agree(result.loss, bound.losses(h, y))  # rows themselves stay as they are
    apart = bound.derivatives(h, y, jacobian_weights=times.double(), spacing=spacing)
    assert_agree(apart.jacobian, result.jacobian)
    assert_agree(apart.head, bound.derivatives(h, y).head)


@pytest.mark.parametrize("case", CASES)
def test_the_same_call_gives_the_same_whatever_happened_between(case):
    bound, h, y = bound_to(case)
    first = bound.derivatives(h, y)
    bound.derivatives(100 * h, y, weights=y)
    bound.outputs(h.float())
    dd.fit(*binary(), bound.objective, dd.GradientDescent(0.1), 3)
    torch.testing.assert_close(bound.derivatives(h, y), first, rtol=0, atol=0)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("clone", [copy.deepcopy, lambda b: pickle.loads(pickle.dumps(b))])
def test_copies_do_the_same(case, clone):
    bound, h, y = bound_to(case)
    other = clone(bound)
    assert (other.curvature, other.width) == (bound.curvature, L)
    torch.testing.assert_close(other.derivatives(h, y), bound.derivatives(h, y), rtol=0, atol=0)


def test_frozen():
    bound, *_ = bound_to("structured")
    with pytest.raises(dataclasses.FrozenInstanceError):
        bound.curvature = "autodiff"


@pytest.mark.parametrize("case", [case for case in CASES if case != "smoothed"])
def test_row_jacobians_average_to_the_jacobian(case):
    bound, h, y = bound_to(case)
    rows = bound.row_jacobians(h, y)
    assert rows.shape == (N, L, L)
    assert not rows.requires_grad
    assert_agree(rows.mean(0), bound.derivatives(h, y).jacobian)


# What g may do


def centred(h, y, a):
    return h - h.mean(0)


@pytest.mark.parametrize("block_size", [None, 5])
@pytest.mark.parametrize("curvature", ["auto", "autodiff", "smoothed"])
def test_a_g_that_mixes_rows_is_refused(block_size, curvature):
    X, y = binary()
    objective = dd.Objective(dd.heads.TwoLayer(3).double(), "logistic", curvature=curvature)
    for algorithm in (dd.DecoupledDescent, dd.OrthogonalDecoupledDescent):
        with pytest.raises(ValueError, match="g mixes rows or is random"):
            dd.fit(dd.Rows(X, y, block_size), None, objective, algorithm(0.1, g=centred), 2)


def test_a_g_that_draws_random_numbers_is_refused():
    X, y = binary()
    algorithm = dd.DecoupledDescent(0.1, g=lambda h, y, a: h + torch.randn_like(h))
    with pytest.raises(ValueError, match="g mixes rows or is random"):
        dd.fit(X, y, two_layer(), algorithm, 2)


@pytest.mark.parametrize("n", [2, 8, 24])
def test_a_g_with_a_weight_for_every_row_is_not(n):
    """It accepts the training rows only, so it cannot be tried on others."""
    X, y = binary(n)
    weights = normal(n, seed=3).exp()
    algorithm = dd.DecoupledDescent(0.1, g=lambda h, y, a: weights.unsqueeze(1) * torch.sin(h))
    run = dd.fit(X, y, two_layer(), algorithm, 3)
    assert run.bound.curvature == "autodiff"
    h = X @ algorithm.init(dd.Rows(X, y), two_layer(), seed=0).theta.T
    result = run.bound.derivatives(h, y).jacobian
    assert_agree(result, torch.diag((weights.unsqueeze(1) * torch.cos(h)).mean(0)))


# Threads


class Slow(nn.Module):
    """A head that waits inside its forward pass until it is told to go on."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, dtype=torch.float64))

    def forward(self, h):
        if gate := getattr(Slow, "gate", None):
            gate.wait(5)
        return h @ self.weight


def test_heads_do_not_wait_for_each_other():
    """Two objectives are inside their heads at the same time: each has a lock of its own."""
    h, y = normal(4, 2), normal(4, seed=1)
    objectives = [dd.Objective(Slow(), "squared") for _ in range(2)]
    bounds = [objective.bind(y, 2, h) for objective in objectives]
    wanted, result = bounds[0].losses(h, y), []
    Slow.gate = threading.Barrier(2)  # breaks unless both threads arrive
    try:
        threads = [
            threading.Thread(target=lambda b=bound: result.append(b.losses(h, y)))
            for bound in bounds
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not Slow.gate.broken
    finally:
        del Slow.gate
    assert len(result) == 2
    for losses in result:
        torch.testing.assert_close(losses, wanted, rtol=0, atol=0)
