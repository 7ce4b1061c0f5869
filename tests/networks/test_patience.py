"""When a path ends: a plateau at the start is not the lowest error."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

import decoupled_descent as dd
from decoupled_descent.networks.patience import Patience
from decoupled_descent.training import StopReason


def deep(d, seed):
    torch.manual_seed(seed)
    layers = (nn.Linear(d, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
    return nn.Sequential(*layers)


def parity(d, seed, n=300):
    draw = torch.Generator().manual_seed(seed)
    X = torch.randn(n, d, generator=draw)
    return X, (X[:, 0] * X[:, 1] > 0).float()


def test_a_plateau_at_chance_level_is_not_the_end():
    """The error rises for some steps before the product of two columns is learned."""
    X, y = parity(8, 1)
    run = dd.fit(X, y, deep(8, 1), loss="logistic")
    assert float(run.train_error[7]) > 0.6  # six steps in a row had not lowered the error
    assert run.error < 0.25
    short = dd.fit(X, y, deep(8, 1), loss="logistic", patience=6)
    assert (len(short.train_error), short.best_step) == (7, 0)
    assert short.estimate("accuracy").verdict != "trust"


def errors(values, fitted):
    for index, error in enumerate(values):
        info = SimpleNamespace(notes={"fitted": fitted})
        yield SimpleNamespace(index=index, train_error=error, info=info)


@pytest.mark.parametrize(
    ("first", "fitted", "wanted"), [(1.0, 0.9, 20), (2.0, 0.9, 6), (1.0, 0.4, 6)]
)
def test_steps_without_a_lower_error(first, fitted, wanted):
    """On a plateau, after learning, and after fitting the own rows."""
    patience = Patience()
    answers = [patience(step) for step in errors([first, *[1.0] * 40], fitted)]
    lowest = 0 if first == 1 else 1
    assert answers.index(StopReason.RISING) == lowest + wanted
    resumed = Patience()
    resumed.load_state_dict(patience.state_dict())
    assert resumed.state_dict() == patience.state_dict()


def by_path(X, y, steps, **options):
    return dd.fit(X, y, deep(4, 0), loss="logistic", steps=steps, **options)


def by_folds(X, y, steps, **options):
    cross = dd.CrossFit(
        deep(4, 0), nn.BCEWithLogitsLoss(), lambda p: torch.optim.AdamW(p, 0.01), folds=5
    )
    return cross.fit(X, y, epochs=steps, **options)


@pytest.mark.parametrize("train", [by_path, by_folds])
def test_what_still_falls_is_said_of_both_kinds_of_runs(train):
    X, y = parity(4, 0)
    run = train(X, y, 14)
    tenth = (run.train_error[-2] - run.train_error[-1]) / run.train_error_stderr[-1]
    assert run.still_falling == pytest.approx(float(tenth))
    assert run.estimate("accuracy").verdict == "caution"
    assert any("still falling" in reason for reason in run.evaluation.reasons)
    assert train(X, y, 5).still_falling == 0  # a trial
    draw = torch.Generator().manual_seed(0)
    ended = train(X, (torch.rand(300, generator=draw) > 0.5).float(), 50, patience=3)
    assert len(ended.train_error) == ended.best_step + 4
    assert ended.still_falling == 0


@pytest.mark.parametrize("train", [by_path, by_folds])
def test_an_interrupted_run_is_not_trusted(train):
    X, y = parity(4, 0)

    def interrupt(step):
        if step.index == 8:
            raise KeyboardInterrupt

    run = train(X, y, 30, callbacks=interrupt)
    assert run.stop_reason is StopReason.INTERRUPTED
    assert len(run.train_error) == 9
    assert run.estimate("accuracy").verdict == "caution"
    assert any("interrupted" in reason for reason in run.evaluation.reasons)


@pytest.mark.parametrize("train", [by_path, by_folds])
def test_the_same_names_for_both_kinds_of_runs(train):
    X, y = parity(4, 0)
    new = parity(4, 1)
    run = train(X, y, 12, test=new)
    assert run.test_error.shape == run.train_error.shape == run.train_error_stderr.shape
    best = run.to_module().eval()
    with torch.no_grad():
        outputs = best(new[0]).squeeze(1)
    error = nn.functional.binary_cross_entropy_with_logits(outputs, new[1])
    assert float(run.test_error[run.best_step]) == pytest.approx(float(error), rel=1e-4)
    torch.testing.assert_close(run.predict(new[0]).squeeze(), outputs)
    assert (run.error, run.stderr) == (run.evaluation.error, run.evaluation.stderr)
    assert float(run.estimate("accuracy")) == run.estimate("accuracy").value
    assert isinstance(run.note, str)
    assert train(X, y, 3).test_error is None
