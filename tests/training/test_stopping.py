"""Early stopping follows its inequalities, and at zero tolerance the error never rises."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import decoupled_descent as dd
from decoupled_descent.training import Step, StopReason


def feed(stopping, errors):
    """Where and why a sequence of train errors is stopped."""
    for index, error in enumerate(errors):
        reason = stopping(Step(index, error, 0.0, None, None, None))
        if reason is not None:
            return index, reason
    return None


@settings(max_examples=200, deadline=None)
@given(
    errors=st.lists(st.floats(0.01, 10), min_size=2, max_size=30),
    tolerance=st.floats(0, 0.5),
    relative=st.booleans(),
)
def test_stops_at_the_first_update_that_fails_its_inequality(errors, tolerance, relative):
    expected = None
    for t in range(len(errors) - 1):
        now, following = errors[t], errors[t + 1]
        target = now * (1 - tolerance) if relative else now - tolerance
        if following >= target:
            expected = (t + 1, "rising" if following > now else "converged")
            break
    result = feed(dd.EarlyStopping(tolerance, relative, patience=1), errors)
    assert (None if result is None else (result[0], str(result[1]))) == expected


def test_relative_rule_is_the_logarithmic_one():
    errors = [1.0, 0.9, 0.85, 0.84]
    index, _ = feed(dd.EarlyStopping(0.05, relative=True, patience=1), errors)
    drops = [math.log(b) - math.log(a) for a, b in itertools.pairwise(errors)]
    assert index == 1 + next(t for t, drop in enumerate(drops) if drop >= math.log(1 - 0.05))


def test_patience_forgives_a_few_updates_in_a_row():
    errors = [1.0, 0.8, 0.81, 0.82, 0.7, 0.71, 0.72, 0.73, 0.1]
    assert feed(dd.EarlyStopping(patience=1), errors)[0] == 2
    assert feed(dd.EarlyStopping(patience=3), errors) == (7, StopReason.RISING)


def test_nothing_fails_before_the_start():
    errors = [1.0, 1.1, 1.2, 1.1, 0.9, 0.95, 0.96]
    assert feed(dd.EarlyStopping(start=3), errors) == (5, StopReason.RISING)
    assert feed(dd.EarlyStopping(start=3), errors[:4]) is None
    assert feed(dd.EarlyStopping(patience=2, start=4), errors) == (6, StopReason.RISING)
    assert feed(dd.EarlyStopping(start=6), [*errors, 0.8]) is None


def test_what_got_worse_before_the_start_may_come_back():
    assert feed(dd.EarlyStopping(start=2), [1.0, 2.0, 3.0, 2.5, 2.0]) is None
    assert feed(dd.EarlyStopping(start=2), [1.0, 2.0, 3.0, 2.5, 2.6]) == (4, "rising")
    assert feed(dd.EarlyStopping(start=2), [1.0, 2.0, 3.0, 3.0]) == (3, "converged")
    errors = [1.0, 5.0, 4.0, 4.2, 4.1, 3.9, 3.95, 3.95, 3.95]
    assert feed(dd.EarlyStopping(patience=3, start=2), errors) == (8, "rising")
    assert feed(dd.EarlyStopping(patience=2, start=2), errors) == (4, "rising")


def test_what_got_better_before_the_start_has_its_lowest_error_to_improve_on():
    errors = [1.0, 0.5, 0.53, 0.52, 0.51, 0.4]
    assert feed(dd.EarlyStopping(patience=2, start=2), errors) == (4, "rising")
    assert feed(dd.EarlyStopping(patience=3, start=2), errors) is None


def test_the_best_step_may_lie_before_the_start():
    X, y = dd.mixtures.signalless(60).sample(60, seed=0)
    objective, stopping = dd.Objective(dd.heads.Linear(), "squared"), dd.EarlyStopping(start=40)
    run = dd.fit(X, y, objective, dd.DecoupledDescent(0.05), 300, callbacks=[stopping], seed=1)
    assert run.best_step == int(run.train_error.argmin()) < 40
    assert len(run.train_error) > 41


def test_small_improvements_add_up_to_one():
    assert feed(dd.EarlyStopping(0.25, patience=4), [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4]) is None


def test_the_default_waits_for_a_hundred_updates_and_then_for_fifty():
    stopping = dd.EarlyStopping()
    assert feed(stopping, [1.0] * 300) == (150, "converged")
    assert feed(stopping, [1.0] * 140 + [0.5] * 300) == (190, "converged")
    rises = [1.0 + 0.01 * k for k in range(60)] + [1.6 - 0.01 * k for k in range(100)]
    assert feed(stopping, rises) is None


def test_the_saddle_of_xor_is_passed_by_default():
    """By the paper's rule at ε = 0.001 the run stops at the start, at 0.71; 0.15 is ahead."""
    X, y = dd.mixtures.xor(1000, 4.0).sample(1000, seed=2)
    objective = dd.Objective(dd.heads.Product(seed=2), "logistic")
    lowest = {}
    for patience in (1, None):
        stopping = dd.EarlyStopping(1e-3, patience=patience)
        algorithm = dd.DecoupledDescent(0.05)
        run = dd.fit(X, y, objective, algorithm, 400, seed=2, callbacks=stopping)
        lowest[patience] = float(run.train_error.min())
        assert run.stop_reason in (StopReason.CONVERGED, StopReason.RISING)
    assert lowest[1] > 0.7
    assert lowest[None] < 0.16


