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


@pytest.mark.parametrize("layer", [nn.Identity, nn.Dropout], ids=["path", "folds"])
def test_a_layer_of_dropout_changes_the_method_and_nothing_else(layer):
    (X, y), new, seen = parity(4, 0), parity(4, 1), []
    model = deep(4, 0)
    model.insert(4, layer())
    given = {"loss": nn.BCEWithLogitsLoss(), "weights": torch.linspace(1, 2, 300)}
    given |= {"groups": torch.arange(300) // 2, "callbacks": lambda step: seen.append(str(step))}
    run = dd.fit(X, y, model, test=new, steps=12, seed=1, patience=20, **given)
    assert (run.evaluation.how == "path") == (layer is nn.Identity)
    curves = (run.train_error, run.train_error_stderr, run.test_error)
    assert {each.shape for each in curves} == {(len(seen),)}
    assert run.train_error[run.best_step] == run.train_error.min()
    assert run.outputs.shape == run.losses.shape == (300,)
    assert len(run.evaluation.losses) == len(run.labels if layer is nn.Dropout else run.labels.y)
    best = run.to_module()
    assert not best.training
    with torch.no_grad():
        outputs = best(new[0]).squeeze(1)
    torch.testing.assert_close(run.predict(new[0]), outputs)
    error = nn.functional.binary_cross_entropy_with_logits(outputs, new[1])
    assert float(run.test_error[run.best_step]) == pytest.approx(float(error), rel=1e-4)
    assert (run.error, run.stderr) == (run.evaluation.error, run.evaluation.stderr)
    assert float(run.estimate("accuracy")) == run.estimate("accuracy").value
    assert run.load_into(model) is model
    assert run.note.startswith("Chosen: ")
    assert run.note.count(" s") >= (2 if layer is nn.Identity else 0)
    assert (run.diverged, run.stop_reason) == (False, StopReason.STEPS)
    assert run.still_falling >= 0
    assert run.plot().axes[0].get_ylabel()
    assert dd.fit(X, y, model, loss="logistic", steps=2).test_error is None
