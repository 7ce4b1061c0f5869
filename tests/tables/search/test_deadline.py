"""The time limit of a search: what is left out, and the estimate of what is left."""

import math

import numpy as np
import pytest
import torch

from decoupled_descent.tables.estimators.mixture import Mixture
from decoupled_descent.tables.members.gaussian_classes import GAUSSIANS
from decoupled_descent.tables.members.growing import FORESTS
from decoupled_descent.tables.members.interface import TableSize
from decoupled_descent.tables.members.sparse_linear import SparseRecipe
from decoupled_descent.tables.search import ranking, ridge_fits
from decoupled_descent.tables.search.deadline import NAMED, Deadline, check_time_limit
from decoupled_descent.tables.search.deadline import left_out_in_words as in_words
from decoupled_descent.tables.search.search import search_models
from tests.tables.search.problems import evaluated

FEW = ["rbf(1)", "linear", "matern(2)", "laplace1(1)"]


class Clock:
    """A clock that advances by one second whenever it is read."""

    def __init__(self):
        self.now = -1.0

    def __call__(self):
        self.now += 1.0
        return self.now


def drawn(n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, torch.tensor((X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(float))


def search(reads, n=80, members=(), **given):
    """A search whose time ends when the clock is read for the given time."""
    deadline = Deadline(reads, clock=Clock())
    options = {"features": FEW, "progress": False} | given
    return search_models(*drawn(n), "logistic", members=members, deadline=deadline, **options)


def test_nothing_is_left_out_in_time():
    members = [*FORESTS, *GAUSSIANS]
    plain = search(None, members=members)
    limited = search(10**6, members=members)
    assert limited.skipped == plain.skipped == ()
    assert torch.equal(limited.left_out, plain.left_out)
    assert torch.equal(limited.weights, plain.weights)
    assert evaluated(limited).error == evaluated(plain).error


def test_without_time_the_linear_model_is_left():
    result = search(0.5, members=[*FORESTS, *GAUSSIANS])
    assert [one.features.name for one in result.fits] == ["linear"]
    assert result.others == ()
    kernels = [name for name in FEW if name != "linear"]
    ridges = ["more ridges of linear"]
    assert list(result.skipped[:-4]) == [*kernels, *ridges]
    assert set(result.skipped[-4:]) == {one.name for one in (*FORESTS, *GAUSSIANS)}
    X, _ = drawn()
    assert Mixture.of(result).predict(X).shape == (80, 2)
    assert math.isfinite(evaluated(result).error)


def test_without_a_linear_model_the_first_is_left():
    result = search(0.5, features=["rbf(1)", "matern(2)"], ridge=1.0)
    assert [one.features.name for one in result.fits] == ["rbf(1)"]
    assert result.skipped == ("matern(2)",)


def test_members_are_left_out_first():
    """Each second more brings the next candidate, in one order."""
    members, before = [*FORESTS, *GAUSSIANS], None
    for reads in range(1, 60):
        result = search(reads + 0.5, members=members, ridge=1.0)
        names = {one.features.name for one in result.fits} | {one.name for one in result.others}
        assert "linear" in names
        if result.others:
            assert not set(result.skipped) & set(FEW)
        assert before is None or before <= names
        before = names
        if not result.skipped:
            break
    assert not result.skipped
    assert {one.name for one in members} <= before


def test_ridges_are_left_out_within_a_map():
    complete = search(None, features=["linear"])
    assert len(complete.fits) > 2
    two = search(1.5, features=["linear"])  # read before the second ridge, and before the third
    assert [one.ridge for one in two.fits] == [one.ridge for one in complete.fits[:2]]
    assert two.skipped == ("more ridges of linear",)
    assert torch.equal(two.fits[1].outputs, complete.fits[1].outputs)


def test_many_rows_choose_ridges_in_time(monkeypatch):
    monkeypatch.setattr(ridge_fits, "SAMPLED", 60)
    monkeypatch.setattr(ranking, "NESTED", 60)
    result = search(3.5)  # the ranking is in time, the choice of ridges is not
    assert {one.features.name for one in result.fits} == {"linear"}
    assert "rbf(1)" in result.skipped


def test_members_that_do_not_suit_are_not_called_left_out():
    X, _ = drawn()
    y = torch.from_numpy(X[:, 0])
    result = search_models(
        X, y, "squared", features=["linear"], progress=False,
        members=[*FORESTS, *GAUSSIANS, SparseRecipe(only_wide=True)],
        deadline=Deadline(0.5, clock=Clock()),
    )  # fmt: skip
    assert set(result.skipped) == {"more ridges of linear", *(one.name for one in FORESTS)}


def test_the_estimate_is_that_of_what_is_left():
    """The mean of z over draws is that of an honest estimate."""
    scores = []
    for seed in range(10):
        X, y = drawn(80, seed)
        new, truth = drawn(2000, seed + 100)
        deadline = Deadline(20.5, clock=Clock())
        given = {"features": "auto", "progress": False, "members": FORESTS}
        result = search_models(X, y, "logistic", deadline=deadline, **given)
        assert {one.name for one in FORESTS} <= set(result.skipped)
        assert len({one.features.name for one in result.fits}) > 1
        chances = torch.from_numpy(Mixture.of(result).predict(new))
        test = float(result.objective.loss.of_predictions(chances, truth).mean())
        scores.append((test - evaluated(result).error) / evaluated(result).stderr)
    assert abs(np.mean(scores)) < 3 / np.sqrt(10)


def test_candidates_that_would_take_too_long_are_left_out():
    deadline = Deadline(10.5, clock=Clock(), speed=lambda: 100.0)  # 9.5 s are left
    assert not deadline.leaves_out("short", operations=900.0)
    assert deadline.leaves_out("long", operations=900.0)  # 8.5 s are left
    assert deadline.left_out == ["long"]
    assert not Deadline(None, speed=lambda: 1e-9).leaves_out("any", operations=1e9)


def test_a_slow_machine_leaves_out_what_takes_long():
    X, y = drawn()
    deadline = Deadline(1000.0, clock=lambda: 0.0, speed=lambda: 2.0 * 10**6)  # 2e9 operations
    members = [*FORESTS, *GAUSSIANS]
    given = {"features": FEW, "members": members, "progress": False}
    result = search_models(X, y, "logistic", deadline=deadline, **given)
    size = TableSize(80, 4, 1, has_classes=True)
    long = {one.name for one in members if one.operations(size) >= 2e9}
    assert {one.name for one in FORESTS} <= long
    assert {one.name for one in members} - long == {one.name for one in result.others}
    assert long <= set(result.skipped)


def test_processes_agree():
    deadline = Deadline(5.0, clock=Clock(), agree=lambda own: True)
    assert deadline.leaves_out("a")  # another process is late
    asked = []
    deadline = Deadline(1.5, clock=Clock(), agree=lambda own: asked.append(own) or own)
    assert [deadline.leaves_out("b") for _ in range(3)] == [False, True, True]
    assert asked == [False, True, True]
    assert deadline.left_out == ["b"]


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "5", True, [3]])
def test_bad_limits(value):
    with pytest.raises(ValueError, match=r"^time_limit=.* must be a positive number of seconds"):
        check_time_limit(value)


def test_words():
    many = [f"k{number}" for number in range(NAMED + 3)]
    assert in_words(0.5, many[:1]) == "the time limit of 0.5 s left out: k0"
    assert in_words(60.0, many).endswith(f"k{NAMED - 1} and 3 more")
