"""The first round of the search: which rows it looks at, and what it ranks by."""

import numpy as np
import pytest
import torch
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict

from decoupled_descent.objective import Objective, heads
from decoupled_descent.tables.features.candidates import as_features
from decoupled_descent.tables.features.ridge_path import RidgePath
from decoupled_descent.tables.search import ranking
from decoupled_descent.tables.search.deadline import Deadline
from decoupled_descent.tables.search.ranking import (
    FEWER_KEPT,
    KEPT,
    Sample,
    rank,
    scaled_log_loss,
    select,
    some_rows,
)
from decoupled_descent.tables.search.stacking import FOLDS, folds_of
from tests.problems import normal


def ranked_maps(X, y, tried, folds, **given):
    squared = Objective(heads.Linear(1, intercept=True), "squared")
    return rank(Sample(X, y, squared, **given), tried, 0, folds, Deadline())


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
    tried = as_features(["linear", "rbf(1)", "matern(1)", "poly2(1)", "laplace1(1)", "arccos(1)"])
    ranked = ranked_maps(X, y, tried, folds_of(80, None, 0))
    errors = [one.error for one in ranked]
    assert errors == sorted(errors)
    kept = select(ranked)
    assert kept[:FEWER_KEPT] == ranked[:FEWER_KEPT]
    assert "linear" in [one.features.name for one in kept]
    assert [bool(one.selected[-1]) for one in kept] == [True] * (FEWER_KEPT + 1) + [False] * (
        len(kept) - FEWER_KEPT - 1
    )


def test_with_groups_the_error_is_that_of_whole_groups_left_out():
    X = normal(60, 3, seed=1)
    groups = torch.arange(60) // 5
    y = X[:, 0] + normal(12, seed=2)[groups]
    folds = folds_of(60, groups, 0)
    (one,) = ranked_maps(X, y, as_features("linear"), folds, groups=groups)
    phi = one.phi.numpy()
    model = KernelRidge(alpha=one.start, kernel="linear")  # no intercept: centred by a large column
    wide = np.hstack([phi, np.full((60, 1), 1e3)])
    predictions = cross_val_predict(
        model, wide, y.numpy(), groups=groups.numpy(), cv=LeaveOneGroupOut()
    )
    assert abs(one.error - np.mean((y.numpy() - predictions) ** 2)) < 1e-4 * one.error


def test_maps_are_kept_without_a_fold_as_in_a_ranking_of_the_other_rows():
    """Against errors that are added up again for every fold, map and ridge near the best one."""
    X = normal(70, 3, seed=7)
    y = X[:, 0] + X[:, 0] * X[:, 1] + 0.3 * normal(70, seed=4)
    tried = as_features(["linear", "rbf(1)", "matern(1)", "poly2(1)", "laplace1(1)", "arccos(1)"])
    folds = folds_of(70, None, 0)
    ranked = ranked_maps(X, y, tried, folds)
    held = torch.arange(FOLDS).unsqueeze(1) == folds
    errors = {}
    for one in ranked:
        near = one.start * 10.0 ** (ranking.STEP * np.array([1, 0, -1]))
        losses = RidgePath(one.phi, y.unsqueeze(1), near).errors_without(held).square().sum(3)
        errors[one.features.name] = [
            min(own[fold][folds != fold].mean() for own in losses) for fold in range(FOLDS)
        ]
    for fold in range(FOLDS):
        best = sorted(errors, key=lambda name: errors[name][fold])[:FEWER_KEPT]
        kept = {one.features.name for one in ranked if one.selected[fold]}
        assert kept == {*best, "linear"}
    assert any(
        not one.selected[-1] for one in select(ranked)
    )  # the order of two is a matter of luck


def test_of_many_rows_no_fold_is_left_out(monkeypatch):
    monkeypatch.setattr(ranking, "NESTED", 60)
    X, y = normal(70, 3, seed=3), normal(70, seed=4)
    tried = as_features(["linear", "rbf(1)", "matern(1)", "poly2(1)", "laplace1(1)", "arccos(1)"])
    ranked = ranked_maps(X, y, tried, folds_of(70, None, 0))
    assert len(select(ranked)) <= FEWER_KEPT + 1
    assert all(len(one.selected.unique()) == 1 for one in ranked)


