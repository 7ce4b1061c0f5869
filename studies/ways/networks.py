"""Ways through ``dd.fit`` and ``dd.CrossFit``."""

from __future__ import annotations

import math
import signal

import torch
from torch import nn
from torch.nn.functional import cross_entropy

import decoupled_descent as dd
from studies.ways.common import Now, draw, refused, several, told, way, without_trust

PART = "networks"
LOSS = nn.CrossEntropyLoss()


def adam(parameters):
    return torch.optim.AdamW(parameters, lr=5e-3)


def rows(seed=0, n=150, random=False):
    """Rows whose class depends on the first column, or on nothing."""
    generator = draw(seed)
    X = torch.randn(n, 8, generator=generator)
    noise = torch.randn(n, generator=generator)
    return X, ((0 if random else X[:, 0]) + 0.3 * noise > 0).long()


def perceptron(d=8, outputs=2, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(d, 16), nn.Tanh(), nn.Linear(16, outputs))


def warm(X, y):
    """A module that has seen the rows before."""
    model = perceptron()
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(300):
        optimizer.zero_grad()
        LOSS(model(X), y).backward()
        optimizer.step()
    return model


@way(PART, "a module that was trained on the same rows; path", "accuracy 1 ± 0.007, *trust*")
def warm_start_path():
    X, y = rows(random=True)
    return told(dd.fit(X, y, warm(X, y), loss="cross_entropy").estimate("accuracy"), 0.5)


@way(PART, "the same; folds", "accuracy 1, *trust*")
def warm_start_folds():
    X, y = rows(random=True)
    run = dd.CrossFit(warm(X, y), LOSS, adam).fit(X, y, 5, 16)
    return told(run.estimate("accuracy"), 0.5)


@way(PART, "row numbers of the batch instead of the table", "accuracy 0.99, *trust*")
def batch_numbers():
    X, y = rows(random=True)
    training = dd.CrossFit(perceptron(outputs=1), nn.BCEWithLogitsLoss(), adam).start(y.float())

    def train():
        for _ in range(5):
            for part in torch.randperm(150, generator=draw(0)).split(30):
                training.step(X[part], y[part].float(), torch.arange(len(part)))
        training.evaluate(X, y.float())
        return training.run()

    return refused(train, lambda run: told(run.estimate("accuracy"), 0.5))


@way(PART, "a metric of torchmetrics for two columns", "accuracy 0.5 ± 0, *trust*; true 0.82")
def torchmetrics_columns():
    from torchmetrics.classification import MulticlassAccuracy

    X, y = rows()
    run = dd.fit(X, y, perceptron(), loss="cross_entropy", steps=20)
    new, labels = rows(1, 4000)
    true = float((run.predict(new).argmax(1) == labels).double().mean())
    return told(run.estimate(MulticlassAccuracy(2, average="micro")), true)


def _diagnosed(run, X, y):
    diagnosis = dd.diagnose(X, y, run)
    said = f"*{diagnosis.verdict}*, as the run: *{run.evaluation.verdict}*"
    return Now(said, diagnosis.verdict == run.evaluation.verdict)


@way(PART, "`dd.diagnose` of a module's run; path", "an error about shapes")
def diagnose_path():
    X, y = rows()
    return _diagnosed(dd.fit(X, y, perceptron(), loss="cross_entropy", steps=10), X, y)


@way(PART, "the same; folds", "AttributeError")
def diagnose_folds():
    X, y = rows()
    return _diagnosed(dd.CrossFit(perceptron(), LOSS, adam).fit(X, y, 5, 16), X, y)


@way(PART, "XOR: modes in a class are no fault", "*do not trust* in 4 of 4 draws")
def xor_stein():
    found = []
    for seed in range(4):
        X, y = dd.mixtures.xor(dimension=1000, snr=4.0).sample(1000, seed=seed)
        objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
        descent = dd.DecoupledDescent(lr=0.05, damping=0.9)
        stop = dd.EarlyStopping(tolerance=0.01)
        run = dd.fit(X, y, objective, descent, 1000, callbacks=stop, seed=seed)
        found.append(dd.diagnose(X, y, run).verdict)
    return Now(f"*do not trust* in {found.count('do not trust')} of 4 draws",
               "do not trust" not in found)  # fmt: skip


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.inner = nn.Embedding(12, 6), nn.Linear(24, 8)
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        return self.last(torch.tanh(self.inner(self.tokens(x).flatten(1))))