def test_an_instance_starts_afresh_with_every_run():
    stopping = dd.EarlyStopping(patience=1)
    assert feed(stopping, [1.0, 2.0]) == feed(stopping, [5.0, 6.0]) == (1, StopReason.RISING)


@pytest.mark.parametrize("patience", [1, 5])
def test_in_fit(patience):
    X, y = dd.mixtures.signalless(60).sample(60, seed=0)
    objective = dd.Objective(dd.heads.Linear(), "squared")
    stopping = dd.EarlyStopping(patience=patience)
    run = dd.fit(X, y, objective, dd.DecoupledDescent(0.05), 300, callbacks=[stopping], seed=1)
    assert run.stop_reason is StopReason.RISING
    assert len(run.train_error) == run.best_step + 1 + patience
    assert (run.train_error[: run.best_step + 1].diff() < 0).all()
    again = dd.fit(X, y, objective, dd.DecoupledDescent(0.05), run.best_step + 1, seed=1)
    assert torch.equal(run.best_theta, again.theta)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": -0.1}, r"tolerance=-0.1 must be at least 0"),
        ({"tolerance": math.nan}, "tolerance=nan"),
        ({"tolerance": 1.0, "relative": True}, "tolerance=1.0 must be .* below 1"),
        ({"patience": 0}, "patience=0 must be a whole number of at least 1"),
        ({"start": -1}, "start=-1 must be a whole number of at least 0"),
        ({"start": True}, "start=True must be a whole number"),
        ({"patience": 1.5}, "patience=1.5 must be a whole number"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        dd.EarlyStopping(**options)


def test_relative_tolerance_of_negative_errors():
    """Negative log-likelihoods of densities: lower is better below zero too."""
    rising, falling = [-1.0, -0.95, -0.9, -0.85], [-1.0, -1.2, -1.5, -1.55]
    assert feed(dd.EarlyStopping(0.1, relative=True, patience=1), rising) == (
        1,
        StopReason.RISING,
    )
    assert feed(dd.EarlyStopping(0.1, relative=True, patience=1), falling) == (
        3,
        StopReason.CONVERGED,
    )
    assert feed(dd.EarlyStopping(0.1, relative=True, patience=1), [0.5, 0.2, -0.1, -0.2]) is None


def test_progress_that_nobody_could_measure():
    falling = [1 - 0.0001 * k for k in range(40)]
    steps = [Step(k, error, 0.1, None, None, None) for k, error in enumerate(falling)]

    def stopped(**options):
        rule = dd.EarlyStopping(patience=10, **options)
        result = [(k, rule(step)) for k, step in enumerate(steps)]
        return next(((k, str(why)) for k, why in result if why is not None), None)

    assert stopped() is None
    assert stopped(standard_errors=0.005) is None  # 0.0005, made in six updates of ten
    assert stopped(standard_errors=0.02) == (10, "converged")  # 0.002 would take twenty
    assert stopped(standard_errors=0.005, tolerance=0.002) == (10, "converged")
    unknown = [replace(step, train_error_stderr=float("nan")) for step in steps]
    rule = dd.EarlyStopping(patience=10, standard_errors=0.02)
    assert all(rule(step) is None for step in unknown)


@pytest.mark.parametrize("value", [-0.1, float("inf"), float("nan")])
def test_standard_errors_out_of_range(value):
    with pytest.raises(ValueError, match=r"standard_errors=.* must be at least 0 and finite"):
        dd.EarlyStopping(standard_errors=value)