def test_more_rows_rank_the_maps_of_larger_tables():
    counts = [ranking.ranked_count(n) for n in (50, 400, 1000, 4000, 16_000, 10**6)]
    assert counts == [50, 400, 400, 635, 1000, 1000]


def naive_log_loss(outputs, classes, weights, count):
    """Loops over scales, rows and classes."""
    kinds = 2 if outputs.shape[1] == 1 else outputs.shape[1]
    shares = [weights[classes == k].sum() / weights.sum() for k in range(kinds)]
    lowest = np.inf
    for scale in ranking.SCALES:
        total = 0.0
        for own, label, weight in zip(outputs, classes, weights, strict=True):
            values = [1 - own[0], own[0]] if len(own) == 1 else own
            logits = [np.log(s) + scale * (v - s) for s, v in zip(shares, values, strict=True)]
            chance = np.exp(logits[label]) / np.sum(np.exp(logits))
            total -= weight * np.log((count * chance + 1 / kinds) / (count + 1))
        lowest = min(lowest, total / weights.sum())
    return lowest


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_log_loss_of_scaled_outputs_against_loops(outputs):
    generator = np.random.default_rng(outputs)
    classes = generator.integers(0, max(outputs, 2), 40)
    given = generator.normal(0.4, 0.5, (3, 40, outputs))
    weights = generator.uniform(0.5, 2, (3, 40)) * (generator.random((3, 40)) < 0.9)
    result = scaled_log_loss(*map(torch.tensor, (given, classes, weights)), 40.0)
    expected = [
        naive_log_loss(*each, 40.0) for each in zip(given, [classes] * 3, weights, strict=True)
    ]
    np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_classes_that_a_map_separates_rank_it_first():
    """Which side of a balance is heavier: weight times distance on the left, and on the right.

    Products separate the sides, although other maps have lower squared errors.
    """
    X = torch.randint(1, 6, (400, 4), generator=torch.Generator().manual_seed(0)).double()
    torque = X[:, 0] * X[:, 1] - X[:, 2] * X[:, 3]
    X, y = X[torque != 0], (torque[torque != 0] > 0).double()
    tried = as_features(["matern(4)", "poly2(1)", "arccos(1)", "rbf(1)", "linear"])
    folds = folds_of(len(y), None, 0, y.long())
    logistic = Objective(heads.Linear(1, intercept=True), "logistic")
    assert rank(Sample(X, y, logistic), tried, 0, folds, Deadline())[0].features.name == "poly2(1)"
    assert ranked_maps(X, y, tried, folds)[0].features.name != "poly2(1)"


def test_without_a_fold_maps_of_classes_are_compared_on_the_other_rows():
    """Against log losses that are computed again for each fold, from outputs without it."""
    X = normal(70, 3, seed=7)
    y = (X[:, 0] + X[:, 0] * X[:, 1] + normal(70, seed=4) > 0).long()
    three = Objective(heads.Linear(2, intercept=True), "cross_entropy")
    names = ["linear", "rbf(1)", "matern(1)", "poly2(1)", "laplace1(1)", "rbf(0.6)", "matern(2)"]
    folds = folds_of(70, None, 0, y)
    ranked = rank(Sample(X, y, three), as_features(names), 0, folds, Deadline())
    held = torch.arange(FOLDS).unsqueeze(1) == folds
    targets = torch.eye(2, dtype=torch.float64)[y]
    errors = {}
    for one in ranked:
        near = one.start / ranking.SHARE * 10.0 ** (ranking.STEP * np.array([1, 0, -1]))
        left = RidgePath(one.phi, targets, near).errors_without(held)
        errors[one.features.name] = []
        for fold in range(FOLDS):
            others = (folds != fold).double()
            best = min(left[:, fold], key=lambda each: float(each.square().sum(1) @ others))
            given = (targets - best).numpy(), y.numpy(), others.numpy(), 70.0
            errors[one.features.name].append(naive_log_loss(*given))
    for fold in range(FOLDS):
        best = sorted(errors, key=lambda name: errors[name][fold])[:KEPT]
        assert {one.features.name for one in ranked if one.selected[fold]} == {*best, "linear"}
