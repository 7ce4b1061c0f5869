"""One decomposition of the Gram matrix, and leaving rows out of its ridge inverse."""

import math

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.rows import gram as module
from decoupled_descent.rows.blocks import Rows
from tests.oracles import orthogonal as oracle
from tests.problems import normal

SHAPES = [(30, 12), (12, 30), (20, 12), (12, 20), (12, 12)]  # tall, wide, and nearly square
RIDGES = [0.01, 1.0, 30.0, math.inf]


def left_out(X, q, ridge):
    """Direction of θ and what each row gets of it without its own share, both brute force."""
    X, q = X.numpy(), q.numpy()
    if math.isinf(ridge):
        steps = [oracle.plain_without(X, q, row) for row in (None, *range(len(X)))]
    else:
        mu, c = oracle.shift_and_scale(X, ridge)
        steps = [c * oracle.step_without(X, q, mu, row) for row in (None, *range(len(X)))]
    return steps[0], np.array([x @ step for x, step in zip(X, steps[1:], strict=True)])


def rows_of(X, n=None):
    return Rows(X, torch.zeros(n or len(X)))


class Blocks:
    """X in blocks, never whole."""

    def __init__(self, X, size):
        self.X, self.size = X, size

    def __iter__(self):
        return iter(torch.split(self.X, self.size))


def check_directions(X, rows, ridges):
    """Directions and responses of several ridges together, against literal refits."""
    asked = {ridge: normal(3, len(X), seed=k) for k, ridge in enumerate(ridges)}
    for ridge, direction in rows.gram.directions(asked).items():
        q = asked[ridge]
        response = rows.gram.leave_one_out(ridge).response(q, rows.forward(direction))
        expected, received = left_out(X, q.T, ridge)
        scale, most = np.abs(received).max(), np.abs(expected).max()
        np.testing.assert_allclose(direction.T, expected, rtol=0, atol=1e-12 * most)
        np.testing.assert_allclose(response.T, received, rtol=0, atol=1e-11 * scale)


@pytest.mark.parametrize("kind", ["in memory", "read"])
@pytest.mark.parametrize("ridges", [[0.01], [1.0], [30.0], [0.1, 10.0], [0.01, 1.0, 30.0]])
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_left_out_exactly(shape, ridges, kind):
    X = normal(*shape, seed=1)
    rows = rows_of(Blocks(X, 2), len(X)) if kind == "read" else rows_of(X)
    assert rows.in_memory == (kind != "read")
    check_directions(X, rows, ridges)


def test_an_infinite_ridge_leaves_the_rows_as_they_are():
    X, q = normal(30, 12, seed=1), normal(3, 30, seed=2)
    rows = rows_of(X)
    response = rows.gram.leave_one_out(math.inf).response(q, rows.forward(rows.backward(q)))
    np.testing.assert_allclose(response.T, left_out(X, q.T, math.inf)[1], rtol=0, atol=1e-12)


def test_ridges_one_after_the_other_keep_the_matrices_of_the_last_few():
    X = normal(30, 20, seed=1)
    rows = rows_of(X)
    for ridges in ([1.0], [0.1], [3.0], [1.0, 3.0], [0.1, 1.0]):
        check_directions(X, rows, ridges)
        assert set(ridges) <= rows.gram._matrices.keys()
        assert len(rows.gram._matrices) <= module.FEW_RIDGES


def test_the_leverages_of_all_announced_ridges_take_one_pass():
    X, passes = normal(40, 5, seed=1), []

    class Counted(Blocks):
        def __iter__(self):
            passes.append(1)
            return super().__iter__()

    gram = rows_of(Counted(X, 10), len(X)).gram
    for ridge in (0.1, 1.0, math.inf):
        gram.announce(ridge)
    before = len(passes)
    result = {ridge: gram.leverages(ridge) for ridge in (0.1, 1.0)}
    assert len(passes) == before + 1
    for ridge, p in result.items():
        torch.testing.assert_close(p, rows_of(X).gram.leverages(ridge), rtol=1e-12, atol=0)


def test_long_x_goes_through_in_pieces(monkeypatch):
    for shape in SHAPES:
        X = normal(*shape, seed=6)
        small, large = Rows(X, block_size=5).gram, rows_of(X).gram
        torch.testing.assert_close(small.eigenvalues, large.eigenvalues, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(small.leverages(0.5), large.leverages(0.5), rtol=1e-10, atol=0)
        q = {0.5: normal(2, len(X), seed=1)}
        monkeypatch.setattr(module, "NUMBERS", 60)
        result = small.directions(q)[0.5]
        monkeypatch.undo()
        torch.testing.assert_close(result, large.directions(q)[0.5], rtol=1e-10, atol=1e-12)


def test_an_infinite_ridge_needs_no_decomposition(monkeypatch):
    X, y = normal(30, 40, seed=7) / 40**0.5, normal(30, seed=8)
    algorithm = dd.OrthogonalDecoupledDescent(0.1, ridge=math.inf)
    objective = dd.Objective(dd.heads.Linear().double(), "squared")
    wanted = dd.fit(X, y, objective, algorithm, 10)
    monkeypatch.setattr(torch.linalg, "eigh", None)
    result = dd.fit(X, y, objective, algorithm, 10)
    assert torch.equal(result.train_error, wanted.train_error)


@pytest.mark.parametrize("shape", SHAPES)
def test_eigenvalues_are_squared_singular_values(shape):
    X = normal(*shape, seed=3)
    squares = torch.linalg.svdvals(X).square().flip(0)
    torch.testing.assert_close(rows_of(X).gram.eigenvalues, squares, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_leverages_sum_to_the_effective_dimension(shape):
    X, ridge = normal(*shape, seed=4), 0.3
    gram = rows_of(X).gram
    squares = torch.linalg.svdvals(X).square()
    mu = ridge * X.square().sum() / shape[1]
    leverages = gram.leverages(ridge)
    torch.testing.assert_close(leverages.sum(), (squares / (squares + mu)).sum())
    assert 0 < leverages.min() < leverages.max() < 1


def test_single_precision_rows_are_decomposed_in_double():
    X = normal(40, 25, seed=5)
    double, single = rows_of(X).gram, rows_of(X.float()).gram
    for ridge in RIDGES:
        wanted, result = (gram.leave_one_out(ridge) for gram in (double, single))
        for a, b in zip(wanted, result, strict=True):
            assert b.dtype == torch.float32
            torch.testing.assert_close(a, b.double(), rtol=1e-5, atol=1e-6)


def test_zero_rows_are_refused():
    with pytest.raises(ValueError, match="X is zero everywhere"):
        _ = rows_of(torch.zeros(3, 2)).gram.eigenvalues
    for ridge in (1.0, math.inf):
        with pytest.raises(ValueError, match="X is zero everywhere"):
            rows_of(torch.zeros(3, 2)).gram.announce(ridge)


@pytest.mark.parametrize("ridge", [1.0, math.inf])
@pytest.mark.parametrize("shape", [(5, 2), (2, 5)])
def test_rows_that_cannot_be_squared_are_refused(shape, ridge):
    with pytest.raises(ValueError, match="too large to square; rescale its columns"):
        rows_of(torch.full(shape, 1e200, dtype=torch.float64)).gram.announce(ridge)


def test_degrees_of_freedom_are_the_sum_of_the_leverages():
    X = torch.randn(30, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    gram = rows_of(X).gram
    for ridge in (0.1, 1.0, 10.0):
        np.testing.assert_allclose(gram.freedom(ridge), gram.leverages(ridge).sum(), rtol=1e-12)
