"""One pass over the rows, against a row-by-row reference, whatever the blocks."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import grad, hessian

import decoupled_descent as dd
from decoupled_descent.descent import GreedyDescent
from decoupled_descent.descent.requests import Pass, RowProduct, one_pass, run_stacked
from tests.problems import binary, normal, two_layer

BCE = nn.functional.binary_cross_entropy_with_logits


def row_by_row(X, y, theta, w, memory):
    """Sums and means over single rows, with derivatives by ``torch.func``."""

    def loss(h, w, label):
        return BCE(torch.tanh(h) @ w, label)

    h = X @ theta.T + memory.T
    rows = list(zip(h, y, strict=True))
    direction = torch.stack([grad(loss)(row, w, label) for row, label in rows])
    return {
        "losses": torch.stack([loss(row, w, label) for row, label in rows]),
        "preactivations": h.T,
        "direction": direction.T,
        "gradient": sum(torch.outer(g, x) for g, x in zip(direction, X, strict=True)),
        "jacobian": torch.stack([hessian(loss)(row, w, label) for row, label in rows]).mean(0),
        "head": torch.stack([grad(loss, argnums=1)(row, w, label) for row, label in rows]).mean(0),
    }


@pytest.mark.parametrize("block_size", [None, 1, 4, 10, 11])
def test_every_quantity(block_size):
    (X, y), theta, memory, objective = binary(11, 7), normal(3, 7), normal(3, 11), two_layer(3)
    parameters = objective.parameters()
    rows = dd.Rows(X, y, block_size)
    request = Pass(rows, objective.bind(y, 3, X), theta, parameters, memory, jacobian=True)
    (result,) = one_pass([request])
    expected = row_by_row(X, y, theta, parameters["1.weight"][0], memory)
    for name, value in expected.items():
        mine = result.head["1.weight"][0] if name == "head" else getattr(result, name)
        torch.testing.assert_close(mine, value, rtol=1e-12, atol=1e-14)


def test_only_what_is_asked_for():
    (X, y), theta, objective = binary(11, 7), normal(3, 7), two_layer(3)
    rows = dd.Rows(X, y, 4)
    request = Pass(rows, objective.bind(y, 3, X), theta, objective.parameters(), trains_head=False)
    (result,) = one_pass([request])
    assert result.jacobian is None
    assert result.head == {}
    torch.testing.assert_close(result.preactivations, theta @ X.T)


@settings(max_examples=25, deadline=None)
@given(
    block_size=st.integers(1, 25),
    decoupled=st.booleans(),
    reduction=st.sampled_from(["sum", "mean"]),
)
def test_block_size_changes_nothing(block_size, decoupled, reduction):
    X, y = binary(24, 16)
    kind = dd.DecoupledDescent if decoupled else dd.GradientDescent
    algorithm, objective = kind(0.1, 0.9, reduction=reduction), two_layer(3)
    ends = []
    for rows in (dd.Rows(X, y, block_size), dd.Rows(X, y)):
        state = algorithm.init(rows, objective, seed=0)
        for _ in range(6):
            state, info = algorithm.step(state, rows, objective)
        ends.append((state.theta, state.head, info.losses))
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-11, atol=1e-13)


def test_general_directions_go_block_by_block():
    (X, y), theta, objective = binary(11, 7), normal(2, 7), two_layer(2)

    def g(h, y, a):
        return torch.sin(h.flip(1)) * h - y.unsqueeze(1)

    def f(h, y, a):
        return {"1.weight": (h * y.unsqueeze(1)).unsqueeze(1)}

    bound = objective.bind(y, 2, X, g=g, f=f)
    result = [
        one_pass([Pass(rows, bound, theta, objective.parameters(), jacobian=True)])[0]
        for rows in (dd.Rows(X, y, 3), dd.Rows(X, y))
    ]
    torch.testing.assert_close(result[0], result[1], rtol=1e-12, atol=1e-14)
    h = X @ theta.T
    torch.testing.assert_close(result[1].direction.T, g(h, y, None))
    bend = torch.stack([torch.func.jacrev(lambda v: torch.sin(v.flip(0)) * v)(v) for v in h])
    torch.testing.assert_close(result[1].jacobian, bend.mean(0))
    torch.testing.assert_close(result[1].head["1.weight"][0], (h * y.unsqueeze(1)).mean(0))


def test_requests_of_all_steps_are_answered_together():
    """Steps of unlike lengths and kinds; products with the same matrix are made at once."""
    (X, y), objective, other = binary(11, 7), two_layer(3), normal(7, 7)
    rows, made = dd.Rows(X, y), []

    def passing(theta):
        result = yield Pass(rows, objective.bind(y, 3, X), theta, objective.parameters())
        made.append("pass")
        back = yield RowProduct(result.direction, rows, transposed=False)
        return back, result.gradient

    def multiplying(theta, matrix):
        h = yield RowProduct(theta, matrix, transposed=True)
        made.append("product")
        return h, h @ X if matrix is rows else h

    def resting():
        return 1, 2
        yield

    thetas = [normal(3, 7, seed=k) for k in range(3)]
    steps = [passing(thetas[0]), multiplying(thetas[1], rows), resting()]
    steps += [multiplying(thetas[2], rows), multiplying(thetas[2], other)]
    result = run_stacked(steps, rows)
    torch.testing.assert_close(*result[0])
    torch.testing.assert_close(result[1][0], thetas[1] @ X.T)
    assert result[2] == (1, 2)
    torch.testing.assert_close(result[3][1], thetas[2] @ X.T @ X)
    torch.testing.assert_close(result[4][0], thetas[2] @ other.T)
    assert made == ["pass", "product", "product", "product"]


def test_a_stacked_run_keeps_no_numbers_of_the_others():
    """Views into the stack would keep it in memory, and in every file that a run is pickled to."""
    (X, y), objective = binary(), two_layer(3)
    kinds = [dd.GradientDescent(0.1), dd.DecoupledDescent(0.1), GreedyDescent.grid(0.1)]
    kinds += [dd.OrthogonalDecoupledDescent(0.1)]
    for run in dd.sweep(X, y, objective, kinds, 4).runs:
        info, state = run.best.info, run.best_state
        for tensor in (info.losses, info.preactivations, state.theta, *state.head.values()):
            size = tensor.untyped_storage().nbytes() // tensor.element_size()
            assert size == tensor.numel()
