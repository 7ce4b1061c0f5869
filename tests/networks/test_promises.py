"""What users are told must be right where they make mistakes, for both kinds of runs."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import decoupled_descent as dd


def adam(parameters):
    return torch.optim.AdamW(parameters, lr=5e-3)


def labelled(n=150, d=8, seed=0):
    draw = torch.Generator().manual_seed(seed)
    X = torch.randn(n, d, generator=draw)
    return X, (X[:, 0] + 0.3 * torch.randn(n, generator=draw) > 0).long()


def perceptron(d=8, outputs=2, width=8, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(d, width), nn.Tanh(), nn.Linear(width, outputs))


def by_path(X, y, model=None, loss=None, steps=12, **options):
    loss = nn.CrossEntropyLoss() if loss is None else loss
    model = perceptron() if model is None else model
    return dd.fit(X, y, model, dd.DecoupledGaussNewton(), steps, loss=loss, **options)


def by_folds(X, y, model=None, loss=None, steps=12, folds=10, **options):
    loss = nn.CrossEntropyLoss() if loss is None else loss
    model = perceptron() if model is None else model
    return dd.CrossFit(model, loss, adam, folds).fit(X, y, steps, 16, **options)


BOTH = pytest.mark.parametrize("train", [by_path, by_folds])


# Row numbers


@pytest.mark.parametrize("outputs", [1, 2])
def test_the_row_numbers_of_a_batch_are_noticed(outputs):
    draw = torch.Generator().manual_seed(0)
    X, y = torch.randn(150, 8, generator=draw), torch.rand(150, generator=draw) > 0.5
    y = y.float() if outputs == 1 else nn.functional.one_hot(y.long()).float()
    criterion = nn.BCEWithLogitsLoss() if outputs == 1 else nn.CrossEntropyLoss()
    training = dd.CrossFit(perceptron(outputs=outputs), criterion, adam).start(y)
    batch = torch.arange(40, 70)
    with pytest.raises(ValueError, match=r"rows are not the rows of these labels.*transformed"):
        training.step(X[batch], y[batch], torch.arange(len(batch)))
    training.step(X[batch], y[batch].double(), batch)  # another dtype is the same label


def test_labels_that_are_mixed_on_purpose_are_declared():
    X, y = labelled()
    y = nn.functional.one_hot(y).float()
    mixed = 0.7 * y + 0.3 * y.flip(0)
    cross = dd.CrossFit(perceptron(), nn.CrossEntropyLoss(), adam)
    rows = torch.arange(30)
    with pytest.raises(ValueError, match="rows are not the rows"):
        cross.start(y).step(X[rows], mixed[rows], rows)
    training = cross.start(y, transformed=True)
    training.step(X[rows], mixed[rows], rows)
    training.evaluate(X, y)
    assert training.run().out_of_fold_error.shape == (1,)


# Metrics and checks of every run


@BOTH
@pytest.mark.parametrize("outputs", [1, 2])
def test_metrics_of_torchmetrics_take_two_classes_from_one_or_two_outputs(train, outputs):
    classification = pytest.importorskip("torchmetrics.classification")
    X, y = labelled()
    if outputs == 1:
        model, loss = perceptron(outputs=1), nn.BCEWithLogitsLoss()
        run = train(X, y.float(), model, loss)
    else:
        run = train(X, y)
    accuracy = run.estimate(classification.MulticlassAccuracy(2, average="micro"))
    assert accuracy.value == pytest.approx(run.estimate("accuracy").value)
    assert accuracy.value > 0.7
    area = run.estimate(classification.BinaryAUROC())
    several = run.estimate(classification.MulticlassAUROC(2))
    assert several.value == pytest.approx(area.value)
    if train is by_path:  # rows of different folds are compared by different models
        assert area.value == pytest.approx(run.estimate("auc").value)


@BOTH
def test_every_run_is_diagnosed(train):
    X, y = labelled()
    run = train(X, y)
    diagnosis = dd.diagnose(X, y, run)
    assert diagnosis.verdict == run.evaluation.verdict == run.estimate("accuracy").verdict
    assert {"few rows", "known labels", "not converged"} <= {one.name for one in diagnosis.findings}
    images = X.reshape(-1, 1, 2, 4)
    run = train(images, y, nn.Sequential(nn.Flatten(), *perceptron()))
    assert dd.diagnose(images, y, run).verdict == run.evaluation.verdict


# Large losses that have not occurred


class Tokens(nn.Module):
    """An embedding, and a perceptron or a layer of attention."""

    def __init__(self, attention):
        super().__init__()
        self.tokens = nn.Embedding(12, 6)
        self.attention = nn.TransformerEncoderLayer(6, 2, 12, dropout=0.0, batch_first=True)
        self.perceptron, self.uses = nn.Linear(24, 8), attention
        self.last = nn.Linear(6 if attention else 8, 2)
        if not attention:
            self.attention.requires_grad_(False)

    def forward(self, x):
        hidden = self.tokens(x)
        if self.uses:
            return self.last(self.attention(hidden).mean(1))
        return self.last(torch.tanh(self.perceptron(hidden.flatten(1))))


def has_a_three(n, seed):
    X = torch.randint(0, 12, (n, 4), generator=torch.Generator().manual_seed(seed))
    return X, (X == 3).any(1).long()


@pytest.mark.slow
@pytest.mark.parametrize("attention", [False, True])
def test_the_log_loss_of_a_problem_without_noise_is_within_its_standard_error(attention):
    """Six draws of 80 rows; the root mean square of z is at most 1.15 for right intervals."""
    z = []
    for seed in range(6):
        X, y = has_a_three(80, seed)
        torch.manual_seed(seed)
        model = Tokens(attention)
        if not attention:
            model.attention = nn.Identity()
        run = dd.fit(X, y, model, loss="cross_entropy", steps=40)
        new, labels = has_a_three(2000, 100 + seed)
        losses = cross_entropy(run.predict(new), labels, reduction="none").double()
        noise = float(losses.std()) / 2000**0.5
        z.append((run.error - float(losses.mean())) / math.hypot(run.stderr, noise))
    assert (sum(value**2 for value in z) / len(z)) ** 0.5 < 1.15
    assert max(map(abs, z)) < 2


# Labels


@BOTH
def test_labels_that_the_criterion_ignores_are_refused(train):
    X, y = labelled()
    y[:40] = -100
    with pytest.raises(ValueError, match=r"y has the label -100 in 40 rows, which .* ignores"):
        train(X, y)
    with pytest.raises(ValueError, match="y has the label 7 in 3 rows"):
        train(X, torch.where(torch.arange(150) < 3, 7, y.clamp_min(0)),
              loss=nn.CrossEntropyLoss(ignore_index=7))  # fmt: skip


@BOTH
def test_one_class_is_not_trusted(train):
    X, y = labelled()
    accuracy = train(X, torch.zeros_like(y)).estimate("accuracy")
    assert accuracy.value > 0.9
    assert accuracy.verdict == "do not trust"
    assert any("same label" in reason for reason in accuracy.reasons)


# Rows that belong together


def speakers(each, seed, count=240):
    """Rows of speakers whose class depends on nothing but the speaker."""
    draw = torch.Generator().manual_seed(seed)
    voices = torch.randn(count // each, 12, generator=draw)
    y = torch.randint(0, 2, (count // each,), generator=draw).repeat_interleave(each)
    X = voices.repeat_interleave(each, 0) + 0.2 * torch.randn(count, 12, generator=draw)
    order = torch.randperm(count, generator=draw)
    return X[order], y[order], torch.arange(count // each).repeat_interleave(each)[order]


@BOTH
@pytest.mark.parametrize("each", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_several_rows_of_each_speaker_are_noticed(train, each):
    for seed in range(2):
        X, y, who = speakers(each, seed)
        options = {"model": perceptron(12, width=16), "steps": 30 if train is by_path else 50}
        run = train(X, y, **options)
        assert run.estimate("accuracy").verdict == "do not trust"
        assert any("groups=" in one for one in run.evaluation.reasons)
        together = train(X, y, groups=who, **options)
        assert not any("groups=" in one for one in together.evaluation.reasons)


@pytest.mark.slow
def test_independent_rows_do_not_seem_to_belong_together():
    for seed in range(4):
        for noise in (0.3, 2.0):
            X, _ = labelled(200, seed=seed)
            draw = torch.Generator().manual_seed(seed)
            y = (X[:, 0] * X[:, 1] + noise * torch.randn(200, generator=draw) > 0).long()
            run = by_folds(X, y, perceptron(width=16, seed=seed), steps=40)
            assert not any("belong together" in one for one in run.evaluation.reasons)
