"""Fine-tuned networks: what is their error, by the path or folds, a split, and a formula?

    python studies/fine_tuning.py run --out FILE.jsonl [--data FOLDER]
    python studies/fine_tuning.py table FILE.jsonl

A convolutional network, a perceptron and a transformer are trained on 2,000 images of the digits 0
to 4. A new last layer, adapters, or the last block and the last layer are trained to distinguish
two others. ``split`` is AdamW with a fifth of the rows to stop by, on outputs of the frozen layers
that are computed once; its time is the unit of cost. ``memory perturbation`` is the formula of
docs/theory/memory_perturbation.md at the parameters of the path. z is the estimate minus the test
error in standard errors of both.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from pathlib import Path

import numpy as np
import torch
from network_problems import FINE_TUNED, PAIRS, adamw, losses, network, prepared, tested

import decoupled_descent as dd
from decoupled_descent.networks.frozen import split_frozen

SIZES, DRAWS = (100, 300, 1000), 6


def of_rows(found):
    """A mean and its standard error."""
    found = found.double()
    return float(found.mean()), float(found.std()) / math.sqrt(len(found))


def memory_perturbation(run, X, y):
    """The mean loss of o_i + J_i H⁻¹ J_iᵀ g_i, for logistic losses."""
    network, beta = run.bound, run.best_theta[0].double()
    X = network.features(X)
    J = torch.cat([part[:, 0] for _, part in network.jacobians(run.best_theta[0], X, 1)]).double()
    p = network.outputs(run.best_theta[0], X)[:, 0].double()
    share = p.sigmoid()
    H = (J.T * (share * (1 - share))) @ J + run.algorithm.ridge * torch.eye(len(beta)).double()
    v = (J * torch.linalg.solve(H, J.T).T).sum(1)
    moved = p + v * (share - y)
    return of_rows(
        torch.nn.functional.binary_cross_entropy_with_logits(moved, y.double(), reduction="none")
    )


def one(data, kind, pair, n, seed):
    X, y, new, labels, loss, outputs = prepared(data, pair, n, seed)
    start = network(data, kind, X, outputs, seed)
    frozen, began = split_frozen(start), time.process_time()
    rest, features, others = (
        (frozen.rest, frozen.features(X), frozen.features(new)) if frozen else (start, X, new)
    )
    part, *_, seconds = adamw(rest, features, y, loss, seed)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))[: n // 5]
    with torch.no_grad():
        split = of_rows(losses(part, features[order], y[order], loss))
    began = time.process_time()
    run = dd.fit(X, y, start, loss=loss)
    taken = time.process_time() - began
    test, spread = tested(run.to_module(), new, labels, loss)
    test_split = tested(part, others, labels, loss)[0]
    estimates = {"own": (run.error, run.stderr, test), "split": (*split, test_split)}
    if run.evaluation.how == "path":
        estimates["memory perturbation"] = (*memory_perturbation(run, X, y), test)
    return {
        "kind": kind, "pair": pair, "n": n, "seed": seed, "how": run.evaluation.how,
        "parameters": sum(p.numel() for p in start.parameters() if p.requires_grad),
        "estimates": {
            name: {"z": (value - true) / math.hypot(stderr, spread), "off": value / true - 1}
            for name, (value, stderr, true) in estimates.items()
        },
        "ratio": test / test_split, "cost": taken / seconds[0], "verdict": run.evaluation.verdict,
    }  # fmt: skip


def table(records):
    """Rms of z and of the relative error of each estimate, per kind and number of labels."""
    names = ("own", "split", "memory perturbation")
    print("| trained | labels | runs | by | " + " | ".join(names) + " | ÷ split | cost |")
    print("|---" * (6 + len(names)) + "|")
    for kind in FINE_TUNED:
        for n in (*SIZES, None):
            some = [r for r in records if r["kind"] == kind and n in (r["n"], None)]
            if not some:
                continue
            ways = " / ".join(f"{sum(r['how'] == w for r in some)} {w}" for w in ("path", "folds"))
            cells = []
            for name in names:
                own = [r["estimates"][name] for r in some if name in r["estimates"]]
                numbers = (np.sqrt(np.mean([e[q] ** 2 for e in own])) for q in ("z", "off"))
                cells.append(" / ".join(f"{each:.2f}" for each in numbers) if own else "")
            means = [math.exp(np.mean([math.log(r[q]) for r in some])) for q in ("ratio", "cost")]
            cells += [f"{means[0]:.2f}", f"{means[1]:.1f}"]
            print(f"| {kind} | {n or 'all'} | {len(some)} | {ways} | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("command", choices=("run", "table"))
    parser.add_argument("results", nargs="*", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--data", default=os.environ.get("DECOUPLED_DATA", ""))
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.command == "table":
        table([json.loads(line) for path in given.results for line in path.open()])
        return
    for seed in range(DRAWS):
        for n in SIZES:
            for kind in FINE_TUNED:
                found = one(given.data, kind, PAIRS[seed % len(PAIRS)], n, seed)
                with given.out.open("a") as file:
                    file.write(json.dumps(found) + "\n")
                own = found["estimates"]["own"]
                told = f"z {own['z']:+.2f}, cost {found['cost']:.1f}"
                print(f"{kind} {n} {seed} {found['how']}: {told}", flush=True)


if __name__ == "__main__":
    main()
