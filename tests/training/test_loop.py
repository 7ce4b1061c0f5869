"""The loop: explosions that stay finite, and what a run is warned of."""

import pickle
import warnings

import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.descent import GreedyDescent
from decoupled_descent.training import StopReason
from decoupled_descent.training.loop import EXPLOSION
from tests.problems import binary, two_layer

#: Grows by about a factor per step where there is nothing to learn, and stays finite for long.
WILD = dd.DecoupledDescent(1.5)


def noise(steps):
    """Rows without signal, a linear model, and as many steps as the test wants."""
    X, y = dd.mixtures.signalless(60).sample(40, seed=0, dtype=torch.float64)
    return X, y, dd.Objective(dd.heads.Linear(), "squared"), WILD, steps


def test_a_finite_explosion_is_warned_of():
    with pytest.warns(dd.DivergenceWarning, match=r"grew from .* to .*damping below 1") as caught:
        run = dd.fit(*noise(30))
    assert run.stop_reason is StopReason.STEPS
    assert run.train_error.isfinite().all()
    assert run.train_error[-1] > EXPLOSION * run.train_error[0]
    assert str(caught[0].message) == run.alarm
    assert f"step {run.best_step}" in run.alarm
    assert caught[0].filename == __file__


def test_a_sweep_names_the_run_that_exploded():
    X, y, objective, wild, steps = noise(30)
    with pytest.warns(dd.DivergenceWarning, match="^wild: the train error grew") as caught:
        result = dd.sweep(X, y, objective, {"wild": wild, "mild": dd.GradientDescent(0.1)}, steps)
    assert len(caught) == 1
    assert result.runs[1].alarm is None


def test_small_rises_are_no_explosion():
    X, y, objective, _, _ = noise(30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rising = dd.fit(X, y, objective, dd.DecoupledDescent(0.3), 10)
        perfect = torch.zeros(1, 60, dtype=torch.float64)  # an error of 0 at the start
        shifted = y + 1e-3
        start = dd.fit(X, y, objective, dd.DecoupledDescent(0.3), 10, theta=perfect)
    assert rising.train_error[-1] > rising.train_error[0]
    assert start.train_error[0] == 0
    assert rising.alarm is None
    assert start.alarm is None
    assert dd.fit(X, shifted, objective, dd.GradientDescent(0.1), 10, theta=perfect).alarm is None


ALGORITHMS = [dd.GradientDescent(0.1), dd.DecoupledDescent(0.1), GreedyDescent.grid(0.1)]
ALGORITHMS += [dd.OrthogonalDecoupledDescent(0.1)]


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=["gd", "dd", "greedy", "odd"])
def test_runs_can_be_pickled(algorithm):
    (X, y), objective = binary(), two_layer()
    run = dd.fit(X, y, objective, algorithm, 6, test=(X, y))
    other = pickle.loads(pickle.dumps(run))
    assert other.history == run.history
    assert repr(other) == repr(run)
    torch.testing.assert_close(other.predict(X, best=True), run.predict(X, best=True))
    torch.testing.assert_close(other.best_outputs, run.best_outputs)
    torch.testing.assert_close(other.last.info, run.last.info)
    rest, again = (
        dd.fit(X, y, each.objective, algorithm, 3, state=each.state) for each in (run, other)
    )
    assert rest.history == again.history


def test_runs_come_back_from_other_processes():
    (X, y), objective = binary(), two_layer()
    apart = dd.sweep(X, y, objective, ALGORITHMS, 5, n_jobs=2)
    here = dd.sweep(X, y, objective, ALGORITHMS, 5)
    for one, other in zip(apart.runs, here.runs, strict=True):
        torch.testing.assert_close(one.state, other.state, rtol=1e-11, atol=1e-12)
        torch.testing.assert_close(one.best_outputs, other.best_outputs)
        assert one.bound.curvature == "structured"
