"""Drift: the rise is that of refits, shuffled tables show it, and stable ones do not."""

import numpy as np
import pandas as pd
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.evaluation.checks import drift
from tests.evaluation.checks.problems import find, names
from tests.oracles.newton import refits, squared


def walking(step, n=240, seed=0):
    """Rows in random order; the level of the target makes steps of this size over all rows."""
    rng = np.random.default_rng(seed)
    level = np.cumsum(rng.normal(size=n)) * step / n**0.5
    X = rng.normal(size=(n, 3))
    y = X[:, 0] + level + 0.5 * rng.normal(size=n)
    order = rng.permutation(n)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "date": 100 + 0.5 * np.arange(n)})
    return frame.iloc[order], y[order]


def test_the_rise_is_that_of_refits():
    frame, y = walking(4.0, 60)
    X, time = frame.to_numpy() / [1, 1, 100], frame["date"].to_numpy()
    rows = dd.Rows(torch.from_numpy(X), torch.from_numpy(y))
    model = dd.Objective(dd.heads.Linear(intercept=True), "squared")
    run = dd.fit(rows, None, model, dd.DecoupledNewton(1.0))
    found = drift.rise_without_period(run, rows, torch.tensor(time))
    periods = (2 * (time - 100)).astype(int) // 6
    generator = torch.Generator().manual_seed(0)
    torch.randperm(60, generator=generator)
    parts = torch.randperm(60, generator=generator).numpy() // 6
    near, far = (
        0.5 * (refits(X, y, squared, 1.0, groups=groups)[:, 0] - y) ** 2
        for groups in (periods, parts)
    )
    assert found.mean == pytest.approx((near - far).mean(), rel=1e-7)
    sums = [(near - far)[periods == k].sum() for k in range(10)]
    assert found.stderr == pytest.approx(np.square(sums).sum() ** 0.5 / 60, rel=1e-7)


def test_a_walk_is_noticed_in_a_shuffled_table_and_a_stable_one_is_not():
    frame, y = walking(6.0)
    moving = find(dd.DecoupledRegressor().fit(frame, y).diagnostics_, "drift")
    assert moving.status == "alarm"
    assert "'date'" in moving.reason
    frame, y = walking(0.0)
    assert find(dd.DecoupledRegressor().fit(frame, y).diagnostics_, "drift").status == "ok"


def test_it_runs_if_there_is_a_time():
    frame, y = walking(6.0)
    plain = frame.rename(columns={"date": "c"})
    options = {"features": "linear", "ridge": 1.0}
    assert "drift" not in names(dd.DecoupledRegressor(**options).fit(plain, y).diagnostics_)
    ordered = np.argsort(plain["c"].to_numpy())
    model = dd.DecoupledRegressor().fit(plain.iloc[ordered].to_numpy(), y[ordered])
    found = find(model.diagnostics_, "drift")
    assert found.status == "caution"  # the table may be sorted by any column
    assert "X[:, 2]" in found.reason
    groups = np.arange(len(y)) // 2
    model = dd.DecoupledRegressor(**options).fit(frame, y, groups=groups)
    assert "drift" not in names(model.diagnostics_)


def test_times_can_be_given():
    frame, y = walking(6.0)
    rows = dd.Rows(torch.tensor(frame[["a", "b"]].to_numpy()), torch.from_numpy(y))
    model = dd.Objective(dd.heads.Linear(intercept=True), "squared")
    run = dd.fit(rows, None, model, dd.DecoupledNewton(1.0))
    assert "drift" not in names(dd.diagnose(rows, None, run))
    given = dd.diagnose(rows, None, run, time=frame["date"].to_numpy())
    assert find(given, "drift").value >= 0
    with pytest.raises(ValueError, match=r"time 'day' has shape \(3,\); pass 240 numbers"):
        dd.diagnose(rows, None, run, time={"day": [1, 2, 3]})
