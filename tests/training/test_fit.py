"""``fit``: what is recorded, how it ends, and what it refuses to start."""

import sys

import numpy as np
import pytest
import torch
from torch import nn

import decoupled_descent as dd
from decoupled_descent.training import StopReason
from tests.problems import binary, normal, two_layer

DD = dd.DecoupledDescent(0.1, 0.9)

ALGORITHMS = [DD, dd.GradientDescent(0.1, 0.9)]

either = pytest.mark.parametrize("algorithm", ALGORITHMS, ids=["dd", "gd"])


class Record:
    """A callback that keeps every step and answers at one of them."""

    def __init__(self, at=None, answer=None):
        self.steps, self.at, self.answer = [], at, answer

    def __call__(self, step):
        self.steps.append(step)
        if step.index == self.at:
            if isinstance(self.answer, BaseException):
                raise self.answer
            return self.answer
        return None


def network(theta, head):
    """The trained model as a PyTorch user would write it."""
    first = nn.Linear(theta.shape[1], theta.shape[0], bias=False).to(theta)
    with torch.no_grad():
        first.weight.copy_(theta)
    return nn.Sequential(first, head)


@either
def test_test_error_is_that_of_the_plain_network(problem, algorithm):
    X, y, objective = problem
    (X_test, y_test), record = binary(50, seed=1), Record()
    run = dd.fit(X, y, objective, algorithm, 6, test=(X_test, y_test), callbacks=[record])
    for step, result in zip(record.steps, run.test_error, strict=True):
        outputs = network(step.state.theta, objective.module(step.state.head))(X_test).squeeze(1)
        error = nn.functional.binary_cross_entropy_with_logits(outputs, y_test)
        assert result.item() == pytest.approx(error.item(), rel=1e-12)
        assert step.test_error == result.item()
    torch.testing.assert_close(run.gap, run.train_error - run.test_error)


def test_a_test_set_changes_nothing_else(problem):
    without, with_one = dd.fit(*problem, DD, 6), dd.fit(*problem, DD, 6, test=binary(9, seed=2))
    assert without.history.train_error == with_one.history.train_error
    assert torch.equal(without.theta, with_one.theta)
    assert without.test_error is None
    assert without.gap is None


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.float64])
def test_test_labels_keep_their_fractions(dtype):
    X, y = binary()
    objective = dd.Objective(dd.heads.Linear(), "squared")
    run = dd.fit(X, y.to(dtype), objective, DD, 1, test=(X.float(), y.float() + 0.5))
    error = (X.float().double() @ run.theta[0] - y - 0.5).square().mean() / 2
    assert run.test_error.item() == pytest.approx(error.item(), rel=1e-6)


@either
def test_callbacks_hear_of_every_step(problem, algorithm):
    X, y, objective = problem
    records = [Record(), Record()]
    run = dd.fit(X, y, objective, algorithm, 5, callbacks=records)
    assert records[0].steps == records[1].steps
    steps = records[0].steps
    assert [step.index for step in steps] == list(range(5))
    assert [step.train_error for step in steps] == run.history.train_error
    assert [step.train_error_stderr for step in steps] == run.history.train_error_stderr
    assert steps[-1].state is run.state
    assert all(step.test_error is None for step in steps)
    assert all(step.info.losses.mean().item() == pytest.approx(step.train_error) for step in steps)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (True, StopReason.CALLBACK),
        (StopReason.INTERRUPTED, StopReason.INTERRUPTED),
    ],
)
def test_a_callback_can_stop(problem, answer, reason):
    stopper, other = Record(at=3, answer=answer), Record()
    run = dd.fit(*problem, DD, 10, callbacks=[stopper, other])
    assert (run.stop_reason, run.message) == (reason, f"{reason} at step 3")
    assert len(run.train_error) == len(other.steps) == 4
    assert run.state.step == 3


