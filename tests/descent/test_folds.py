"""Heads of folds against a naive loop: each trained on, and judging, what it should."""

import math
from dataclasses import replace

import pytest
import torch
from torch.func import functional_call

import decoupled_descent as dd
from decoupled_descent.descent import folds
from tests.problems import binary, normal, two_layer

X, Y = binary(n=23)
ROWS = dd.Rows(X, Y)
ODD = dd.OrthogonalDecoupledDescent(0.7, 0.9, head_lr=0.3, head_damping=0.95, reduction="mean")


def shaken(head, count):
    """Heads that differ from one another."""
    return tuple(
        {name: value + 0.1 * normal(*value.shape, seed=k) for name, value in head.items()}
        for k in range(count)
    )


def naive(heads, h, y, module, loss, algorithm):
    """Losses and moved heads, one row and one fold at a time, by autograd."""
    losses, moved = torch.empty(len(h), dtype=h.dtype), []
    for fold, head in enumerate(heads):
        leaves = {name: value.clone().requires_grad_() for name, value in head.items()}
        others = []
        for i in range(len(h)):
            value = loss(functional_call(module, leaves, (h[i : i + 1],)), y[i : i + 1])
            if i % len(heads) == fold:
                losses[i] = value.detach()
            else:
                others.append(value)
        mean = torch.stack(others).mean()
        slopes = torch.autograd.grad(mean, list(leaves.values()))
        moved.append(
            {
                name: algorithm.head_damping * value - algorithm.head_lr * slope
                for (name, value), slope in zip(head.items(), slopes, strict=True)
            }
        )
    return losses, tuple(moved)


def bce(outputs, y):
    return torch.nn.functional.binary_cross_entropy_with_logits(outputs.reshape(-1), y)


PROBLEMS = {
    "logistic": (two_layer(), Y, bce),
    "cross_entropy": (
        dd.Objective(dd.heads.TwoLayer(3, outputs=4, seed=0).double(), "cross_entropy"),
        torch.arange(23) % 4,
        torch.nn.functional.cross_entropy,
    ),
    "autodiff": (
        dd.Objective(dd.heads.TwoLayer(3, seed=1).double(), "logistic", curvature="autodiff"),
        Y,
        bce,
    ),
}


@pytest.mark.parametrize("count", [2, 5, 23])  # 23 folds of one row each, others uneven
@pytest.mark.parametrize("problem", PROBLEMS)
def test_judge_is_the_naive_loop(problem, count):
    objective, y, loss = PROBLEMS[problem]
    h, heads = 2 * normal(23, 3, seed=4), shaken(objective.parameters(X), count)
    losses, moved = folds.judge(heads, h, dd.Rows(X, y), objective, ODD, None)
    expected, expected_heads = naive(heads, h, y, objective.head, loss, ODD)
    torch.testing.assert_close(losses, expected)
    torch.testing.assert_close(moved, expected_heads)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_head_itself_may_have_a_say(problem):
    objective, y, loss = PROBLEMS[problem]
    h, (head, *heads) = 2 * normal(23, 3, seed=4), shaken(objective.parameters(X), 6)
    rows = dd.Rows(X, y)
    losses, moved = folds.judge(tuple(heads), h, rows, objective, ODD, None, (head, 0.3))
    for i in range(23):
        row = h[i : i + 1]
        of_fold, own = (functional_call(objective.head, a, (row,)) for a in (heads[i % 5], head))
        torch.testing.assert_close(
            losses[i], loss(0.3 * of_fold + 0.7 * own, rows.y[i : i + 1]).detach()
        )
    torch.testing.assert_close(moved, folds.judge(tuple(heads), h, rows, objective, ODD, None)[1])


def test_a_run_with_mixed_heads():
    X, y = binary(n=40)
    run = dd.fit(X, y, two_layer(), replace(ODD, folds=5, fold_weight=0.5), steps=12, seed=0)
    errors = torch.nn.functional.binary_cross_entropy_with_logits(run.best_outputs, y)
    assert float(errors) == pytest.approx(float(run.train_error[run.best_step]))
    ends = [dd.fit(X, y, two_layer(), replace(ODD, folds=k), steps=12, seed=0) for k in (1, 5)]
    low, high = (float(end.train_error[-1]) for end in ends)
    assert low < float(run.train_error[-1]) < high
    assert torch.equal(run.theta, ends[0].theta)


@pytest.mark.parametrize("weight", [0, 1.1, -1, "half", math.nan])
def test_weights_out_of_range(weight):
    with pytest.raises(ValueError, match=r"fold_weight=.* above 0 and at most 1"):
        replace(ODD, fold_weight=weight)


def test_judge_with_another_direction_for_the_head():
    objective = two_layer()
    h, heads = normal(23, 3, seed=4), shaken(objective.parameters(X), 4)

    def f(h, y, a):
        return {name: (y * h[:, 0]).reshape(-1, *[1] * v.ndim) * v for name, v in a.items()}

    _, moved = folds.judge(heads, h, ROWS, objective, ODD, f)
    for fold, (before, after) in enumerate(zip(heads, moved, strict=True)):
        others = [i for i in range(23) if i % 4 != fold]
        mean = sum(float(Y[i] * h[i, 0]) for i in others) / len(others)
        for name, value in before.items():
            torch.testing.assert_close(after[name], 0.95 * value - 0.3 * mean * value)


@pytest.mark.parametrize("count", [2, 7])
def test_outputs_come_from_the_head_of_the_fold(count):
    for objective, _, _ in PROBLEMS.values():
        h, heads = normal(23, 3, seed=4), shaken(objective.parameters(X), count)
        found = folds.outputs(heads, h, objective)
        alone = [
            functional_call(objective.head, heads[i % count], (h[i : i + 1],)) for i in range(23)
        ]
        torch.testing.assert_close(found, torch.cat(alone).detach())


def test_start():
    head = two_layer().parameters(X)
    heads = folds.start(5, head, ODD, ROWS)
    assert len(heads) == 5
    for copy in heads:
        torch.testing.assert_close(copy, head, rtol=0, atol=0)
        assert all(copy[name] is not value for name, value in head.items())
    assert folds.start(1, head, ODD, ROWS) == ()
    assert folds.start(5, {}, ODD, ROWS) == ()
    assert folds.start(5, head, dd.OrthogonalDecoupledDescent(0.7, head_lr=0), ROWS) == ()
    with pytest.raises(ValueError, match="folds=24 but X has only 23 rows; use fewer folds"):
        folds.start(24, head, ODD, ROWS)


def test_folds_leave_training_as_it_was():
    plain, folded = (
        dd.fit(X, Y, two_layer(), dd.OrthogonalDecoupledDescent(0.5, 0.9, folds=k), 12)
        for k in (1, 4)
    )
    assert torch.equal(plain.theta, folded.theta)
    torch.testing.assert_close(plain.state.head, folded.state.head, rtol=0, atol=0)
    assert plain.history.train_error[0] == pytest.approx(folded.history.train_error[0], rel=1e-12)
    assert plain.history.train_error[-1] != pytest.approx(folded.history.train_error[-1], rel=1e-6)
