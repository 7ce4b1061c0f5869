"""What the Newton method refuses, in one line."""

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from tests.leave_one_out.test_newton import N, problem
from tests.problems import normal


def test_scales_of_x_that_cannot_be_worked_with():
    X, y = problem("logistic")
    objective = dd.Objective(dd.heads.Linear(), "logistic")
    for big in (X * 1e200, np.tile(X, (1, 20)) * 1e200):
        with pytest.raises(ValueError, match="too large to square; rescale its columns"):
            dd.fit(big, y, objective, dd.DecoupledNewton(1.0), 3)
    with pytest.raises(ValueError, match=r"dtype torch\.float16.*pass it in float32 or float64"):
        dd.fit(X.astype(np.float16), y, objective, dd.DecoupledNewton(1.0), 3)
    far = dd.fit(X + 1e12, y, objective, dd.DecoupledNewton(1.0), 30)  # nearly singular
    assert 0 < far.best.train_error < 1


@pytest.mark.parametrize("extra", [{"weights": np.full(N, 2.0)}, {"groups": np.arange(N) // 2}])
def test_other_algorithms_refuse_weights_and_groups(extra):
    X, y = problem("logistic")
    objective = dd.Objective(dd.heads.Linear().double(), "logistic")
    for algorithm in (dd.GradientDescent(0.1), dd.OrthogonalDecoupledDescent(0.1)):
        with pytest.raises(ValueError, match="does not support row weights or groups"):
            dd.fit(dd.Rows(X, y, **extra), None, objective, algorithm, 3, progress=False)


@pytest.mark.parametrize(
    "bad",
    [{"ridge": r} for r in (0, -1.0, float("inf"), float("nan"), "1", True, None)]
    + [{"ridge": 1.0, "tolerance": t} for t in (0, -1e-9, float("nan"))]
    + [{"ridge": 1.0, "repairs": k} for k in (-1, 1.5, "3")],
)
def test_bad_options(bad):
    name = list(bad)[-1]
    with pytest.raises(ValueError, match=f"{name}="):
        dd.DecoupledNewton(**bad)


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"weights": np.zeros(N)}, "weights has the entry 0"),
        ({"weights": -np.ones(N)}, "weights has the entry -1"),
        ({"weights": np.ones(3)}, "weights has shape"),
        ({"weights": np.full(N, np.nan)}, "weights"),
        ({"groups": np.zeros(N)}, "one value only"),
        ({"groups": np.zeros(3)}, "groups has shape"),
    ],
)
def test_bad_weights_and_groups(extra, words):
    with pytest.raises(ValueError, match=words):
        dd.Rows(*problem("squared"), **extra)


@pytest.mark.parametrize(("loss", "outputs"), [("logistic", 1), ("cross_entropy", 3)])
def test_one_class_has_no_minimum(loss, outputs):
    X, y = normal(30, 2), torch.ones(30, dtype=torch.int64 if outputs > 1 else torch.float64)
    head = dd.heads.Linear(outputs, intercept=True).double()
    with pytest.raises(ValueError, match=f"y is 1 in every row; loss {loss!r} has no minimum"):
        dd.fit(X, y, dd.Objective(head, loss), dd.DecoupledNewton(1.0), progress=False)
    alone = dd.heads.Linear(outputs).double()  # without an intercept there is one
    run = dd.fit(X, y, dd.Objective(alone, loss), dd.DecoupledNewton(1.0), progress=False)
    assert str(run.stop_reason) == "at the minimum"


def test_heads_that_may_have_several_minima():
    X, y = problem("logistic")
    with pytest.raises(ValueError, match=r"head TwoLayer may have several minima; pass the whole"):
        dd.fit(X, y, dd.Objective(dd.heads.TwoLayer(3), "logistic"), dd.DecoupledNewton(1.0))
