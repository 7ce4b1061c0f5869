"""Random products instead of a matrix of all coefficients."""

import numpy as np
import pytest

from decoupled_descent.evaluation.families.interface import NoFormulaError
from decoupled_descent.evaluation.families.minimum import ForeignMinimum
from decoupled_descent.evaluation.families.probes import PRODUCTS, ProbedMinimum
from decoupled_descent.evaluation.kinds import NUMBERS
from decoupled_descent.evaluation.task import Task
from tests.evaluation.families.problems import GROUPS, numbers


def ridge(kind, n=150, d=60, seed=0, size=5.0):
    X, y = numbers(n, d, seed)
    beta = np.linalg.solve(X.T @ X + size * np.eye(d), X.T @ y)
    gradients = (X @ beta - y)[:, None]
    return kind(X, gradients, np.ones(n), np.full(d, size), size * beta[:, None]), X @ beta, y


def test_products_are_exact_and_the_diagonal_as_near_as_so_many_allow():
    exact, random = ridge(ForeignMinimum)[0], ridge(ProbedMinimum)[0]
    right = np.random.default_rng(0).normal(size=(150, 2))
    np.testing.assert_allclose(random.times(right), exact.times(right), atol=1e-4)
    influence = exact.blocks(np.arange(150)[None])[0]
    v = np.diag(influence)
    spread = np.sqrt((np.square(influence).sum(1) - v**2) / PRODUCTS)
    errors = (random.diagonal[:, 0, 0] - v) / spread
    assert np.sqrt(np.square(errors).mean()) == pytest.approx(1, abs=0.2)


def test_the_halves_tell_how_much_too_large_the_losses_are():
    plain, corrected = [], []
    for seed in range(30):
        exact, outputs, y = ridge(ForeignMinimum, seed=seed)
        random = ridge(ProbedMinimum, seed=seed)[0]
        task = Task(None, y, y, NUMBERS)

        def error(moved, outputs=outputs, y=y):
            return np.square(outputs + moved[:, 0] - y).mean()

        whole, true = error(random.moves(task)), error(exact.moves(task))
        excess = np.mean([error(half) for half in random.halves()]) - whole
        plain.append(whole / true - 1)
        corrected.append((whole - excess) / true - 1)
    stderr = np.std(corrected, ddof=1) / 30**0.5
    assert np.mean(plain) > 3 * stderr
    assert np.mean(corrected) == pytest.approx(0, abs=3 * stderr)


def test_the_variance_of_pairs_is_of_the_same_size():
    exact, _, y = ridge(ForeignMinimum)
    random, task = ridge(ProbedMinimum)[0], Task(None, y, y, NUMBERS)
    slopes = 2 * exact.solved(task.units, exact.gradients)
    assert 0.5 < random.pairs(task, slopes) / exact.pairs(task, slopes) < 2


def test_other_rows_are_refused_and_groups_have_no_formula():
    random, _, y = ridge(ProbedMinimum)
    with pytest.raises(NoFormulaError, match="groups"):
        random.moves(Task(None, y, y, NUMBERS, groups=GROUPS[:150]))
    X = numbers(150, 60, seed=5)[0]
    beta = np.linalg.solve(random.design.T @ random.design + 5 * np.eye(60), random.design.T @ y)
    other = ProbedMinimum(
        X, (X @ beta - y)[:, None], np.ones(150), np.full(60, 5.0), 5 * beta[:, None]
    )
    with pytest.raises(ValueError, match="not the rows"):
        other.moves(Task(None, y, y, NUMBERS))
