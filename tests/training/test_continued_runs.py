"""Runs that are continued from a state, and states that belong elsewhere."""

import pytest
from torch import nn

import decoupled_descent as dd
from decoupled_descent.descent import GreedyDescent
from tests.descent.test_rules import Momentum
from tests.problems import binary, two_layer, xor_objective
from tests.training.test_run import DD, ROW_WISE

X, Y = binary()


@pytest.fixture
def problem():
    return X, Y, two_layer()


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (X[:20], Y[:20], r"state.memory of shape \(2, 24\), not torch.float64 of \(2, 20\)"),
        (X[:, :9], Y, "16 columns but X has shape"),
        (X.float(), Y, "state is in torch.float64 but X in torch.float32"),
        (X, Y + 1, "y contains 2"),
    ],
)
def test_a_state_continues_only_where_it_belongs(X, y, message):
    run = dd.fit(*binary(), xor_objective(), DD, 3)
    with pytest.raises(ValueError, match=message):
        dd.fit(X, y, xor_objective(), DD, 3, state=run.state)


OTHERS = {
    "gd to dd": (dd.GradientDescent(0.1), DD, "no state.memory: DecoupledDescent with this head"),
    "dd to odd": (DD, dd.OrthogonalDecoupledDescent(0.1), "no state.preactivations: Orthogonal"),
    "dd to greedy": (
        DD,
        GreedyDescent.grid(0.1),
        "no state.preactivations: GreedyDescent",
    ),
    "rule": (
        DD,
        dd.DecoupledDescent(0.1, rule=Momentum(0.1, 0.5)),
        "no state.slots.0",
    ),
}


@pytest.mark.parametrize(("one", "other", "message"), OTHERS.values(), ids=OTHERS)
def test_a_state_of_another_algorithm_is_refused(problem, one, other, message):
    run = dd.fit(*problem, one, 3)
    with pytest.raises(ValueError, match=f"state has {message}.*start anew from theta=run.theta"):
        dd.fit(*problem, other, 3, state=run.state)


@pytest.mark.parametrize("layers", [(), (nn.Linear(1, 1),)], ids=["narrower", "deeper"])
def test_a_state_of_another_head_is_refused(problem, layers):
    X, y, objective = problem
    run = dd.fit(X, y, objective, DD, 3)
    other = dd.Objective(nn.Sequential(nn.Linear(3, 1, bias=False), *layers).double(), "logistic")
    with pytest.raises(
        ValueError, match=r"with this head on these rows needs another.*Objective\(run.head, …\)"
    ):
        dd.fit(X, y, other, DD, 3, state=run.state)


@pytest.mark.parametrize("what", ["run", "theta"])
def test_only_a_state_is_a_state(problem, what):
    run = dd.fit(*problem, DD, 3)
    with pytest.raises(ValueError, match=r"pass the state of a run, run\.state"):
        dd.fit(*problem, DD, 3, state=run if what == "run" else run.theta)


RESUMABLE = ROW_WISE | {
    "greedy": GreedyDescent.grid(0.1),
    "momentum": dd.DecoupledDescent(0.1, rule=Momentum(0.1, 0.5)),
}


@pytest.mark.parametrize("algorithm", RESUMABLE.values(), ids=RESUMABLE)
def test_a_state_of_its_own_goes_on(problem, algorithm):
    full, part = dd.fit(*problem, algorithm, 9), dd.fit(*problem, algorithm, 5)
    rest = dd.fit(*problem, algorithm, 5, state=part.state)
    assert rest.history.train_error == full.history.train_error[4:]
