"""What one process of tests/rows/test_gathered.py does: train estimators on its share of the rows.

``python gathered_worker.py FOLDER``, with the variables that torchrun sets.
"""

import sys
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

import decoupled_descent as dd
from decoupled_descent.rows import blocks, gathered, sources, store
from decoupled_descent.validation import ranking, search

SIZES = (170, 70)
KERNEL = dd.features.Kernel("rbf", landmarks=40)


def problem():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((240, 4)) * np.arange(1, 5) + 3
    signal = X[:, 0] + 0.5 * (X[:, 1] - 3) ** 2 + rng.standard_normal(240)
    names = np.array(["low", "middle", "high"], dtype=object)
    return X, signal, names[np.digitize(signal, np.quantile(signal, [0.3, 0.7]))]


def calls():
    """Estimators by name, and whether they predict numbers."""
    return {
        "numbers": (dd.DecoupledRegressor(), "numbers"),
        "two classes": (dd.DecoupledClassifier(), "two"),
        "three classes, landmarks": (
            dd.DecoupledClassifier(features=["linear", KERNEL], ridge=0.1), "three",
        ),
    }  # fmt: skip


def labels(kind):
    _, signal, names = problem()
    return {"numbers": signal, "three": names, "two": names == "high"}[kind]


def found(model, X):
    said = model.predict(X) if hasattr(model, "log_target") else model.predict_proba(X)
    left = getattr(model, "corrected_proba_", getattr(model, "corrected_prediction_", None))
    return {
        "error": model.estimated_test_error_, "stderr": model.estimated_test_error_stderr_,
        "left_out": left, "said": said, "verdict": model.diagnostics_.verdict,
        "candidates": [(one["features"], one["ridge"]) for one in model.candidates_],
    }  # fmt: skip


def main(folder):
    dist.init_process_group("gloo", timeout=timedelta(seconds=100))
    rank = dist.get_rank()
    span = slice(sum(SIZES[:rank]), sum(SIZES[: rank + 1]))
    X, _, _ = problem()
    group = dist.group.WORLD
    ranking.RANKED = search.SCOUTED = 150  # as with many rows
    results = {}
    for name, (model, kind) in calls().items():
        y = labels(kind)[span]
        if name.endswith("landmarks"):  # nothing is small enough to be in memory as a whole
            blocks.HELD, blocks.PIECE_BYTES, sources.READ_BYTES = 0, 64 * 32, 50 * 32
            store.SMALL = 0
        rows = dd.Rows(X[span], torch.zeros(len(y)), group=group)
        results[name] = found(model.fit(rows, y), X)
    refused = {}
    rows = dd.Rows(X[span], torch.zeros(SIZES[rank]), group=group)
    y = labels("two")[span]
    for name, call in {
        "network": lambda: dd.DecoupledClassifier(method="orthogonal").fit(rows, y),
        "groups": lambda: dd.DecoupledClassifier().fit(rows, y, groups=y),
        "weights": lambda: dd.DecoupledRegressor().fit(rows, y, sample_weight=y + 1.0),
        "classes": lambda: dd.DecoupledClassifier(class_weight="balanced").fit(rows, y),
    }.items():
        try:
            call()
        except ValueError as error:
            refused[name] = str(error)
    mixed = np.array([1.5, 2.5]) if rank else np.array([True, False])
    few = dd.Rows(X[span][:2], torch.zeros(2), group=group)
    texts = np.array(["ä", 'say "x"'] if rank else ["", "y\n"], dtype=object)
    kinds = [gathered.all_labels(few, one).tolist() for one in (mixed, texts, np.arange(2) + rank)]
    everyone = gathered.everyone(few, torch.full((2, 1), float(rank))).tolist()
    others = {"refused": refused, "kinds": kinds, "everyone": everyone}
    torch.save(results | others, Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
