"""Folds by class, group and time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from decoupled_descent.evaluation.folds import FoldAssignment, assign_folds, classes_of


@given(st.lists(st.integers(0, 4), min_size=10, max_size=60), st.integers(2, 10), st.integers(0, 9))
def test_every_fold_has_its_share_of_every_class(labels, count, seed):
    labels = np.array(labels)
    fold = assign_folds(len(labels), count, classes=labels, seed=seed).fold.numpy()
    table = np.zeros((count, 5))
    np.add.at(table, (fold, labels), 1)
    assert np.ptp(table, axis=0).max() <= 1
    assert np.ptp(table.sum(1)) <= 1


@given(st.lists(st.integers(0, 12), min_size=20, max_size=60), st.integers(2, 4), st.integers(0, 9))
def test_groups_are_never_split(groups, count, seed):
    groups = np.array([*groups, *range(4)])
    classes = groups % 2
    found = assign_folds(len(groups), count, classes=classes, groups=groups, seed=seed)
    fold = found.fold.numpy()
    assert set(fold) == set(range(count))
    for group in np.unique(groups):
        assert len(set(fold[groups == group])) == 1


def test_groups_of_equal_size_are_divided_evenly_in_each_class():
    groups = np.repeat(np.arange(40), 5)
    classes = (groups < 8).astype(np.int64)  # 8 groups of the rare class
    fold = assign_folds(200, 4, classes=classes, groups=groups, seed=1).fold.numpy()
    for k in range(4):
        assert (classes[fold == k] == 1).sum() == 10
        assert (fold == k).sum() == 50


def test_one_group_out():
    groups = ["a", "b", "a", "c"]
    found = assign_folds(4, "loo", groups=groups)
    assert found.count == 3
    assert found.fold[0] == found.fold[2]


@given(st.lists(st.integers(0, 30), min_size=12, max_size=50), st.integers(1, 6))
def test_folds_by_time_see_the_past_only(times, count):
    times = np.array([*times, *range(100, 107)])
    found = assign_folds(len(times), count, time=times)
    trained, fold = found.trained().numpy(), found.fold.numpy()
    assert set(fold) == set(range(-1, count))
    for k in range(count):
        assert times[trained[k]].max() < times[fold == k].min()
        assert trained[k].sum() == found.sizes[k]
    assert trained[count].all()
    assert not found.evaluated[times == times.min()].any()


def test_pieces_of_time_have_equal_sizes():
    found = assign_folds(60, 5, time=np.random.default_rng(0).permutation(60))
    assert torch.bincount(found.fold + 1).tolist() == [10] * 6
    assert found.sizes.tolist() == [10, 20, 30, 40, 50]
    dates = np.array(["2020-01-01", "2021-01-01", "2022-01-01"], dtype="datetime64[D]")
    assert assign_folds(3, "loo", time=dates).fold.tolist() == [-1, 0, 1]


def test_folds_are_random_and_reproducible():
    one, two = (assign_folds(50, 5, seed=seed).fold for seed in (0, 1))
    assert torch.equal(one, assign_folds(50, 5, seed=0).fold)
    assert not torch.equal(one, two)
    assert assign_folds(7, "loo").fold.sort().values.tolist() == list(range(7))


def test_rows_by_number():
    found = FoldAssignment(torch.tensor([0, 1, 2, 0]), 3)
    some = torch.tensor([3, 1])
    assert torch.equal(found.trained(some), found.trained()[:, some])
    assert found.sizes.tolist() == [2, 3, 3]


def test_what_counts_as_classes():
    assert classes_of(torch.tensor([[1.0], [0.0], [1.0], [1.0]])).tolist() == [1, 0, 1, 1]
    assert classes_of(torch.tensor([3, 7, 7, 3, 3])).tolist() == [0, 1, 1, 0, 0]
    assert classes_of(torch.arange(50)) is None  # every value once: a count, not a class
    assert classes_of(torch.zeros(5, 2)) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": [0] * 6, "time": [0] * 6}, "groups and time are both given"),
        ({"groups": [0] * 6}, "needs at least 2 groups; there is 1"),
        ({"groups": [0, 1]}, r"groups has shape \(2,\); give one value for each of 6 rows"),
        ({"time": [1, 2, 2, 1, 1, 1]}, r"folds=3 needs 3 \+ 1 different times; time has 2"),
        ({"time": [1.0, np.nan, 2, 3, 4, 5]}, "time has missing values"),
        ({"folds": [0, 1, 3, 0, 1, 3]}, r"folds has the numbers \[0, 1, 3\]; number them 0, 1, 2"),
        ({"folds": [0, 1]}, "'loo' or 6 fold numbers"),
        ({"folds": [0, 1] * 3, "time": [0] * 6}, "leave groups and time out"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(ValueError, match=message):
        assign_folds(6, **({"folds": 3} | options))
