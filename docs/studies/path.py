"""The path leave-one-out of whole networks: is its error right, and is its model good?

    python docs/studies/path.py run --out results.jsonl [--data FOLDER] [--quick]
    python docs/studies/path.py table results.jsonl
    python docs/studies/path.py literal [--data FOLDER]
    python docs/studies/path.py time

``run`` trains a small network on real tables by DecoupledGaussNewton and by AdamW with a validation
set of 20 % of the rows, with and without a second training on all rows. z is the train error minus
the test error, in standard errors of both. ``literal`` trains without each row in turn, from the
start, on small problems. ``time`` compares the two at 400 rows.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import time
from pathlib import Path

import numpy as np
import tables
import torch
from torch import nn

import decoupled_descent as dd
from decoupled_descent.networks.modules import as_loss

TABLES = (
    *("ionosphere", "saheart", "spam", "dhfr", "tweets", "italypowerdemand", "biomass", "concrete"),
    *("vehicle", "phoneme", "titanic", "crabs", "diabetes", "wine"),
)
QUICK = ("ionosphere", "saheart", "spam", "dhfr", "tweets", "concrete", "vehicle", "titanic")
WIDTHS = {"16": (16,), "32-32": (32, 32), "64-64": (64, 64)}
ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU, "gelu": nn.GELU}


def prepared(data, name, n, split):
    """Standardised rows of a table in float32, and targets as losses take them."""
    n = min(n, len(tables.load(data, name)[1]) // 2)
    X, y, new, labels, task = tables.split(data, name, n, split)
    prepare = tables.prepared(X).fit(X)
    X, new = (torch.tensor(prepare.transform(each), dtype=torch.float32) for each in (X, new))
    new, labels = new[:3000], labels[:3000]
    if task == "regression":
        y, labels = ((each - y.mean()) / y.std() for each in (y, labels))
        return X, torch.tensor(y).float(), new, torch.tensor(labels).float(), "squared", 1
    count = int(y.max()) + 1
    y, labels = torch.tensor(y), torch.tensor(labels)
    if count == 2:
        return X, y.float(), new, labels.float(), "logistic", 1
    return X, y, new, labels, "cross_entropy", count


def network(columns, outputs, widths, activation, seed):
    torch.manual_seed(seed)
    layers, before = [], columns
    for width in widths:
        layers += [nn.Linear(before, width), activation()]
        before = width
    return nn.Sequential(*layers, nn.Linear(before, outputs))


def losses(model, X, y, loss):
    outputs = model(X)
    return as_loss(loss).of(outputs.squeeze(1) if outputs.shape[1] == 1 else outputs, y)


def epochs_of_adamw(model, X, y, loss, seed, epochs, watch=None, patience=30):
    """Train by AdamW; with rows to watch, stop by their error and return to the best epoch."""
    draw = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=1e-2)
    lowest, best, kept = math.inf, 0, None
    for epoch in range(epochs):
        for batch in torch.randperm(len(X), generator=draw).split(32):
            optimiser.zero_grad()
            losses(model, X[batch], y[batch], loss).mean().backward()
            optimiser.step()
        if watch is None:
            continue
        with torch.no_grad():
            error = losses(model, *watch, loss).mean().item()
        if error < lowest:
            lowest, best, kept = error, epoch, copy.deepcopy(model.state_dict())
        if epoch - best >= patience:
            break
    if kept is not None:
        model.load_state_dict(kept)
    return lowest, best + 1


def adamw(start, X, y, loss, seed):
    """The model of 80 % of the rows, that of all rows, the validation error and the CPU time."""
    began = time.process_time()
    order = torch.randperm(len(X), generator=torch.Generator().manual_seed(seed))
    watched, rest = order[: len(X) // 5], order[len(X) // 5 :]
    model = copy.deepcopy(start)
    watch = (X[watched], y[watched])
    error, epochs = epochs_of_adamw(model, X[rest], y[rest], loss, seed, 300, watch)
    taken = time.process_time() - began
    again = copy.deepcopy(start)
    epochs_of_adamw(again, X, y, loss, seed, epochs)
    return model, again, error, taken


def tested(model, X, y, loss):
    """The test error and its standard error."""
    with torch.no_grad():
        found = losses(model, X, y, loss).double()
    return found.mean().item(), found.std().item() / math.sqrt(len(found))


def one(data, name, n, seed, shape, activation, algorithm, steps, patience):
    X, y, new, labels, loss, outputs = prepared(data, name, n, seed)
    start = network(X.shape[1], outputs, WIDTHS[shape], ACTIVATIONS[activation], seed)
    part, whole, validation, adamw_time = adamw(start, X, y, loss, seed)
    began = time.process_time()
    run = dd.fit(
        *(X, y, start, algorithm, steps),
        loss=loss,
        test=(new, labels),
        callbacks=dd.EarlyStopping(patience=patience),
    )
    taken = time.process_time() - began
    best = run.best_step
    test, stderr = tested(run.to_module(best=True), new, labels, loss)
    along = (run.train_error - run.test_error) / torch.hypot(
        run.train_error_stderr, torch.tensor(stderr)
    )
    return {
        "table": name,
        "n": len(X),
        "outputs": outputs,
        "parameters": sum(p.numel() for p in start.parameters()),
        "network": f"{shape} {activation}",
        "algorithm": repr(algorithm),
        "seed": seed,
        "estimate": run.best.train_error,
        "test": test,
        "z": (run.best.train_error - test) / math.hypot(run.best.train_error_stderr, stderr),
        "z_along": math.sqrt(along[: 2 * best + 1].square().mean()),
        "best": best,
        "estimates": run.best.info.estimates,
        "notes": dict(run.best.info.notes),
        "seconds": taken,
        "adamw": tested(part, new, labels, loss)[0],
        "adamw_retrained": tested(whole, new, labels, loss)[0],
        "validation": validation,
        "adamw_seconds": adamw_time,
    }


def table(records):
    kinds = sorted({(r["network"], r["algorithm"]) for r in records})
    print("| network | fits | mean z | rms z | along | ÷ AdamW | ÷ retrained | time ÷ AdamW |")
    print("|---|---|---|---|---|---|---|---|")
    for kind in kinds:
        some = [r for r in records if (r["network"], r["algorithm"]) == kind]
        z, along = (np.array([r[key] for r in some]) for key in ("z", "z_along"))
        ratios = [
            np.exp(np.mean([math.log(r["test"] / r[key]) for r in some]))
            for key in ("adamw", "adamw_retrained")
        ]
        slower = np.median([r["seconds"] / r["adamw_seconds"] for r in some])
        sizes = (math.sqrt((each**2).mean()) for each in (z, along))
        numbers = (f"{each:.3f}" for each in (z.mean(), *sizes, *ratios, slower))
        print(f"| {' '.join(kind)} | {len(some)} | {' | '.join(numbers)} |")


def literal(data):
    """The train error beside that of n literal runs from the start, each without one row."""
    problems = (("ionosphere", 6, 20), ("saheart", 6, 20), ("dhfr", 2, 25), ("concrete", 6, 30))
    for name, width, steps in problems:
        X, y, new, labels, loss, outputs = prepared(data, name, 70, 0)
        X, y, new, labels = X.double(), y.double(), new.double(), labels.double()
        start = network(X.shape[1], outputs, (width,), nn.Tanh, 0).double()
        options = {"damping": 4.0, "stratified": False}
        algorithm = dd.DecoupledGaussNewton(**options)
        run = dd.fit(X, y, start, algorithm, steps, loss=loss, test=(new, labels))
        errors = torch.zeros(len(X), steps)
        for row in range(len(X)):
            keep = torch.arange(len(X)) != row
            alone = dd.DecoupledGaussNewton(**options, followed=2)  # its own estimate is not needed
            own = (X[[row]], y[[row]])
            refit = dd.fit(X[keep], y[keep], start, alone, steps, loss=loss, test=own)
            errors[row] = refit.test_error
        refitted = errors.mean(0)
        best, ratio = run.best_step, run.train_error / refitted
        print(
            f"{name}: best step {best}: {run.train_error[best]:.4f} for {refitted[best]:.4f}, test "
            f"{run.test_error[best]:.4f}; largest error up to there "
            f"{float((ratio[: best + 1] - 1).abs().max()):.2%}; last step: "
            f"{run.train_error[-1]:.4f} for {refitted[-1]:.4f}, test {run.test_error[-1]:.4f}",
            flush=True,
        )


def measure_time():
    """400 rows and about 5,000 parameters, in CPU time."""
    draw = torch.Generator().manual_seed(0)
    X = torch.randn(400, 300, generator=draw)
    teacher = torch.randn(300, 3, generator=draw) / 10
    y = (torch.rand(400, generator=draw) < torch.sigmoid(2 * (X @ teacher).tanh().sum(1))).float()
    start = network(300, 1, (16,), nn.Tanh, 0)
    for _ in range(2):  # the first time is that of loading libraries, too
        *_, plain = adamw(start, X, y, "logistic", 0)
    for refined in (True, False):
        began = time.process_time()
        stopping = dd.EarlyStopping(patience=6)
        algorithm = dd.DecoupledGaussNewton(ridge=1.0, refined=refined)
        run = dd.fit(X, y, start, algorithm, 60, loss="logistic", callbacks=stopping)
        taken, steps = time.process_time() - began, len(run.train_error)
        print(
            f"refined={refined}: {taken:.1f} s, {steps} steps, {taken / steps:.2f} s a step; "
            f"AdamW {plain:.1f} s, ratio {taken / plain:.1f}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("run", "table", "literal", "time"))
    parser.add_argument("results", nargs="*", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--data", default=os.environ.get("DECOUPLED_DATA", ""))
    parser.add_argument("--quick", action="store_true", help="eight tables, two seeds, 16 units")
    parser.add_argument("--tables")
    parser.add_argument("--networks", default="16")
    parser.add_argument("--activations", default="tanh")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--options", default="", help="of the algorithm, such as rate=0.3,starts=4")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.command == "time":
        return measure_time()
    if given.command == "literal":
        return literal(Path(given.data) / "tables")
    if given.command == "table":
        lines = [line for path in given.results for line in path.read_text().splitlines()]
        return table([json.loads(line) for line in lines])
    options = dict(pair.split("=") for pair in given.options.split(",") if pair)
    algorithm = dd.DecoupledGaussNewton(**{k: json.loads(v) for k, v in options.items()})
    names = given.tables.split(",") if given.tables else QUICK if given.quick else TABLES
    data, seeds = Path(given.data) / "tables", 2 if given.quick else given.seeds
    records = []
    for name in names:
        for seed in range(seeds):
            for shape in given.networks.split(","):
                for activation in given.activations.split(","):
                    kind = (shape, activation, algorithm, 80, 6)
                    records.append(one(data, name, given.rows, seed, *kind))
                    if given.out is not None:
                        with given.out.open("a") as file:
                            file.write(json.dumps(records[-1]) + "\n")
                    r = records[-1]
                    print(
                        f"{name:18s} {seed} n {r['n']} P {r['parameters']} K {r['outputs']} best "
                        f"{r['best']:2d} estimate {r['estimate']:.3f} test {r['test']:.3f} z "
                        f"{r['z']:+.2f} along {r['z_along']:.2f} AdamW {r['adamw']:.3f} / "
                        f"{r['adamw_retrained']:.3f}, {r['seconds']:.1f} s for "
                        f"{r['adamw_seconds']:.1f} s",
                        flush=True,
                    )
    return table(records)


if __name__ == "__main__":
    main()
