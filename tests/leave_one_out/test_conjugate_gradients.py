"""Conjugate gradients against dense solves, for one system and for many."""

from __future__ import annotations

import torch

from decoupled_descent.leave_one_out.conjugate_gradients import conjugate_gradients
from tests.problems import normal


def exact(at):
    return bool((at.size <= 1e-24 * at.first).all())


def never(_):
    return False


def test_one_system_against_a_dense_solve():
    root, target, image = normal(8, 8, seed=1), normal(8, seed=2), normal(5, 8, seed=3)
    H = root @ root.T + 0.1 * torch.eye(8).double()
    inverse = torch.diag(1 / H.diagonal())

    def times(vector):
        return H @ vector, image @ vector

    found = conjugate_gradients(times, inverse.__matmul__, target, exact, 50)
    torch.testing.assert_close(found.x, torch.linalg.solve(H, target))
    torch.testing.assert_close(found.moved, image @ found.x)
    few = conjugate_gradients(times, inverse.__matmul__, target, exact, 2)
    assert (H @ few.x - target).norm() > 1e-3


def test_it_ends_where_the_curvature_is_not_positive():
    H, target = torch.diag(torch.tensor([2.0, -1.0])), torch.tensor([1.0, 1.0])
    calls = []

    def times(vector):
        calls.append(vector)
        return H @ vector, vector

    found = conjugate_gradients(times, lambda v: v, target, never, 10)
    assert len(calls) == 2
    assert torch.equal(found.x, found.moved)
    torch.testing.assert_close(found.x, 2 * target)  # rᵀr/rᵀHr = 2 along the gradient
    found = conjugate_gradients(times, lambda v: v, torch.tensor([0.0, 1.0]), never, 10)
    torch.testing.assert_close(found.x, torch.tensor([0.0, 1.0]))  # along the gradient itself


def test_many_systems_are_solved_side_by_side():
    """One is easy, one is hard, and one has nothing to solve."""
    root, target = normal(3, 8, 8, seed=1), normal(3, 8, seed=2)
    root[0], target[2] = torch.eye(8), 0.0
    H = root @ root.mT + 0.1 * torch.eye(8).double()
    found = conjugate_gradients(
        lambda v: ((H @ v.unsqueeze(2)).squeeze(2), v),
        lambda r: r,
        target,
        exact,
        50,
        inner=lambda one, other: (one * other).sum(1, keepdim=True),
    )
    torch.testing.assert_close(found.x, torch.linalg.solve(H, target))
    assert torch.equal(found.x, found.moved)
