"""A small network in the search: is its leave-one-out error right, and would it help?

    python studies/networks.py honest --out results.jsonl [--data FOLDER]
    python studies/networks.py gain [--data FOLDER]
    python studies/networks.py table results.jsonl

``honest`` trains tanh networks with hidden biases by the Newton method, from two starts, and
compares the leave-one-out error with the test error. ``gain`` adds networks to the candidates of
the default search where two starts end in the same minimum, and compares the two mixtures.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
import warnings
from pathlib import Path
from statistics import mean
from unittest import mock

import numpy as np
import tables
import torch

import decoupled_descent as dd
from decoupled_descent.objective.losses import get_loss
from decoupled_descent.tables.features.candidates import as_features
from decoupled_descent.tables.search import search
from decoupled_descent.tables.search.fits import CandidateFit, row_count, smoothed_predictions
from decoupled_descent.tables.search.stacking import FOLDS

SETTINGS = (
    *(("diabetes", 221), ("concrete", 200), ("vehicle", 200), ("phoneme", 200)),
    *(("ionosphere", 170), ("biomass", 200), ("titanic", 300), ("glass", 100), ("saheart", 200)),
)
RIDGES = tuple(10 ** (place / 2) for place in (2, 1, 0, -1, -2))
SAME = 0.01  # two starts whose outputs differ by less have ended in the same minimum


def predictions(loss, outputs, count):
    return smoothed_predictions(get_loss(loss), outputs, count)


def row_losses(loss, predicted, y):
    return get_loss(loss).of_predictions(predicted, y)


def prepared(data, name, n, split):
    """Standardised rows of a table, and targets as the search takes them."""
    X, y, new, labels, task = tables.split(data, name, n, split)
    prepare = tables.prepared(X).fit(X)
    X, new, labels = prepare.transform(X), prepare.transform(new)[:3000], labels[:3000]
    if task == "regression":
        level, scale = y.mean(), y.std()
        y, labels = torch.tensor((y - level) / scale), torch.tensor((labels - level) / scale)
        return X, y, new, labels, "squared", 1
    count = int(y.max()) + 1
    y, labels = torch.tensor(y), torch.tensor(labels)
    if count == 2:
        return X, y.double(), new, labels, "logistic", 1
    return X, y, new, labels, "cross_entropy", count


def network(features, rows, loss, outputs, width, ridge, seed, repairs=20):
    """A network at a minimum, as a candidate."""
    head = dd.heads.TwoLayer(width, outputs=outputs, bias=True, hidden_bias=True, seed=seed)
    algorithm = dd.DecoupledNewton(ridge, tolerance=1e-7, repairs=repairs)
    objective = dd.Objective(head.double(), loss)
    run = dd.fit(rows, None, objective, algorithm, 100, seed=seed, progress=False)
    left_out = run.best_outputs.reshape(rows.n, -1)
    said = predictions(loss, left_out, row_count(rows))
    error = float(row_losses(loss, said, rows.y).mean())
    known = torch.ones(FOLDS + 1, dtype=torch.bool)
    return CandidateFit(features, ridge, run, left_out, rows, said, error, known)


def evaluate(candidate, phi):
    """Outputs of a candidate for rows with features phi, shape (m, K)."""
    state = candidate.run.state
    with torch.no_grad():
        found = candidate.run.objective.pure_head(phi @ state.theta.T, state.head)
    return found.reshape(len(phi), -1)


def mixed(found, new, loss):
    """What the mixture says of new rows."""
    return sum(
        share * predictions(loss, evaluate(one, one.features.transform(new)), row_count(one.rows))
        for share, one in found.members
    )


def honest(data, out):
    with open(out, "a", encoding="utf-8") as file:
        for name, n in SETTINGS:
            for split in range(2):
                for record in _honest(data, name, n, split):
                    print(json.dumps(record), file=file, flush=True)


def _honest(data, name, n, split):
    X, y, new, labels, loss, outputs = prepared(data, name, n, split)
    features = as_features("linear")[0]
    rows = dd.Rows(features.fit_transform(X), y)
    phi = features.transform(new)
    for width in (3, 8):
        for ridge in RIDGES[1:]:
            one, two = (network(features, rows, loss, outputs, width, ridge, s) for s in (0, 1))
            own, its = evaluate(one, rows.X), evaluate(two, rows.X)
            judged = row_losses(loss, one.predictions, y)
            fresh = row_losses(loss, predictions(loss, evaluate(one, phi), n), labels)
            stderr = math.hypot(*(float(v.std()) / math.sqrt(len(v)) for v in (judged, fresh)))
            yield {
                "table": name, "n": n, "split": split, "width": width, "ridge": round(ridge, 4),
                "estimate": one.error, "test": float(fresh.mean()),
                "z": (one.error - float(fresh.mean())) / stderr,
                "differ": float((own - its).norm() / (one.outputs - own).norm()),
            }  # fmt: skip


def gain(data):
    for name, n in SETTINGS:
        for split in range(2):
            X, y, new, labels, loss, outputs = prepared(data, name, n, split)
            combine, both = search.mix, {}

            def patched(
                objective, found, folds, combine=combine, both=both, loss=loss, k=outputs, **rest
            ):
                found = [one._replace(fold_predictions=None) for one in found]  # networks have none
                start = time.process_time()
                added = networks(
                    next(one for one in found if one.features.name == "linear"), loss, k
                )
                both["seconds"] = time.process_time() - start
                both["with"] = combine(objective, [*found, *added], folds, **rest)
                both["share"] = float(both["with"].weights[len(found) :].sum())
                return combine(objective, found, folds, **rest)

            start = time.process_time()
            with mock.patch.object(search, "mix", patched):
                plain = search.search_models(X, y, loss, outputs=outputs)
            seconds = time.process_time() - start - both["seconds"]
            errors = [
                float(row_losses(loss, mixed(found, new, loss), labels).mean())
                for found in (plain, both["with"])
            ]
            print(
                f"| {name} {n}, {split} | {errors[0]:.4f} | {errors[1]:.4f} | {both['share']:.2f} "
                f"| {both['seconds'] / seconds:.1f} |",
                flush=True,
            )


def networks(linear, loss, outputs, width=6):
    """Networks from the largest ridge down, as long as two starts end in the same minimum."""
    found = []
    for ridge in RIDGES:
        one, two = (
            network(linear.features, linear.rows, loss, outputs, width, ridge, seed, 0)
            for seed in (0, 1)
        )
        apart = (evaluate(one, linear.rows.X) - evaluate(two, linear.rows.X)).abs().max()
        if float(apart) > SAME or not one.run.best.info.estimates:
            break
        found.append(one)
    return found


def table(path):
    with open(path, encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    print("| the two minima differ by | networks | test error / estimate | mean z | within two |")
    print("|---|---|---|---|---|")
    for low, high in ((0, 0.1), (0.1, 0.5), (0.5, 1), (1, math.inf)):
        some = [one for one in records if low <= one["differ"] < high]
        ratio = math.exp(mean(math.log(one["test"] / one["estimate"]) for one in some))
        inside = np.mean([abs(one["z"]) < 2 for one in some])
        print(
            f"| {low} to {high} | {len(some)} | {ratio:.2f} | {mean(o['z'] for o in some):+.1f} "
            f"| {inside:.0%} |"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("honest", "gain", "table"))
    parser.add_argument("path", nargs="?")
    parser.add_argument("--out", default="networks.jsonl")
    parser.add_argument("--data", default=Path(os.environ.get("DECOUPLED_DATA", "data"), "tables"))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.part == "table":
        table(given.path or given.out)
    elif given.part == "honest":
        honest(given.data, given.out)
    else:
        gain(given.data)


if __name__ == "__main__":
    main()
