"""Rows that leave together: large groups without matrices against the matrices."""

import pytest
import torch

from decoupled_descent.leave_one_out import systems as module
from decoupled_descent.leave_one_out.systems import LargeGroup, MatrixSystems, systems
from tests.leave_one_out.test_leave_out import Case

GROUPS = torch.cat([torch.zeros(20), torch.ones(16), torch.arange(2, 6)]).long()


def both(monkeypatch, ridge):
    """The systems of two groups of rows, as matrices and without them."""
    minimum = Case("cross_entropy", ridge, 3).in_groups(GROUPS)
    exact = list(systems(minimum))
    monkeypatch.setattr(module, "LARGE", 30)
    return exact, list(systems(minimum))


@pytest.mark.parametrize("ridge", [0.03, 1.0])
def test_large_groups_are_those_of_matrices(monkeypatch, ridge):
    monkeypatch.setattr(module, "CLOSE", 1e-13)
    exact, large = both(monkeypatch, ridge)
    assert [type(one) for one in large] == [MatrixSystems, LargeGroup, LargeGroup]
    for one, other in zip(exact[1:], large[1:], strict=True):
        torch.testing.assert_close(one.rows, other.rows)
        size = one.block.shape[1]
        values = torch.randn(1, size, 2, generator=torch.Generator().manual_seed(0)).double()
        for name in ("times", "solve", "solve_transposed"):
            expected, result = getattr(one, name)(values), getattr(other, name)(values)
            assert float((expected - result).abs().max()) < 1e-10 * float(expected.abs().max())


def test_conjugate_gradients_that_do_not_converge_leave_it_to_the_matrix(monkeypatch):
    monkeypatch.setattr(module, "MOST_STEPS", 1)
    exact, large = both(monkeypatch, 0.03)
    values = torch.ones(1, exact[1].block.shape[1], 1).double()
    torch.testing.assert_close(large[1].solve(values), exact[1].solve(values))


def test_a_system_without_right_hand_side(monkeypatch):
    _, large = both(monkeypatch, 1.0)
    zero = torch.zeros(1, 60, 2).double()
    torch.testing.assert_close(large[1].solve(zero), zero)
