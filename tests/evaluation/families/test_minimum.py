"""The formula itself: one Newton step of any loss, and what rows have in common."""

import numpy as np
import pytest

from decoupled_descent.evaluation.families.interface import NoFormulaError
from decoupled_descent.evaluation.families.minimum import ForeignMinimum, of_gram
from decoupled_descent.evaluation.kinds import NUMBERS
from decoupled_descent.evaluation.task import Task
from tests.evaluation.families.problems import numbers

X, y = numbers(30, 4)
TASK = Task(X, y, y, NUMBERS)


def ridge(ridge=1.0):
    beta = np.linalg.solve(X.T @ X + ridge * np.eye(4), X.T @ y)
    gradients = (X @ beta - y)[:, None]
    return ForeignMinimum(X, gradients, np.ones(30), np.full(4, ridge), ridge * beta[:, None]), beta


def test_one_output_and_several_are_the_same():
    minimum, _ = ridge()
    both = np.concatenate([minimum.gradients, 2 * minimum.gradients], 1)
    shared = ForeignMinimum(X, both, np.ones(30), minimum.penalty)
    jointly = ForeignMinimum(X, both, np.tile(np.eye(2), (30, 1, 1)), minimum.penalty)
    np.testing.assert_allclose(shared.moves(TASK), jointly.moves(TASK), atol=1e-12)
    slopes = np.random.default_rng(0).normal(size=(30, 2))
    assert shared.pairs(TASK, slopes) == pytest.approx(jointly.pairs(TASK, slopes))
    np.testing.assert_allclose(shared.times(slopes), jointly.times(slopes), atol=1e-12)


def test_products_of_rows_say_the_same_as_columns():
    minimum, beta = ridge(2.0)
    columns, penalty, slopes = of_gram(X @ X.T / 2.0, (X @ beta)[:, None])
    dual = ForeignMinimum(columns, minimum.gradients, np.ones(30), penalty, slopes)
    np.testing.assert_allclose(dual.moves(TASK), minimum.moves(TASK), atol=1e-10)


def test_the_covariance_of_left_out_losses():
    """Against the same sum, written as a loop over pairs."""
    minimum, beta = ridge()
    influence = X @ np.linalg.solve(X.T @ X + np.eye(4), X.T)
    left = 1 - np.diag(influence)
    errors = (X @ beta - y) / left
    slopes = 2 * errors
    b = (slopes / left)[:, None] * influence * errors
    np.fill_diagonal(b, 0)
    b = b - b.mean(0) - b.mean(1)[:, None] + b.mean()
    expected = sum(b[i, j] * b[j, i] for i in range(30) for j in range(30) if i != j) / (30 * 29)
    assert minimum.pairs(TASK, slopes[:, None]) == pytest.approx(max(0.0, expected))


def test_a_row_that_decides_alone_has_no_formula():
    rows = X.copy()
    rows[:, 3] = 0.0
    rows[5, 3] = 1.0
    minimum = ForeignMinimum(rows, np.zeros((30, 1)), np.ones(30), np.zeros(4))
    with pytest.raises(NoFormulaError, match="alone"):
        minimum.moves(TASK)


def test_other_rows_are_refused():
    _, beta = ridge()
    other = numbers(30, 4, seed=1)[0]
    moved = ForeignMinimum(
        other, (other @ beta - y)[:, None], np.ones(30), np.ones(4), beta[:, None]
    )
    with pytest.raises(ValueError, match="not the rows"):
        moved.moves(TASK)
