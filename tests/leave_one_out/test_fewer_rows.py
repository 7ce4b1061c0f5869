"""Models without large sets of rows, against literal refits."""

import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.leave_one_out import fewer_rows
from decoupled_descent.leave_one_out.fewer_rows import outputs_without
from decoupled_descent.leave_one_out.problem import Problem

N, RIDGE = 80, 0.5
EXACT = dd.DecoupledNewton(RIDGE, tolerance=1e-14, repairs=0)


def data(loss, d):
    draw = torch.Generator().manual_seed(d)
    X = torch.randn(N, d, generator=draw, dtype=torch.float64) * 3 / d**0.5
    score = X @ torch.randn(d, generator=draw, dtype=torch.float64)
    cuts = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    labels = {
        "squared": score + torch.randn(N, generator=draw, dtype=torch.float64),
        "logistic": (score > 0).double(),
        "cross_entropy": torch.bucketize(score, cuts),
    }
    sets = [torch.randperm(N, generator=draw)[:size] for size in (1, 20, 40, 60)]
    return X, labels[loss], sets


def refit(X, y, objective, out):
    """Outputs of the rows of a set by a model that is trained on the others, literally."""
    kept = torch.ones(N, dtype=torch.bool)
    kept[out] = False
    state = dd.fit(X[kept], y[kept], objective, EXACT, 100, progress=False).state
    return X[out] @ state.theta.T + next(iter(state.head.values()))


@pytest.mark.parametrize("square", [3000, 0], ids=["blocks", "conjugate gradients"])
@pytest.mark.parametrize("d", [10, 120])
@pytest.mark.parametrize(
    ("loss", "outputs", "close"),
    [("squared", 1, 1e-10), ("logistic", 1, 1e-4), ("cross_entropy", 3, 1e-4)],
)
def test_sets_left_out_are_literal_refits(loss, outputs, close, d, square, monkeypatch):
    """From one row to three quarters of them; softmax ignores a common shift of all outputs."""
    monkeypatch.setattr(fewer_rows, "SQUARE", square)
    X, y, sets = data(loss, d)
    objective = dd.Objective(dd.heads.Linear(outputs, intercept=True), loss)
    run = dd.fit(X, y, objective, EXACT, 100, progress=False)
    problem = Problem(dd.Rows(X, y), run.bound, RIDGE)
    found = outputs_without(problem, run.state.theta, run.state.head, sets)
    for out, left in zip(sets, found, strict=True):
        literal = refit(X, y, objective, out)
        if outputs > 1:
            left, literal = (one - one.mean(1, keepdim=True) for one in (left, literal))
        torch.testing.assert_close(left, literal, rtol=close, atol=close)
