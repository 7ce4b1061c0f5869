"""Stacked folds against AdamW with a 20 % validation split, on ten real tables.

    python studies/cross_fit.py [--quick] [--sizes] [--seeds 3] [--folds 10] [--data FOLDER]

Both train 16 tanh units by AdamW with a cosine schedule and stop at the best epoch. ``split``
chooses the epoch on a fifth of the rows, whose error is its estimate, and trains again with all
rows up to that epoch. ``folds`` is ``dd.CrossFit``. ``lowest`` is the same run with the lowest
error of its curve as the estimate, ``corrected`` with the expected bias of folds of fewer rows
subtracted. z is (estimate − test error) over the standard error of the difference. Times are CPU
seconds on one thread. ``--quick`` takes five tables and one seed. ``--sizes`` compares 2 folds with
20 on four tables: the difference of their errors is the effect of fewer rows, which
``run.sample_size_bias`` predicts.
"""

from __future__ import annotations

import argparse
import copy
import math
import os
import time

import numpy as np
import tables
import torch
from torch import nn

import decoupled_descent as dd

SETTINGS = (
    *(
        ("diabetes", 221),
        ("ionosphere", 170),
        ("saheart", 200),
        ("vehicle", 400),
        ("concrete", 200),
    ),
    *(
        ("phoneme", 400),
        ("titanic", 400),
        ("breast_cancer", 280),
        ("biomass", 200),
        ("digits", 400),
    ),
)
SIZES = (("diabetes", 221), ("vehicle", 400), ("phoneme", 400), ("breast_cancer", 280))
EPOCHS, BATCH, RATE, WIDTH = 60, 32, 0.01, 16


def prepared(data, name, n, seed):
    """Standardised rows and labels for training and for the test, and the criterion."""
    X, y, new, labels, task = tables.split(data, name, n, seed)
    prepare = tables.prepared(X).fit(X)
    X, new = (torch.tensor(np.asarray(prepare.transform(part))).float() for part in (X, new))
    if task == "regression":
        level, scale = y.mean(), y.std()
        y, labels = (torch.tensor((part - level) / scale).float() for part in (y, labels))
        return X, y, new, labels, nn.MSELoss(), 1
    return X, torch.tensor(y), new, torch.tensor(labels), nn.CrossEntropyLoss(), int(y.max()) + 1


def network(d, outputs, seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(d, WIDTH), nn.Tanh(), nn.Linear(WIDTH, outputs))


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=RATE)


def cosine(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)


def losses(model, X, y, criterion):
    """Losses row by row."""
    rows = copy.copy(criterion)
    rows.reduction = "none"
    with torch.no_grad():
        outputs = model(X)
    return rows(outputs.squeeze(1) if outputs.shape[1] == 1 else outputs, y)


def train(model, X, y, criterion, epochs, check=None):
    """An ordinary loop; returns losses of the rows to check after every epoch."""
    model, found = copy.deepcopy(model), []
    optimizer = adamw(model.parameters())
    schedule = cosine(optimizer)
    for _ in range(epochs):
        for batch in torch.split(torch.randperm(len(X)), BATCH):
            optimizer.zero_grad()
            outputs = model(X[batch])
            outputs = outputs.squeeze(1) if outputs.shape[1] == 1 else outputs
            criterion(outputs, y[batch]).backward()
            optimizer.step()
        schedule.step()
        if check is not None:
            found.append(losses(model, *check, criterion))
    return model, found


