"""What a run has."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from sklearn import metrics
from torch import nn

from decoupled_descent.networks.folds.cross_fit import CrossFit
from tests.networks.problems import perceptron, rows


@pytest.fixture(scope="module")
def run():
    X, y = rows()
    cross = CrossFit(
        perceptron(), nn.CrossEntropyLoss(), lambda p: torch.optim.AdamW(p, lr=0.05), 5
    )
    return cross.fit(X, y, 20)


def test_curves(run):
    assert run.train_error.shape == run.fitted_error.shape == run.train_error_stderr.shape == (21,)
    assert run.train_error[run.best_step] == run.train_error.min()
    assert run.selection_bias == run.error - float(run.train_error.min())
    assert repr(run).startswith("CrossFitRun(5 folds, 21 evaluations, out-of-fold error 0.")


def test_the_note_says_how_much_too_high(run):
    best = run.best_step
    gap = float(run.train_error[best] - run.fitted_error[best])
    assert run.sample_size_bias == pytest.approx(gap / 9)
    assert "The copies see 80 % of the rows." in run.note
    assert f"{run.sample_size_bias:.2g} higher" in run.note
    assert run.evaluation.pairs == run.sample_size_bias**2 > 0
    alone = replace(run.evaluation, pairs=0.0).stderr
    assert run.stderr == pytest.approx((alone**2 + run.sample_size_bias**2) ** 0.5)


def test_metrics_are_those_of_the_outputs(run):
    _, y = rows()
    said = run.outputs.argmax(1)
    assert run.estimate("accuracy").value == pytest.approx(metrics.accuracy_score(y, said))
    kappa = run.estimate(metrics.cohen_kappa_score)
    assert kappa.value == pytest.approx(metrics.cohen_kappa_score(y, said))
    assert run.estimate("log_loss").value == pytest.approx(run.error)
    assert run.estimate("log_loss").stderr == pytest.approx(run.stderr)


def test_modules(run):
    X, _ = rows()
    model, mean = run.to_module(), run.to_module(mean=True)
    torch.testing.assert_close(run.predict(X, batch_size=7), model(X).detach())
    members = torch.stack([member(X) for member in mean.members])
    assert len(members) == 6
    torch.testing.assert_close(mean(X), members.mean(0))
    torch.testing.assert_close(members[-1], model(X))
    assert not model.training
    with torch.no_grad():
        model[0].weight.zero_()
    assert run.to_module()[0].weight.abs().sum() > 0


def test_the_best_epoch_is_the_one_that_is_there(run):
    X, _ = rows()
    torch.testing.assert_close(run.to_module(best=True)(X), run.to_module()(X))
    torch.testing.assert_close(run.predict(X, best=True), run.predict(X))


def test_the_last_epoch_is_there_if_it_was_asked_for():
    X, y = rows()
    make = lambda p: torch.optim.AdamW(p, lr=0.5)  # noqa: E731
    cross = CrossFit(perceptron(), nn.CrossEntropyLoss(), make, 3)
    last = cross.fit(X, y, epochs=3, best=False)
    assert last.to_module(best=False)(X).shape == (60, 3)
    chosen = cross.fit(X, y, epochs=12)
    assert chosen.best_step < 12
    with pytest.raises(ValueError, match="best=False asks for the last epoch"):
        chosen.predict(X, best=False)


class Tagger(nn.Module):
    """Classes of tokens, (n, classes, tokens)."""

    def __init__(self):
        super().__init__()
        self.embed, self.last = nn.Embedding(7, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.last(self.embed(x)).mT


def test_labels_of_tokens_are_evaluated_token_by_token():
    draw = torch.Generator().manual_seed(0)
    words = torch.randint(0, 7, (60, 5), generator=draw)
    y = torch.where(torch.rand(60, 5, generator=draw) < 0.8, words % 3, 0)
    torch.manual_seed(0)
    cross = CrossFit(Tagger(), nn.CrossEntropyLoss(), lambda p: torch.optim.AdamW(p, lr=0.05), 5)
    run = cross.fit(words, y, 5)
    outputs = run.outputs
    own = nn.functional.cross_entropy(outputs, y, reduction="none").double().mean(1)
    assert run.error == pytest.approx(float(own.mean()), rel=1e-6)
    # tokens of a row depend on each other: the standard error is that of means of rows
    assert run.stderr == pytest.approx(float(own.std()) / 60**0.5, rel=0.02)
    right = (outputs.argmax(1) == y).double().mean()
    assert run.estimate("accuracy").value == pytest.approx(float(right))
