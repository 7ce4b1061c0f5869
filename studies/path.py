"""The path leave-one-out of whole networks: is its error right, and is its model good?

    python studies/path.py run --out studies/path.jsonl [--data FOLDER] [--only 16]
    python studies/path.py table studies/path.jsonl
    python studies/path.py verdicts studies/path.jsonl
    python studies/path.py literal [--data FOLDER]
    python studies/path.py time [--data FOLDER]

``run`` trains networks on real data by DecoupledGaussNewton and by AdamW with a validation set of
20 % of the rows, with and without a second training on all rows. It continues where the file ends.
z is the train error minus the test error, in standard errors of both. Some runs are wrong on
purpose: rows that are there twice, patients without groups, few rows. ``verdicts`` counts the
verdicts of right and wrong estimates. ``literal`` trains without each row in turn, from the start,
on small problems. ``time`` compares the path with AdamW, and prints time and memory of a step.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from network_problems import (
    DEVELOPED,
    IMAGES,
    OTHERS,
    PAIRS,
    adamw,
    network,
    perceptron,
    prepared,
    row_count,
    tested,
)
from torch import nn

import decoupled_descent as dd

SEEDS, STEPS, PATIENCE = 3, 80, 6
WRONG = ("twice", "quarter twice", "patients", "12 rows", "25 rows")
SPOILT = ("saheart", "ionosphere", "titanic", "concrete", "vehicle", "spam", "phoneme", "diabetes",
          "breast_cancer", "credit")  # fmt: skip


def settings():
    """Problem, network, seed and what is wrong on purpose, the cheapest first."""
    sets = (*DEVELOPED, *OTHERS)
    found = [(name, "16 tanh", seed, "") for name in sets for seed in range(SEEDS)]
    found += [(name, "16 tanh", 0, wrong) for name in SPOILT for wrong in WRONG]
    kinds = ("tanh", "relu", "gelu")
    for seed in range(SEEDS):
        found += [(name, f"32-32 {kinds[(k + seed) % 3]}", seed, "") for k, name in enumerate(sets)]
        found += [(name, kind, seed, "") for name in PAIRS for kind in ("last block", "adapters")]
        found += [(name, f"cnn {kind}", seed, "") for name in IMAGES for kind in ("tanh", "relu")]
        found.append((IMAGES[0], "transformer", seed, ""))
        found += [(name, f"64-64 {kinds[(k + seed) % 3]}", seed, "") for k, name in enumerate(sets)]
    return found


def spoilt(X, y, wrong, seed):
    """Rows with something wrong, which the algorithm is not told."""
    draw, n = torch.Generator().manual_seed(seed), len(X)
    if wrong.endswith("rows"):
        return X[: int(wrong.split()[0])], y[: int(wrong.split()[0])]
    if wrong == "twice":
        rows = torch.arange(n // 2).repeat(2)
    elif wrong == "quarter twice":
        rows = torch.cat([torch.arange(n), torch.arange(n // 4)])
    elif wrong == "patients":  # four rows of each, which differ by noise
        rows = torch.arange(n // 4).repeat_interleave(4)
        return X[rows] + 0.3 * torch.randn(len(rows), *X.shape[1:], generator=draw), y[rows]
    else:
        rows = torch.arange(n)
    return X[rows], y[rows]


def one(data, name, kind, seed, wrong):
    X, y, new, labels, loss, outputs = prepared(data, name, row_count(data, name, kind), seed)
    X, y = spoilt(X, y, wrong, seed)
    start = network(data, kind, X, outputs, seed)
    part, whole, validation, seconds = adamw(start, X, y, loss, seed)
    began, stopping = time.process_time(), dd.EarlyStopping(patience=PATIENCE)
    algorithm = dd.DecoupledGaussNewton()
    run = dd.fit(X, y, start, algorithm, STEPS, loss=loss, test=(new, labels), callbacks=stopping)
    taken = time.process_time() - began
    best, info = run.best_step, run.best.info
    test, stderr = tested(run.to_module(), new, labels, loss)
    spread = torch.hypot(run.train_error_stderr, torch.tensor(stderr))
    along = ((run.train_error - run.test_error) / spread)[: 2 * best + 1]
    deviations = (info.losses - info.losses.mean()).double().square()
    return {
        "table": name,
        "network": kind,
        "seed": seed,
        "wrong": wrong,
        "n": len(X),
        "outputs": outputs,
        "parameters": sum(p.numel() for p in start.parameters() if p.requires_grad),
        "estimate": run.best.train_error,
        "stderr": run.best.train_error_stderr,
        "alone": float(info.losses.std()) / len(info.losses) ** 0.5,
        "behind": float(deviations.sum() ** 2 / deviations.square().sum()),
        "test": test,
        "test_stderr": stderr,
        "z": (run.best.train_error - test) / float(spread[best]),
        "z_along": math.sqrt(along.square().mean()),
        "best": best,
        "steps": len(run.train_error),
        "estimates": info.estimates,
        "verdict": run.evaluation.verdict,
        "notes": dict(info.notes),
        "seconds": taken,
        "adamw": tested(part, new, labels, loss)[0],
        "adamw_retrained": tested(whole, new, labels, loss)[0],
        "validation": validation,
        "adamw_seconds": seconds[0],
        "adamw_retrained_seconds": seconds[1],
    }


def rms(values):
    return math.sqrt(np.mean(np.square(values)))


def line(name, some):
    z = [r["z"] for r in some]
    plain = [(r["estimate"] - r["test"]) / math.hypot(r["alone"], r["test_stderr"]) for r in some]
    along = [r["z_along"] for r in some]
    ratios = [
        math.exp(np.mean([math.log(r["test"] / r[key]) for r in some]))
        for key in ("adamw", "adamw_retrained")
    ]
    slower = math.exp(np.mean([math.log(r["seconds"] / r["adamw_seconds"]) for r in some]))
    inside = f"{sum(abs(each) < 2 for each in z)} of {len(z)}"
    numbers = (np.mean(z), rms(z), rms(plain), rms(along), *ratios)
    cells = [name, inside, *(f"{each:.2f}" for each in numbers), f"{slower:.0f}"]
    print(f"| {' | '.join(cells)} |")


def table(records):
    good = [r for r in records if not r["wrong"]]
    print("| network | within 2 | mean z | rms z | without pairs | along | ÷ AdamW | ÷ retrained |"
          " time |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|")
    for name, sets in (("16 tanh, developed on", DEVELOPED), ("16 tanh, others", OTHERS)):
        some = [r for r in good if r["network"] == "16 tanh" and r["table"] in sets]
        if some:
            line(f"{name}: {len({r['table'] for r in some})} sets", some)
    for prefix in ("32-32", "64-64", "cnn", "transformer", "last block", "adapters"):
        some = [r for r in good if r["network"].startswith(prefix)]
        if some:
            line(prefix, some)
    for kind in ("tanh", "relu", "gelu"):
        some = [r for r in good if r["network"].endswith(kind) and r["network"] != "16 tanh"]
        if some:
            line(f"{kind}, all but the first two lines", some)
    line("all but those developed on", [r for r in good if r["table"] not in DEVELOPED])
    line("all", good)


def verdicts(records):
    """How often each verdict is given to estimates that are right, and to those that are not."""
    print("| estimate | runs | trust | caution | do not trust |")
    print("|---|---|---|---|---|")
    kinds = {
        "nothing wrong, within 2 standard errors": lambda r: not r["wrong"] and abs(r["z"]) < 2,
        "nothing wrong, others": lambda r: not r["wrong"] and abs(r["z"]) >= 2,
    }
    for wrong in WRONG:
        kinds |= {
            f"{wrong}, too low by 2 and more": lambda r, w=wrong: r["wrong"] == w and r["z"] <= -2,
            f"{wrong}, others": lambda r, w=wrong: r["wrong"] == w and r["z"] > -2,
        }
    for name, chosen in kinds.items():
        some = [r["verdict"] for r in records if chosen(r) and "verdict" in r]
        counts = [some.count(each) for each in ("trust", "caution", "do not trust")]
        if some:
            print(f"| {name} | {len(some)} | {' | '.join(map(str, counts))} |")


def literal(data):
    """The train error beside that of n literal runs from the start, each without one row."""
    problems = (("ionosphere", 6, 20), ("saheart", 6, 20), ("dhfr", 2, 25), ("concrete", 6, 30),
                ("biomass", 4, 20))  # fmt: skip
    for name, width, steps in problems:
        X, y, new, labels, loss, outputs = prepared(data, name, 70, 0)
        X, y, new, labels = X.double(), y.double(), new.double(), labels.double()
        start = perceptron(X.shape[1], outputs, (width,), nn.Tanh, 0).double()
        options = {"damping": 4.0, "stratified": False}
        algorithm = dd.DecoupledGaussNewton(**options, followed=len(X))
        run = dd.fit(X, y, start, algorithm, steps, loss=loss, test=(new, labels))
        errors = torch.zeros(len(X), steps)
        for row in range(len(X)):
            keep = torch.arange(len(X)) != row
            alone = dd.DecoupledGaussNewton(**options, followed=2)  # its own estimate is not needed
            own = (X[[row]], y[[row]])
            with warnings.catch_warnings(action="ignore"):
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


def measure_time(data):
    """400 rows and about 5,000 parameters, in CPU time; then a step at several sizes."""
    print("| data | parameters | steps | seconds | AdamW | ratio | ratio to AdamW, retrained |")
    print("|---|---|---|---|---|---|---|")
    for name, width in (("tweets", 11), ("cifar", 10), ("dna", 27), ("mnist 4 9", 6), ("spam", 82)):
        X, y, *_, loss, outputs = prepared(data, name, 400, 0)
        X = X.flatten(1)
        if outputs > 1:  # one output: the first class against the others
            y, loss, outputs = (y == 0).float(), "logistic", 1
        start = perceptron(X.shape[1], outputs, (width,), nn.Tanh, 0)
        for _ in range(2):  # the first time is that of loading libraries, too
            *_, seconds = adamw(start, X, y, loss, 0)
        times = []
        for _ in range(2):
            began = time.process_time()
            stopping = dd.EarlyStopping(patience=PATIENCE)
            run = dd.fit(X, y, start, dd.DecoupledGaussNewton(), 60, loss=loss, callbacks=stopping)
            times.append(time.process_time() - began)
        taken, count = min(times), sum(p.numel() for p in start.parameters())
        ratios = " | ".join(f"{taken / each:.1f}" for each in seconds)
        print(f"| {name} | {count} | {len(run.train_error)} | {taken:.2f} | {seconds[0]:.3f} | "
              f"{ratios} |", flush=True)  # fmt: skip
    print("\n| rows | outputs | parameters | seconds per step | peak memory |")
    print("|---|---|---|---|---|")
    sizes = ((200, 1, 20, (16, 16)), (400, 1, 300, (16,)), (400, 1, 50, (32, 32)),
             (400, 5, 50, (32, 32)), (400, 1, 300, (64, 64)), (1000, 1, 50, (32, 32)),
             (2000, 1, 20, (16, 16)))  # fmt: skip
    for n, outputs, columns, widths in sizes:
        draw = torch.Generator().manual_seed(0)
        X = torch.randn(n, columns, generator=draw)
        y = X[:, :outputs].argmax(1) if outputs > 1 else (X[:, 0] * X[:, 1] > 0).float()
        start = perceptron(columns, outputs, widths, nn.Tanh, 0)
        loss = "cross_entropy" if outputs > 1 else "logistic"
        began = time.process_time()
        dd.fit(X, y, start, dd.DecoupledGaussNewton(), 6, loss=loss)
        taken, count = (time.process_time() - began) / 6, sum(p.numel() for p in start.parameters())
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"| {n} | {outputs} | {count} | {taken:.2f} | {peak:.2f} GB |", flush=True)


def run(data, out, only):
    done = set()
    if out.exists():
        kept = [json.loads(text) for text in out.read_text().splitlines()]
        done = {tuple(r[k] for k in ("table", "network", "seed", "wrong")) for r in kept}
    for setting in settings():
        if setting in done or not setting[1].startswith(only):
            continue
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            r = one(data, *setting)
        with out.open("a") as file:
            file.write(json.dumps(r) + "\n")
        print(
            f"{r['table']:15s} {r['network']:12s} {r['seed']} {r['wrong']:14s} n {r['n']} P "
            f"{r['parameters']} K {r['outputs']} best {r['best']:2d} of {r['steps']} estimate "
            f"{r['estimate']:.3f} test {r['test']:.3f} z {r['z']:+.2f} along {r['z_along']:.2f} "
            f"AdamW {r['adamw']:.3f} / {r['adamw_retrained']:.3f}, {r['seconds']:.1f} s for "
            f"{r['adamw_seconds']:.1f} s",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("run", "table", "verdicts", "literal", "time"))
    parser.add_argument("results", nargs="*", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--data", default=os.environ.get("DECOUPLED_DATA", ""))
    parser.add_argument("--only", default="", help="networks whose name begins with this")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.command == "run":
        return run(given.data, given.out, given.only)
    if given.command in ("time", "literal"):
        return {"time": measure_time, "literal": literal}[given.command](given.data)
    lines = [text for path in given.results for text in path.read_text().splitlines()]
    return {"table": table, "verdicts": verdicts}[given.command](list(map(json.loads, lines)))


if __name__ == "__main__":
    main()