def split(model, X, y, criterion, seed):
    """A fifth of the rows chooses the epoch; then all rows are used."""
    torch.manual_seed(seed)
    order = torch.randperm(len(X))
    held, rest = order[: len(X) // 5], order[len(X) // 5 :]
    _, found = train(model, X[rest], y[rest], criterion, EPOCHS, (X[held], y[held]))
    best = min(range(EPOCHS), key=lambda epoch: float(found[epoch].mean()))
    final, _ = train(model, X, y, criterion, best + 1)
    row = found[best]
    return final, {"split": (float(row.mean()), float(row.std() / len(row) ** 0.5))}


def folds(model, X, y, criterion, seed, count):
    """``dd.CrossFit``, with three ways to read its estimate."""
    cross = dd.CrossFit(model, criterion, adamw, folds=count)
    run = cross.fit(X, y, EPOCHS, BATCH, scheduler=cosine, seed=seed)
    lowest = float(run.out_of_fold_error.min())
    found = {"folds": run.error, "lowest": lowest, "corrected": run.error - run.sample_size_bias}
    return run.to_module(), {name: (value, run.stderr) for name, value in found.items()}


def measure(data, name, n, seed, count):
    """One table and seed: estimates, test errors and times of both methods."""
    X, y, new, labels, criterion, outputs = prepared(data, name, n, seed)
    model, found = network(X.shape[1], outputs, seed), {}
    for method in (split, folds):
        more = () if method is split else (count,)
        start = time.process_time()
        final, estimates = method(model, X, y, criterion, seed, *more)
        seconds = time.process_time() - start
        row = losses(final, new, labels, criterion)
        test, spread = float(row.mean()), float(row.std() / len(row) ** 0.5)
        for key, (value, stderr) in estimates.items():
            z = (value - test) / math.hypot(stderr, spread)
            found[key] = {"estimate": value, "test": test, "z": z, "seconds": seconds}
    return found


def table(results):
    """The summary, as a table in Markdown."""
    print("\n| | within 2 | rms z | mean z | median error of the estimate | test ÷ split | CPU |")
    print("|---|---|---|---|---|---|---|")
    for key in results[0]:
        z = np.array([each[key]["z"] for each in results])
        off = [abs(each[key]["estimate"] / each[key]["test"] - 1) for each in results]
        ratio = [math.log(each[key]["test"] / each["split"]["test"]) for each in results]
        cost = [math.log(each[key]["seconds"] / each["split"]["seconds"]) for each in results]
        print(
            f"| {key} | {(abs(z) < 2).sum()} of {len(z)} | {np.sqrt((z**2).mean()):.2f} | "
            f"{z.mean():+.2f} | {100 * np.median(off):.1f} % | {math.exp(np.mean(ratio)):.3f} | "
            f"{math.exp(np.mean(cost)):.2f} |"
        )


def sizes(data, seeds):
    """Errors of 2 and of 20 folds, relative to the latter, beside the expected difference."""
    differences = []
    for name, n in SIZES:
        for seed in range(seeds):
            X, y, _, _, criterion, outputs = prepared(data, name, n, seed)
            model, errors, expected = network(X.shape[1], outputs, seed), [], []
            for count in (2, 20):
                cross = dd.CrossFit(model, criterion, adamw, folds=count)
                run = cross.fit(X, y, EPOCHS, BATCH, scheduler=cosine, seed=seed)
                errors.append(float(run.out_of_fold_error.min()))
                expected.append(run.sample_size_bias)
            pair = (errors[0] - errors[1]) / errors[1], (expected[0] - expected[1]) / errors[1]
            differences.append(pair)
            print(f"{name} {n} {seed}: measured {pair[0]:.3f}, expected {pair[1]:.3f}", flush=True)
    measured, expected = np.array(differences).T
    spread = measured.std(ddof=1) / len(measured) ** 0.5
    print(f"measured {measured.mean():.3f} ± {spread:.3f}, expected {expected.mean():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sizes", action="store_true")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--data", default=f"{os.environ.get('DECOUPLED_DATA', '.')}/tables")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.sizes:
        sizes(options.data, 1 if options.quick else options.seeds)
        raise SystemExit
    results = []
    for name, n in SETTINGS[:5] if options.quick else SETTINGS:
        for seed in range(1 if options.quick else options.seeds):
            results.append(measure(options.data, name, n, seed, options.folds))
            cells = "  ".join(
                f"{key} {each['estimate']:.3f} for {each['test']:.3f}, z {each['z']:+.2f}"
                for key, each in results[-1].items()
            )
            print(f"{name} {n} {seed}: {cells}", flush=True)
    table(results)
