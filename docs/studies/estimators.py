"""The estimators with no arguments, against scikit-learn's and against the truth.

Half of the rows train, the other half tells the truth: accuracy (or R²) of the model, of
`LogisticRegressionCV`, `MLPClassifier` and `RidgeCV`, and how far the estimated error is from the
error on the held-back half, in standard errors of the difference. The defaults were chosen on
splits 100 to 119 of the same data sets.

Run with ``python docs/studies/estimators.py OUT.json [FIRST SPLIT]``; ten minutes on one core.
"""

import json
import math
import sys
import time
import warnings

import numpy as np
import torch
from sklearn import datasets
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.model_selection import cross_val_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import decoupled_descent as dd

SPLITS = 60


def rivals(task, seed):
    if task == "regression":
        return {"linear": RidgeCV(np.logspace(-3, 4, 30))}
    linear = LogisticRegressionCV(max_iter=2000, l1_ratios=(0,), use_legacy_attributes=False)
    network = MLPClassifier(max_iter=1000, random_state=seed)
    return {"linear": linear, "network": network}


def losses(model, X, y):
    """Row by row: squared error, or log loss."""
    if isinstance(model, dd.DecoupledRegressor):
        return (model.predict(X) - y) ** 2
    chances = model.predict_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    return -np.log(np.clip(chances, 1e-300, 1))


def one(name, split):
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    order = np.random.default_rng(split).permutation(len(y))
    train, held = np.split(order, [len(y) // 2])
    task = "regression" if name == "diabetes" else "classification"
    kind = dd.DecoupledRegressor if task == "regression" else dd.DecoupledClassifier
    model = kind(random_state=split).fit(X[train], y[train])
    truth = losses(model, X[held], y[held])
    noise = math.hypot(
        model.estimated_test_error_stderr_, truth.std(ddof=1) / math.sqrt(len(truth))
    )
    estimate = model.estimated_r2_ if task == "regression" else model.estimated_accuracy_
    found = {
        "estimated_error": model.estimated_test_error_,
        "error": float(truth.mean()),
        "z": float(model.estimated_test_error_ - truth.mean()) / noise,
        "estimated_score": estimate,
        "score": model.score(X[held], y[held]),
    }
    for rival, estimator in rivals(task, split).items():
        fitted = make_pipeline(StandardScaler(), estimator).fit(X[train], y[train])
        found[rival] = fitted.score(X[held], y[held])
    return found


def table(first):
    rows = []
    for name in ("breast_cancer", "digits", "wine", "diabetes"):
        found = [one(name, split) for split in range(first, first + SPLITS)]
        means = {key: float(np.mean([each[key] for each in found])) for key in found[0]}
        z = np.array([each["z"] for each in found])
        means |= {"z_spread": float(z.std(ddof=1)), "within_two": float((abs(z) <= 2).mean())}
        rows.append({"data": name} | means)
        print(rows[-1], flush=True)
    return rows


def duration(repetitions=3):
    """Seconds at n = 2000, d = 500: ours, and a network with five-fold cross-validation."""
    X, y = datasets.make_classification(2000, 500, n_informative=20, random_state=0)
    ours, theirs = [], []
    for seed in range(repetitions):
        start = time.perf_counter()
        dd.DecoupledClassifier(random_state=seed).fit(X, y)
        ours.append(time.perf_counter() - start)
        start = time.perf_counter()
        network = make_pipeline(
            StandardScaler(), MLPClassifier(early_stopping=True, random_state=seed)
        )
        cross_val_score(network, X, y, cv=5)
        network.fit(X, y)
        theirs.append(time.perf_counter() - start)
    return {"ours": float(np.median(ours)), "network_and_cv": float(np.median(theirs))}


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    result = {"first_split": first, "table": table(first), "seconds": duration()}
    with open(sys.argv[1], "w") as file:
        json.dump(result, file, indent=1)
    print(result["seconds"])
