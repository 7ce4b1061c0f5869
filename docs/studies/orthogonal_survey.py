"""Orthogonal decoupled descent, untuned, on data it was not made on.

For every problem: rows are split at random, `OrthogonalDecoupledDescent.grid` is trained with five
folds and the train error alone picks ridge, damping and step. The table has that error, the test
error of the same iterate, gradient descent stopped by an oracle that sees the test rows, and
scikit-learn's cross-validated linear model.

Run with ``python docs/studies/orthogonal_survey.py OUT.json [PROBLEM …]``; half an hour on one core
for all problems. MNIST is found by DECOUPLED_DATA.
"""

import json
import math
import sys
import warnings
from functools import cache

import numpy as np
import torch
from sklearn import datasets
from sklearn.linear_model import LogisticRegressionCV, RidgeCV

import decoupled_descent as dd
from decoupled_descent.data.mnist import load_mnist
from decoupled_descent.data.whitening import Whitening

SPLITS, STEPS = 10, 200


@cache
def table(name):
    loaded = getattr(datasets, f"load_{name}")()
    return loaded.data, loaded.target


@cache
def digits(pair):
    loaded = load_mnist()
    images, labels = loaded.train_images.reshape(60000, -1) / 255.0, loaded.train_labels
    kept = np.flatnonzero(np.isin(labels, pair))[:12000]
    return images[kept], np.searchsorted(np.array(pair), labels[kept])


def gaussian(n, d, seed, tails=None):
    """A logistic teacher on white rows, Gaussian or with the tails of Student's t."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n + 4000, d))
    if tails:
        X = X / np.sqrt(rng.chisquare(tails, (len(X), 1)) / tails)
    signal = X @ rng.standard_normal(d) / math.sqrt(d)
    return X, (rng.random(len(X)) < 1 / (1 + np.exp(-3 * signal))).astype(int)


PROBLEMS = {  # name: rows and labels of one split, train rows, width
    "digits, 10 classes": (lambda _: table("digits"), 900, 16),
    "breast cancer": (lambda _: table("breast_cancer"), 280, 3),
    "wine, 3 classes": (lambda _: table("wine"), 90, 3),
    "diabetes, regression": (lambda _: table("diabetes"), 220, 3),
    "MNIST 0 and 8": (lambda _: digits((0, 8)), 800, 5),
    "MNIST 4 and 9": (lambda _: digits((4, 9)), 800, 5),
    "Gaussian, n/d = 0.5": (lambda s: gaussian(200, 400, s), 200, 3),
    "Gaussian, n/d = 2": (lambda s: gaussian(600, 300, s), 600, 3),
    "Gaussian, n/d = 20": (lambda s: gaussian(1000, 50, s), 1000, 3),
    "t₅ rows, n/d = 2": (lambda s: gaussian(600, 300, s, 5), 600, 3),
}


def split(name, seed):
    source, n, width = PROBLEMS[name]
    X, y = source(seed)
    order = np.random.default_rng(seed).permutation(len(y))
    X, y = np.asarray(X, np.float32)[order], y[order]
    X = torch.from_numpy(Whitening("vanilla").fit(X[:n]).transform(X))
    classes = len(np.unique(y))
    if name.endswith("regression"):
        y, loss, outputs = (y - y[:n].mean()) / y[:n].std(), "squared", 1
    else:
        loss, outputs = ("logistic", 1) if classes == 2 else ("cross_entropy", classes)
    y = torch.tensor(y).float() if outputs == 1 else torch.tensor(y)
    objective = dd.Objective(dd.heads.TwoLayer(width, outputs=outputs, seed=seed), loss)
    return (X[:n], y[:n]), (X[n:], y[n:]), objective


def linear_model(data, test, objective):
    (X, y), (X_test, y_test) = ((part.numpy() for part in rows) for rows in (data, test))
    if objective.loss.name == "squared":
        model = RidgeCV(np.logspace(-3, 4, 15)).fit(X, y)
        return float(np.mean((model.predict(X_test) - y_test) ** 2) / 2)
    model = LogisticRegressionCV(
        Cs=np.logspace(-2, 4, 7), l1_ratios=(0,), scoring="neg_log_loss", max_iter=500, tol=1e-3,
        use_legacy_attributes=False,
    )  # fmt: skip
    chances = model.fit(X, y).predict_proba(X_test)
    return float(-np.log(chances[np.arange(len(y_test)), y_test.astype(int)] + 1e-12).mean())


def one(name, seed):
    data, test, objective = split(name, seed)
    grid = dd.OrthogonalDecoupledDescent.grid(folds=5)
    run = dd.sweep(*data, objective, grid, STEPS, seed=seed, progress=False).best
    losses = objective.losses(test[0] @ run.best_theta.T, test[1], run.best_state.head)
    error, stderr = run.train_error[run.best_step], run.train_error_stderr[run.best_step]
    noise = math.hypot(float(stderr), float(losses.std()) / math.sqrt(len(losses)))
    descent = dd.GradientDescent(2.0, reduction="mean")
    oracle = dd.fit(*data, objective, descent, 2 * STEPS, test=test, seed=seed, progress=False)
    miss = float(error - losses.mean())
    return [
        float(error), float(losses.mean()), miss, miss / noise,
        float(oracle.test_error.min()), linear_model(data, test, objective),
    ]  # fmt: skip


def main(out, names):
    rows = []
    for name in names or PROBLEMS:
        found = np.array([one(name, seed) for seed in range(SPLITS)])
        estimate, test, miss, _, oracle, linear = found.mean(0)
        rows.append(
            {
                "problem": name,
                "estimate": estimate,
                "test": test,
                "bias": [miss, found[:, 2].std(ddof=1) / math.sqrt(SPLITS)],
                "z_spread": found[:, 3].std(ddof=1),
                "gd_oracle": oracle,
                "linear_cv": linear,
            }
        )
        print(rows[-1], flush=True)
    with open(out, "w") as file:
        json.dump(rows, file, indent=1)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # runs that diverge are part of the picture
    main(sys.argv[1], sys.argv[2:])
