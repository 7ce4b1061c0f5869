"""Learning curves on real tables: the error with twice the rows, expected and true.

    python studies/learning_curves.py run DATA OUT.jsonl [DRAWS]
    python studies/learning_curves.py table OUT.jsonl

Every table with at least 4n rows gives n rows for the curve, n more for the model of 2n rows, and
the rest, at least 2n rows, tells the true error of that model. The literal error at n/2 is that of
two models which are fitted to halves of the n rows alone, on the other half.
"""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tables import load

import decoupled_descent as dd

SIZES, MOST_TEST_ROWS = (60, 120, 240), 2000


def row_losses(model: Any, X: Any, y: Any) -> Any:
    """Log losses or squared errors of a model, row by row."""
    if isinstance(model, dd.DecoupledRegressor):
        return (model.predict(X) - y) ** 2
    at = np.searchsorted(model.classes_, y)
    return -np.log(model.predict_proba(X)[np.arange(len(y)), at].clip(1e-15))


def take(X: Any, rows: Any) -> Any:
    """Rows of an array or a frame."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def measure(X: Any, y: Any, task: str, n: int, seed: int) -> dict[str, Any] | None:
    """One draw; None if a class is missing where it is needed."""
    order = np.random.default_rng(seed).permutation(len(y))
    few, twice, test = order[:n], order[: 2 * n], order[2 * n : 2 * n + MOST_TEST_ROWS]
    kind = dd.DecoupledClassifier if task == "classification" else dd.DecoupledRegressor
    if task == "classification" and np.unique(y[few], return_counts=True)[1].min() < 4:
        return None
    if task == "classification" and not set(y[test]) <= set(y[few]):
        return None
    start = time.process_time()
    model = kind().fit(take(X, few), y[few])
    fitted = time.process_time()
    curve = model.learning_curve(take(X, few), y[few])
    done = time.process_time()
    now = row_losses(model, take(X, test), y[test])
    more = row_losses(kind().fit(take(X, twice), y[twice]), take(X, test), y[test])
    halves = [few[: n // 2], few[n // 2 :]]
    literal = []
    for own, other in (halves, halves[::-1]):
        if task == "regression" or set(y[own]) == set(y[few]):
            half = kind().fit(take(X, own), y[own])
            literal.append(float(row_losses(half, take(X, other), y[other]).mean()))
    return {
        "n": n, "seed": seed, "rows": curve.rows, "errors": curve.errors, "stderrs": curve.stderrs,
        "change": curve.change, "change_stderr": curve.change_stderr,
        "now": float(now.mean()), "twice": float(more.mean()),
        "noise": float(more.std()) / math.sqrt(len(more)),
        "change_noise": float((more - now).std()) / math.sqrt(len(more)),
        "half": float(np.mean(literal)) if literal else None,
        "seconds": [fitted - start, done - fitted],
    }  # fmt: skip


def run(data: str, out: str, draws: int) -> None:
    """Measure all tables, one record per line."""
    torch.set_num_threads(1)
    about = json.loads((Path(data) / "about.json").read_text())
    with open(out, "a") as file:
        for seed in range(draws):
            for n in SIZES:
                for name in (one for one, facts in about.items() if facts["n"] >= 4 * n):
                    X, y, task = load(data, name)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        record = measure(X, y, task, n, seed)
                    if record is not None:
                        file.write(json.dumps({"table": name} | record) + "\n")
                        file.flush()


def table(out: str) -> None:
    """Print errors, coverage and times."""
    with open(out) as file:
        records = [json.loads(line) for line in file]
    print("| rows n | fits | error at n/2: formula / literal | mean z | rms z | covered "
          "| change: mean z | rms z | curve / fit |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|")
    for n in (*SIZES, None):
        some = [one for one in records if n in (None, one["n"])]
        halves = [one for one in some if one["half"]]
        ratio = np.exp(
            np.mean([math.log(one["errors"][one["rows"].index(one["n"] // 2)] / one["half"])
                     for one in halves])
        )  # fmt: skip
        gap = [(one["errors"][-1] - one["twice"]) / math.hypot(one["stderrs"][-1], one["noise"])
               for one in some]  # fmt: skip
        z, changes = np.array(gap), np.array(
            [(one["change"] - one["twice"] + one["now"])
             / math.hypot(one["change_stderr"], one["change_noise"]) for one in some]
        )  # fmt: skip
        covered = 100 * np.mean(np.abs(z) < 1.96)
        times = np.median([one["seconds"][1] / one["seconds"][0] for one in some])
        print(
            f"| {n or 'all'} | {len(some)} | {ratio:.3f} | {z.mean():+.2f} "
            f"| {np.sqrt(np.mean(z**2)):.2f} | {covered:.0f} % | {changes.mean():+.2f} "
            f"| {np.sqrt(np.mean(changes**2)):.2f} | {times:.2f} |"
        )


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(sys.argv[2], sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else 6)
    else:
        table(sys.argv[2])
