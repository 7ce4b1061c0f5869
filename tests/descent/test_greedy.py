"""Greedy descent against trying every candidate with the algorithm itself."""

import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.descent import GreedyDescent
from decoupled_descent.training import StopReason


def problem(n=60, d=50):
    X, y = dd.mixtures.xor(d, 5.0).sample(n, seed=0, dtype=torch.float64)
    return X, y, dd.Objective(dd.heads.TwoLayer(3, seed=0).double(), "logistic")


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_equals_trying_every_candidate(reduction):
    X, y, objective = problem()
    rows = dd.Rows(X, y)
    lr = 0.2 if reduction == "sum" else 10.0
    greedy = GreedyDescent.grid(lr, reduction=reduction)
    state = greedy.init(rows, objective, seed=0)
    plain = greedy.candidates[0].init(rows, objective, seed=0)
    for _ in range(40):
        following, info = greedy.step(state, rows, objective)
        current = greedy.candidates[0].step(plain, rows, objective)[1].train_error
        assert info.train_error == pytest.approx(current, abs=1e-12)
        tries = [candidate.step(plain, rows, objective)[0] for candidate in greedy.candidates]
        errors = [greedy.candidates[0].step(t, rows, objective)[1].train_error for t in tries]
        lowest = min(range(len(errors)), key=errors.__getitem__)
        if errors[lowest] >= current:
            assert following.chosen == -1
            break
        assert following.chosen == lowest
        plain, state = tries[lowest], following
        torch.testing.assert_close(state.theta, plain.theta, rtol=0, atol=1e-10)
        torch.testing.assert_close(state.own.memory, plain.memory, rtol=0, atol=1e-10)
        torch.testing.assert_close(state.head, plain.head, rtol=0, atol=1e-10)


def test_error_never_rises_and_stopping_ends_the_run_where_nothing_helps():
    X, y = dd.mixtures.signalless(80).sample(40, seed=0, dtype=torch.float64)
    objective = dd.Objective(dd.heads.Linear(), "squared")
    greedy = GreedyDescent.grid(0.1, dampings=(1.0,))
    run = dd.fit(X, y, objective, greedy, 200, callbacks=[dd.EarlyStopping()])
    assert run.stop_reason is StopReason.CONVERGED
    assert (run.train_error.diff() <= 0).all()
    assert run.state.chosen == -1
    assert torch.equal(run.theta, run.best_theta)


@pytest.mark.slow
def test_keeps_the_identity():
    """Across seeds the mean of train − test error is within three standard errors of zero."""
    gaps = []
    mixture = dd.mixtures.flipped_classes(400, 2.0, labels=(0, 1))
    for seed in range(12):
        X, y = mixture.sample(400, seed=2 * seed)
        objective = dd.Objective(dd.heads.TwoLayer(3, seed=seed), "logistic")
        test = mixture.sample(4000, seed=2 * seed + 1)
        greedy = GreedyDescent.grid(0.1, dampings=(1.0, 0.95))
        run = dd.fit(X, y, objective, greedy, 40, seed=seed, test=test)
        gaps.append(float(run.gap[run.best_step]))
    mean, stderr = torch.tensor(gaps).mean(), torch.tensor(gaps).std() / len(gaps) ** 0.5
    assert stderr < 0.02
    assert abs(mean) < 3 * stderr + 0.01  # 0.01: finite-size bias at n = 400


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ((), "candidates is empty"),
        ((0.1, 0.2), "candidate 0.1 is no algorithm whose train error"),
        ((dd.GradientDescent(0.1),), "is no algorithm whose train error estimates"),
        (
            (dd.DecoupledDescent(0.1), dd.OrthogonalDecoupledDescent(0.1)),
            "is of another kind than",
        ),
    ],
)
def test_bad_candidates(candidates, message):
    with pytest.raises(ValueError, match=message):
        GreedyDescent(candidates)


def test_continues_across_kinks_as_if_it_had_never_stopped():
    X, y, _ = problem()

    def fresh():
        head = dd.heads.TwoLayer(3, "relu", seed=0).double()
        return dd.Objective(head, "logistic", curvature="smoothed")

    greedy = GreedyDescent.grid(0.1)
    full, part = dd.fit(X, y, fresh(), greedy, 13), dd.fit(X, y, fresh(), greedy, 7)
    rest = dd.fit(X, y, fresh(), greedy, 7, state=part.state)
    assert rest.history.train_error == full.history.train_error[6:]
    assert torch.equal(rest.theta, full.theta)


def test_says_what_its_candidates_share():
    def g(h, y, a):
        return h - y[:, None]

    def f(h, y, a):
        return {}

    candidates = tuple(dd.DecoupledDescent(lr, head_lr=0, g=g, f=f) for lr in (0.1, 0.2))
    greedy = GreedyDescent(candidates)
    assert (greedy.g, greedy.f, greedy.trains_head) == (g, f, False)
    mixed = (dd.DecoupledDescent(0.1, head_lr=0), dd.DecoupledDescent(0.1))
    assert GreedyDescent(mixed).trains_head


def test_diagnosed_like_its_only_candidate():
    X, y, objective = problem()
    only = dd.DecoupledDescent(0.1, head_lr=0)
    one, other = (dd.fit(X, y, objective, a, 4) for a in (only, GreedyDescent((only,))))
    findings = [
        {finding.name: finding.value for finding in dd.diagnose(X, y, run).findings}
        for run in (one, other)
    ]
    assert findings[0] == pytest.approx(findings[1], nan_ok=True)


OTHERS = {
    "momentum": tuple(
        dd.DecoupledDescent(0.1, rule=dd.rules.SGD(lr, momentum))
        for lr in (0.05, 0.2)
        for momentum in (0.4, 0.8)
    ),
    "ridges": tuple(dd.OrthogonalDecoupledDescent(0.1, ridge=ridge) for ridge in (0.3, 3.0)),
    "batches": tuple(dd.DecoupledDescent(lr, batch_size=20) for lr in (0.05, 0.1)),
    "reductions": (dd.DecoupledDescent(0.1), dd.DecoupledDescent(5.0, reduction="mean")),
}


@pytest.mark.parametrize("candidates", OTHERS.values(), ids=OTHERS)
def test_any_candidates_are_tried_one_by_one(candidates):
    X, y, objective = problem()
    rows, greedy = dd.Rows(X, y), GreedyDescent(candidates)
    assert not greedy.shared
    state = greedy.init(rows, objective, seed=0)
    plain = candidates[0].init(rows, objective, seed=0)
    for _ in range(8):
        following, info = greedy.step(state, rows, objective)
        tries = [candidate.step(plain, rows, objective) for candidate in candidates]
        current = tries[0][1].train_error
        assert info.train_error == pytest.approx(current, abs=1e-12)
        errors = [candidates[0].step(each, rows, objective)[1].train_error for each, _ in tries]
        lowest = min(range(len(errors)), key=errors.__getitem__)
        if errors[lowest] >= current:
            assert following.chosen == -1
            break
        assert following.chosen == lowest
        plain, state = tries[lowest][0], following
        torch.testing.assert_close(state.theta, plain.theta, rtol=0, atol=1e-12)


def test_candidates_that_carry_other_things():
    X, y, objective = problem()
    pair = (dd.DecoupledDescent(0.1), dd.DecoupledDescent(0.1, rule=dd.rules.SGD(0.1, 0.5)))
    with pytest.raises(ValueError, match="carries other things from step to step"):
        GreedyDescent(pair).init(dd.Rows(X, y), objective, seed=0)
