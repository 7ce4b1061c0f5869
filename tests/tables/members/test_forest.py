"""Forests: rows left out, files, unusual numbers."""

import dataclasses

import numpy as np
import pytest
import torch

from decoupled_descent.tables.members import forest as module
from decoupled_descent.tables.members.forest import Forest
from decoupled_descent.tables.members.growing import FORESTS, grow_forest
from decoupled_descent.tables.prediction.predictor import scaled_columns
from tests.tables.members.problems import rows, table


@pytest.fixture(scope="module")
def grown():
    given = table("squared", outputs=2)
    return given, grow_forest(given, FORESTS[0], seed=1).model


def test_changes_are_those_of_smaller_forests(grown):
    given, forest = grown
    some = torch.tensor([3, 50])
    kept = forest.kept_rows(given, some)
    fresh = rows(6, seed=9)
    changes = forest.changes(fresh, kept)
    for place, row in enumerate(some.tolist()):
        without = dataclasses.replace(forest, roots=forest.roots[forest.unseen[row]])
        expected = without.predict(fresh) - forest.predict(fresh)
        torch.testing.assert_close(changes[:, place], expected, rtol=1e-10, atol=1e-12)
    own = forest.changes(None, kept)
    torch.testing.assert_close(own, forest.changes(given.X[some.numpy()], kept))


def test_blocks_of_rows_change_nothing(grown, monkeypatch):
    given, forest = grown
    complete = forest.predict(given.X)
    monkeypatch.setattr(module, "NUMBERS", 7 * 2 * len(forest.roots))
    torch.testing.assert_close(forest.predict(given.X), complete, rtol=0, atol=0)


def test_a_row_that_all_trees_saw_changes_nothing(grown):
    given, forest = grown
    seen = dataclasses.replace(forest, unseen=np.zeros_like(forest.unseen))
    kept = seen.kept_rows(given, torch.tensor([0]))
    assert not seen.changes(given.X[:2], kept).any()


def test_files(grown):
    given, forest = grown
    settings, tensors = forest.state()
    again = Forest.restore(settings, tensors, 2)
    torch.testing.assert_close(again.predict(given.X), forest.predict(given.X), rtol=0, atol=0)
    assert again.name == forest.name


def test_unusual_columns():
    X = np.array([[1e308, 5.0, 1e9], [-1e308, 5.0, 1e9 + 1]])
    scaled = scaled_columns(X, X.min(0), X.max(0))
    np.testing.assert_array_equal(scaled, [[1, 0, 0], [0, 0, 1]])
    far = scaled_columns(np.array([[0.0, 1e300, 0.0]]), X.min(0), X.max(0))
    assert np.isfinite(far).all()
