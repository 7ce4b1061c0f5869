"""Unusually similar rows: found wherever they stand, and left out as by literal refits."""

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.evaluation.checks import companions
from decoupled_descent.evaluation.checks.measures import losses_left_out
from tests.evaluation.checks.problems import find, names, status
from tests.oracles.newton import refits, squared


def patients(count, rows, effect, seed=0, d=8, classes=False):
    """Several rows of each patient, alike in their columns, in random order."""
    rng = np.random.default_rng(seed)
    own, its = rng.normal(size=(count, d)), rng.normal(size=count)
    who = rng.permutation(np.repeat(np.arange(count), rows))
    X = own[who] + 0.3 * rng.normal(size=(len(who), d))
    signal = X[:, 0] + 0.5 * X[:, 1] + effect * its[who]
    if classes:
        return X, (rng.random(len(who)) < 1 / (1 + np.exp(-2 * signal))).astype(int), who
    return X, signal + 0.5 * rng.normal(size=len(who)), who


def squared_distances(X):
    found = np.square(X[:, None] - X).sum(2)
    np.fill_diagonal(found, np.inf)
    return found


def test_companions_are_rows_of_one_patient():
    X, _, who = patients(60, 2, 0)
    found = companions.companions(squared_distances(X))
    same = found[:, None] == found
    np.fill_diagonal(same, False)
    assert same.any(1).mean() > 0.5
    assert (who[:, None] == who)[same].mean() > 0.75


def test_groups_are_limited_and_rows_of_no_law_are_alone():
    close = np.random.default_rng(0).normal(size=(400, 6))
    close[:12] = close[0] + 1e-3 * close[:12]
    found = companions.companions(squared_distances(close))
    assert np.bincount(found).max() <= companions.MOST
    assert len(np.unique(found[:12])) == 2
    line = np.arange(40.0)[:, None]  # equally far from each other
    assert np.bincount(companions.companions(squared_distances(line))).max() == 1


def test_other_neighbours_are_as_many_and_no_companions():
    X, _, _ = patients(40, 3, 0)
    distances = squared_distances(X)
    together = companions.companions(distances)
    other = companions.neighbour_groups(distances, together)
    sizes = [np.sort(np.bincount(one)) for one in (together, other)]
    assert sizes[1].max() == sizes[0].max()
    assert (sizes[1] > 1).sum() > 0.8 * (sizes[0] > 1).sum()
    for group in np.unique(other):
        members = together[other == group]
        assert len(np.unique(members)) == len(members)


def test_the_rise_is_that_of_refits():
    X, y, _ = patients(30, 2, 1.0, d=3)
    rows = dd.Rows(torch.from_numpy(X), torch.from_numpy(y))
    model = dd.Objective(dd.heads.Linear(intercept=True), "squared")
    run = dd.fit(rows, None, model, dd.DecoupledNewton(1.0))

    def losses_without(groups):
        return losses_left_out(run, rows, torch.from_numpy(groups)).numpy()

    found = companions.companion_effect(losses_without, X)
    together = companions.companions(squared_distances(X))
    partitions = [
        np.arange(60),
        together,
        companions.neighbour_groups(squared_distances(X), together),
    ]
    alone, near, far = (
        0.5 * (refits(X, y, squared, 1.0, groups=groups)[:, 0] - y) ** 2 for groups in partitions
    )
    assert found.rise == pytest.approx((near - far).mean(), rel=1e-7)
    variance = 0.0
    for losses, groups in ((near, partitions[1]), (far, partitions[2])):
        rise = losses - alone
        sums = [(rise - rise.mean())[groups == group].sum() for group in np.unique(groups)]
        variance += np.square(sums).sum() / 60**2
    assert found.stderr == pytest.approx(variance**0.5, rel=1e-7)
    assert found.share == np.mean(np.bincount(together)[together] > 1)


@pytest.mark.parametrize("kind", ["a number", "classes"])
@pytest.mark.parametrize("effect", [0.0, 1.0])
def test_scattered_patients_are_a_caution_if_they_have_an_effect(kind, effect):
    X, y, who = patients(80, 5, effect, classes=kind == "classes")
    estimator = dd.DecoupledClassifier if kind == "classes" else dd.DecoupledRegressor
    model = estimator(features="laplace(1)").fit(X, y)
    assert status(model.diagnostics_, "unusually similar rows") == ("caution" if effect else "ok")
    assert status(model.diagnostics_, "rows that belong together") == "ok"
    if effect:
        assert "--group" in find(model.diagnostics_, "unusually similar rows").command_advice
        model.fit(X, y, groups=who)
        assert "unusually similar rows" not in names(model.diagnostics_)


def test_many_equal_rows_are_joined_without_a_warning():
    """Half of the rows are equal: distances of 0 have no logarithm, and no ratio."""
    points = np.vstack([np.zeros((30, 3)), np.random.default_rng(0).normal(size=(30, 3))])
    distances = np.square(points[:, None] - points).sum(2)
    np.fill_diagonal(distances, np.inf)
    groups = companions.companions(distances)
    assert np.bincount(groups[:30]).max() > 1
    assert not set(groups[:30]) & set(groups[30:])