def has_a_three(n, seed):
    X = torch.randint(0, 12, (n, 4), generator=draw(seed))
    return X, (X == 3).any(1).long()


@way(PART, "no noise: large losses have not occurred yet", "log loss too low by 3 to 6 standard "
     "errors, *trust*")  # fmt: skip
def noise_free():
    z, verdicts = [], []
    for seed in range(6):
        X, y = has_a_three(80, seed)
        torch.manual_seed(seed)
        run = dd.fit(X, y, Tokens(), loss="cross_entropy", steps=40)
        new, labels = has_a_three(2000, 100 + seed)
        losses = cross_entropy(run.predict(new), labels, reduction="none").double()
        noise = float(losses.std()) / 2000**0.5
        z.append((run.error - float(losses.mean())) / math.hypot(run.stderr, noise))
        verdicts.append(run.evaluation.verdict)
    return several(z, verdicts)


@way(PART, "rows with the label −100", "counted as loss 0 and as wrong")
def ignored_labels():
    X, y = rows()
    y[:40] = -100
    return refused(lambda: dd.fit(X, y, perceptron(), loss=LOSS, steps=5), without_trust)


@way(PART, "one class only", "accuracy 1 ± 0.011, *trust*")
def one_class():
    X, y = rows()
    return refused(
        lambda: dd.CrossFit(perceptron(), LOSS, adam).fit(X, torch.zeros_like(y), 5, 16),
        without_trust,
    )


@way(PART, "a training that diverged", "the start, *trust*")
def diverged():
    X, y = rows()
    cross = dd.CrossFit(perceptron(), LOSS, lambda p: torch.optim.SGD(p, 1e30))
    return refused(lambda: cross.fit(X, y, 5, 16), without_trust)


@way(PART, "an interrupted training", "*trust*, without a mark")
def interrupted():
    def stop(step):
        if step.index == 3:
            signal.raise_signal(signal.SIGINT)

    X, y = rows()
    options = {"loss": "cross_entropy", "steps": 40, "callbacks": stop}
    return refused(lambda: dd.fit(X, y, perceptron(), **options), without_trust)


@way(PART, "several rows of each speaker; folds", "*trust*")
def speakers():
    generator = draw(0)
    voices = torch.randn(80, 8, generator=generator).repeat_interleave(3, 0)
    y = torch.randint(0, 2, (80,), generator=generator).repeat_interleave(3)
    X = voices + 0.2 * torch.randn(240, 8, generator=generator)
    order = torch.randperm(240, generator=generator)
    run = dd.CrossFit(perceptron(), LOSS, adam).fit(X[order], y[order], 50, 16)
    return told(run.estimate("accuracy"), 0.5)


def parity(seed, n=300, d=8):
    X = torch.randn(n, d, generator=draw(seed))
    return X, (X[:, 0] * X[:, 1] > 0).float()


def deep(d, seed):
    torch.manual_seed(seed)
    layers = (nn.Linear(d, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
    return nn.Sequential(*layers)


@way(PART, "a plateau before the error falls", "0.661, *trust*, where 60 steps reach 0.152")
def plateau():
    X, y = parity(1)
    run = dd.fit(X, y, deep(8, 1), loss="logistic")
    low = run.error < 0.25
    return Now(f"log loss {run.error:.3g}, *{run.evaluation.verdict}*", low)


@way(PART, "the steps ran out while the error fell", "said of both kinds of runs alike")
def ran_out():
    X, y = parity(0, d=4)
    run = dd.fit(X, y, deep(4, 0), loss="logistic", steps=14)
    said = any("still falling" in reason for reason in run.evaluation.reasons)
    return Now(f"*{run.evaluation.verdict}*, still falling: {'said' if said else 'not said'}",
               said)  # fmt: skip


@way(PART, "rows in another order than the labels", "–")
def shuffled_labels():
    X, y = rows()
    run = dd.fit(X, y[torch.randperm(150, generator=draw(1))], perceptron(), loss="cross_entropy")
    return told(run.estimate("accuracy"), 0.5)


@way(PART, "every row twice; path", "–")
def copies():
    X, y = rows(random=True, n=80)
    X, y = X.repeat(2, 1), y.repeat(2)
    run = dd.fit(X, y, perceptron(), loss="cross_entropy", steps=30)
    return told(run.estimate("accuracy"), 0.5)