@either
def test_interruption_keeps_what_was_reached(problem, algorithm):
    X, y, objective = problem
    record = Record(at=4, answer=KeyboardInterrupt())
    run = dd.fit(X, y, objective, algorithm, 50, callbacks=[record], test=(X, y))
    complete = dd.fit(X, y, objective, algorithm, 5, test=(X, y))
    assert run.stop_reason is StopReason.INTERRUPTED
    assert run.message == "interrupted after step 4"
    assert run.history == complete.history
    torch.testing.assert_close(run.state, complete.state, rtol=0, atol=0)
    assert torch.equal(run.predict(X), complete.predict(X))


def test_interruption_during_a_step_keeps_the_step_before(problem):
    class Interrupted(dd.GradientDescent):
        def stacked_step(self, state, rows, bound):
            if state.step == 3:
                raise KeyboardInterrupt
            return super().stacked_step(state, rows, bound)

    run = dd.fit(*problem, Interrupted(0.1), 10)
    assert run.message == "interrupted after step 2"
    assert len(run.train_error) == 3
    assert run.state.step == 2


def test_interruption_before_anything_was_reached_goes_through(problem):
    class Interrupted(dd.GradientDescent):
        def stacked_step(self, state, rows, bound):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dd.fit(*problem, Interrupted(0.1), 10)


def test_other_exceptions_are_not_swallowed(problem):
    with pytest.raises(ZeroDivisionError):
        dd.fit(*problem, DD, 5, callbacks=[Record(at=1, answer=ZeroDivisionError())])


def test_divergence_keeps_everything_up_to_the_last_finite_step():
    X, y = dd.mixtures.signalless(100).sample(100, seed=0)
    objective = dd.Objective(dd.heads.Linear(), "squared")
    with pytest.warns(dd.DivergenceWarning) as caught:
        run = dd.fit(X, y, objective, dd.DecoupledDescent(3.0), 400, test=(X, y))
    reached = len(run.train_error)
    assert run.stop_reason is StopReason.DIVERGED
    assert 5 < reached < 400
    assert f"at step {reached};" in run.message or f"at step {reached} (" in run.message
    assert f"ends at step {reached - 1}" in run.message
    assert "damping below 1" in run.message
    assert str(caught[0].message) == run.message
    assert caught[0].filename == __file__
    errors = (run.train_error, run.train_error_stderr, run.test_error)
    assert all(len(e) == reached and e.isfinite().all() for e in errors)
    assert run.theta.isfinite().all()
    assert run.state.memory.isfinite().all()
    assert run.state.step == reached - 1
    assert run.predict(X).isfinite().all()


def test_a_start_that_is_not_finite_is_refused():
    X, y = binary(dtype=torch.float32)
    objective = dd.Objective(dd.heads.Linear(), "squared")
    with pytest.raises(ValueError, match="starting point is inf; check the scale of theta"):
        dd.fit(X, y, objective, DD, 5, theta=torch.full((1, 16), 1e30))


def test_seeds(problem):
    runs = [dd.fit(*problem, DD, 4, seed=seed) for seed in (0, 0, 1, None, None)]
    errors = [tuple(run.history.train_error) for run in runs]
    assert errors[0] == errors[1]
    assert len(set(errors)) == 4


def test_integers_from_numpy_are_integers(problem):
    assert len(dd.fit(*problem, DD, np.int64(3)).train_error) == 3


def test_progress_is_drawn_on_request_and_never_in_a_pipe(problem, capsys):
    dd.fit(*problem, DD, 3)
    assert capsys.readouterr() == ("", "")
    dd.fit(*problem, DD, 3, progress=True)
    drawn = capsys.readouterr()
    assert drawn.out == ""
    assert "DecoupledDescent" in drawn.err
    assert "3/3" in drawn.err


class Idle:
    """An algorithm that must not be asked to do anything."""

    def init(self, *args, **kwargs):
        raise AssertionError

    step = init


