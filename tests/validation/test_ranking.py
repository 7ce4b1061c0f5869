"""The first round of the search: which rows it looks at, and what it ranks by."""

import numpy as np
import torch
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict

from decoupled_descent.rows.candidates import as_features
from decoupled_descent.validation.ranking import KEPT, keep, rank, some_rows
from tests.problems import normal

ALONE = {"weights": None, "removed": None, "groups": None}


def test_rows_are_drawn_without_groups_or_by_whole_groups():
    assert some_rows(30, 40, None, 0).tolist() == list(range(30))
    few = some_rows(1000, 40, None, 0)
    assert len(few) == len(few.unique()) == 40
    assert few.tolist() == sorted(few.tolist())
    assert not torch.equal(few, some_rows(1000, 40, None, 1))
    groups = torch.arange(1000) // 7
    some = some_rows(1000, 40, groups, 0)
    assert 28 <= len(some) <= 40
    kept = groups[some].unique()
    assert torch.equal(some, torch.isin(groups, kept).nonzero().squeeze(1))


def test_the_linear_map_is_always_kept():
    X = normal(80, 4, seed=0)
    y = (X[:, 0] * X[:, 1]).double()
    tried = as_features(["linear", "rbf(1)", "matern(1)", "poly2(1)"])
    ranked = rank(X, y, "squared", 1, tried, ALONE, 0)
    errors = [one.error for one in ranked]
    assert errors == sorted(errors)
    kept = keep(ranked)
    assert kept[:KEPT] == ranked[:KEPT]
    assert [one.features.name for one in kept[KEPT:]] == ["linear"]


def test_with_groups_the_error_is_that_of_whole_groups_left_out():
    X = normal(60, 3, seed=1)
    groups = torch.arange(60) // 5
    y = X[:, 0] + normal(12, seed=2)[groups]
    (one,) = rank(X, y, "squared", 1, as_features("linear"), ALONE | {"groups": groups}, 0)
    phi = one.phi.numpy()
    model = KernelRidge(alpha=one.start, kernel="linear")  # no intercept: centred by a large column
    wide = np.hstack([phi, np.full((60, 1), 1e3)])
    said = cross_val_predict(model, wide, y.numpy(), groups=groups.numpy(), cv=LeaveOneGroupOut())
    assert abs(one.error - np.mean((y.numpy() - said) ** 2)) < 1e-4 * one.error
