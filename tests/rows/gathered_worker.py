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
from decoupled_descent.rows import gathered, inputs, sources, store
from decoupled_descent.tables.search import ranking, ridge_fits

SIZES = (120, 50)
#: Few rows are treated as many are. Minima are exact, since their paths differ.
CONSTANTS = ((ranking, "RANKED", 110), (ridge_fits, "SAMPLED", 110), (ridge_fits, "CLOSE", 1e-20))
KERNEL = dd.features.Kernel("rbf", landmarks=40)


def problem():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((170, 4)) * np.arange(1, 5) + 3
    signal = X[:, 0] + 0.5 * (X[:, 1] - 3) ** 2 + rng.standard_normal(170)
    names = np.array(["low", "middle", "high"], dtype=object)
    return X, signal, names[np.digitize(signal, np.quantile(signal, [0.3, 0.7]))]


def calls():
    """By name: the estimator, what it predicts, and what is given to fit for all rows."""
    weights = np.random.default_rng(1).choice([0.5, 1.0, 2.0, 3.0], 170)
    towns = np.array([f"town {k % 40}" for k in range(170)], dtype=object)  # in both processes
    both = {"sample_weight": weights, "groups": np.arange(170) // 4}
    two = ["linear", "matern(1)/ranks"]
    three = ["linear", "rbf(1)", "laplace(1)"]
    balanced = dd.DecoupledClassifier(features=["linear", KERNEL], class_weight="balanced")
    return {
        "numbers": (dd.DecoupledRegressor(members=[]), "numbers", {}),
        "two classes": (dd.DecoupledClassifier(features=three), "two", {}),
        "groups": (dd.DecoupledClassifier(features=two), "two", {"groups": towns}),
        "weights": (dd.DecoupledClassifier(features=two), "two", {"sample_weight": weights}),
        "numbers, both": (dd.DecoupledRegressor(features=two), "numbers", both),
        "class weights": (balanced, "three", {}),
        "three classes, landmarks": (
            dd.DecoupledClassifier(features=["linear", KERNEL], ridge=0.1), "three", {},
        ),
    }  # fmt: skip


def labels(kind):
    _, signal, names = problem()
    return {"numbers": signal, "three": names, "two": names == "high"}[kind]


def results_of(model, X):
    predictions = model.predict(X) if hasattr(model, "log_target") else model.predict_proba(X)
    left = getattr(model, "corrected_proba_", getattr(model, "corrected_prediction_", None))
    return {
        "error": model.estimated_test_error_, "stderr": model.estimated_test_error_stderr_,
        "left_out": left, "predictions": predictions, "verdict": model.diagnostics_.verdict,
        "candidates": [(one["features"], one["ridge"]) for one in model.candidates_],
    }  # fmt: skip


def main(folder):
    dist.init_process_group("gloo", timeout=timedelta(seconds=100))
    rank = dist.get_rank()
    span = slice(sum(SIZES[:rank]), sum(SIZES[: rank + 1]))
    X, _, _ = problem()
    group = dist.group.WORLD
    for module, constant, value in CONSTANTS:
        setattr(module, constant, value)
    results = {}
    for name, (model, kind, given) in calls().items():
        y = labels(kind)[span]
        if name.endswith("landmarks"):  # nothing is small enough to be in memory as a whole
            inputs.HELD, inputs.PIECE_BYTES, sources.READ_BYTES = 0, 64 * 32, 50 * 32
            store.SMALL = 0
        rows = dd.Rows(X[span], group=group)
        own = {key: values[span] for key, values in given.items()}
        results[name] = results_of(model.fit(rows, y, **own), X)
    refused = {}
    rows = dd.Rows(X[span], torch.zeros(SIZES[rank]), group=group)
    y = labels("two")[span]
    for name, call in {
        "groups": lambda: dd.DecoupledClassifier().fit(rows, y, groups=y[:5]),
        "missing": lambda: dd.DecoupledClassifier().fit(rows, y, groups=[None] * len(y)),
        "zero": lambda: dd.DecoupledRegressor().fit(rows, y, sample_weight=1.0 - y),
    }.items():
        try:
            call()
        except ValueError as error:
            refused[name] = str(error)
    mixed = np.array([1.5, 2.5]) if rank else np.array([True, False])
    few = dd.Rows(X[span][:2], torch.zeros(2), group=group)
    texts = np.array(["ä", 'say "x"'] if rank else ["", "y\n"], dtype=object)
    kinds = [gathered.all_labels(few, one).tolist() for one in (mixed, texts, np.arange(2) + rank)]
    all_gather = gathered.all_gather(few, torch.full((2, 1), float(rank))).tolist()
    others = {"refused": refused, "kinds": kinds, "all_gather": all_gather}
    torch.save(results | others, Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