@pytest.mark.parametrize("steps", [0, -3, 2.0, "10", True])
def test_bad_steps(problem, steps):
    with pytest.raises(ValueError, match=f"steps={steps!r} must be a whole number of at least 1"):
        dd.fit(*problem, Idle(), steps)


X, Y = binary()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": X * torch.nan}, r"X\[0, 0\] is nan"),
        ({"y": Y / 0}, r"y\[\d+\] is (nan|inf)"),
        ({"X": X[0]}, r"X has shape \(16,\)"),
        ({"y": None}, "y is None; pass an array with one row per sample"),
        ({"callbacks": 3}, "callbacks has 3; each must be a function of a Step"),
        ({"test": (X, None)}, "test: y is None"),
        ({"test": (X[:1], Y)}, r"test: y has shape \(24,\) but X has 1 rows"),
        ({"y": Y[1:]}, r"y has shape \(23,\) but X has 24 rows"),
        ({"y": 2 * Y - 1}, "y contains -1, but loss 'logistic'"),
        ({"theta": normal(2, 16)}, "theta has 2 rows"),
        ({"theta": normal(3, 15)}, r"theta has shape \(3, 15\)"),
        ({"test": X}, r"test must be a pair \(X_test, y_test\), not Tensor"),
        ({"test": (X, 2 * Y)}, "test: y contains 2, but loss 'logistic'"),
        ({"test": (X, Y[1:])}, r"test: y has shape \(23,\) but X has 24 rows"),
        ({"test": (X[:, 1:], Y)}, "test has 15 columns but X has 16"),
        ({"test": (X * torch.inf, Y)}, r"test: X\[0, 0\] is -?inf"),
    ],
)
def test_bad_input_is_refused_before_any_work(change, message):
    """The first step would end in another error."""

    class Untouched(dd.DecoupledDescent):
        stacked_step = Idle.step

    arguments = {"X": X, "y": Y, "objective": two_layer(), "steps": 3} | change
    with pytest.raises(ValueError, match=message):
        dd.fit(**{"algorithm": Untouched(0.05)} | arguments)


def test_a_single_callback_needs_no_list(problem):
    assert dd.fit(*problem, DD, 9, callbacks=Record(at=3, answer=True)).message.endswith("step 3")


def test_a_single_test_row(problem):
    X, y, objective = problem
    run = dd.fit(X, y, objective, DD, 3, test=(X[:1], y[:1]))
    expected = objective.losses(X[:1] @ run.theta.T, y[:1], run.state.head)
    assert run.test_error[-1].item() == pytest.approx(expected.item(), rel=1e-12)


def interrupted_at(place, call):
    """Make a call, with Ctrl-C at one of the lines that record an iterate, counted from 1."""
    count = 0

    def trace(frame, event, _):
        nonlocal count
        code = frame.f_code
        if not (code.co_filename.endswith("loop.py") and code.co_name in ("record", "append")):
            return None
        if event == "line":
            count += 1
            if count == place:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return call()
    finally:
        sys.settrace(before)


def test_interruption_while_an_iterate_is_recorded(problem):
    """Wherever Ctrl-C comes, the run is one of fewer steps."""
    X, y, objective = problem
    complete = [None, *(dd.fit(X, y, objective, DD, n, test=(X, y)) for n in range(1, 5))]
    reached = set()
    for place in range(1, 100):
        try:
            run = interrupted_at(place, lambda: dd.fit(X, y, objective, DD, 4, test=(X, y)))
        except KeyboardInterrupt:  # before anything was recorded
            assert not reached
            continue
        steps = len(run.train_error)
        reached.add(steps)
        assert run.history == complete[steps].history
        assert run.best_step == complete[steps].best_step
        torch.testing.assert_close(run.state, complete[steps].state, rtol=0, atol=0)
        if run.stop_reason is StopReason.STEPS:
            break
    assert reached == {1, 2, 3, 4}
