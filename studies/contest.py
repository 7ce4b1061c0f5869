"""Intervals of the generalisation error: ours beside those that a comparison recommends.

    python studies/contest.py [DRAWS]

arXiv 2409.18836 compares intervals by resampling, and recommends the corrected resampled-t and, for
few rows, the conservative-z; nested cross-validation is their well-known rival. The learners are
ridge regression, logistic regression and kernel ridge regression with fixed penalties, so that all
methods estimate the error of the same model: ours by leaving every row out of one fit. The truth is
the error of this model on 4,000 other rows. Laws: those of Bates, Hastie and Tibshirani (sparse
logistic and linear models in 20 and 100 dimensions), Friedman's first, a law without signal, and
linear models with errors of a t distribution with five degrees of freedom.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
import torch
from scipy.stats import norm, t
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import decoupled_descent as dd

NEW = 4000
#: Repetitions and share of the training rows of the resampled-t; outer and inner repetitions of the
#: conservative-z; repetitions and folds of nested cross-validation.
RESAMPLED, SHARE, OUTER, INNER, REPEATS, FOLDS = 25, 0.9, 10, 15, 20, 5


def linear(d, sparse=5, errors="normal"):
    def draw(rng, n):
        X = rng.normal(size=(n, d))
        noise = rng.normal(size=n) if errors == "normal" else rng.standard_t(5, n)
        return X, X[:, :sparse].sum(1) / sparse**0.5 + noise

    return draw


def logistic(d, signal=1.0, sparse=5):
    def draw(rng, n):
        X = rng.normal(size=(n, d))
        p = 1 / (1 + np.exp(-2.5 * signal * X[:, :sparse].sum(1) / sparse**0.5))
        return X, (rng.random(n) < p).astype(int)

    return draw


def friedman(rng, n):
    X = rng.random((n, 10))
    curved = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    return X, curved + 10 * X[:, 3] + 5 * X[:, 4] + rng.normal(size=n)


LAWS = {
    "logistic, 20 columns": ("classes", logistic(20)),
    "logistic, 100 columns": ("classes", logistic(100)),
    "no signal, 10 columns": ("classes", logistic(10, 0.0)),
    "linear, 20 columns": ("numbers", linear(20)),
    "linear, 100 columns": ("numbers", linear(100)),
    "linear, t₅ errors": ("numbers", linear(20, errors="t")),
    "Friedman 1, kernel": ("kernel", friedman),
}


def learner(kind):
    """The learner in scikit-learn."""
    if kind == "classes":  # the penalty of ours is ½ λ‖β‖², here λ = 1
        return make_pipeline(StandardScaler(), LogisticRegression(C=1.0, max_iter=500))
    if kind == "numbers":
        return make_pipeline(StandardScaler(), Ridge(1.0))
    return make_pipeline(StandardScaler(), KernelRidge(alpha=0.1, kernel="rbf", gamma=0.05))


def losses(kind, model, X, y):
    """Row by row: wrong decisions, or squared errors."""
    if kind == "classes":
        return 1.0 * (model.predict(X) != y)
    return (model.predict(X) - y) ** 2


def fitted(kind, X, y):
    centre = 0.0 if kind != "kernel" else y.mean()
    model = learner(kind).fit(X, y - centre if kind == "kernel" else y)
    return lambda A, b: losses(kind, model, A, b - centre if kind == "kernel" else b)


def resampled_t(kind, X, y, rng):
    """Nadeau and Bengio: the variance of a mean of overlapping splits is 1/J + n_test/n_train."""
    n = len(y)
    m = round(SHARE * n)
    values = []
    for _ in range(RESAMPLED):
        order = rng.permutation(n)
        values.append(fitted(kind, X[order[:m]], y[order[:m]])(X[order[m:]], y[order[m:]]).mean())
    spread = np.sqrt((1 / RESAMPLED + (n - m) / m) * np.var(values, ddof=1))
    half = t.ppf(0.975, RESAMPLED - 1) * spread
    return np.mean(values) - half, np.mean(values) + half


def conservative_z(kind, X, y, rng):
    """Nadeau and Bengio: the variance from pairs of halves that share no rows."""
    n = len(y)
    m = n // 2
    own = round(0.1 * n)
    centre, pairs = [], []
    for _ in range(INNER):
        order = rng.permutation(n)
        at = fitted(kind, X[order[own:]], y[order[own:]])
        centre.append(at(X[order[:own]], y[order[:own]]).mean())
    for _ in range(OUTER):
        order, means = rng.permutation(n), []
        for part in (order[:m], order[m : 2 * m]):
            values = []
            for _ in range(INNER):
                inner = rng.permutation(part)
                at = fitted(kind, X[inner[own:]], y[inner[own:]])
                values.append(at(X[inner[:own]], y[inner[:own]]).mean())
            means.append(np.mean(values))
        pairs.append((means[0] - means[1]) ** 2)
    half = norm.ppf(0.975) * np.sqrt(np.sum(pairs) / (2 * OUTER))
    return np.mean(centre) - half, np.mean(centre) + half


def nested(kind, X, y, rng):
    """Bates, Hastie and Tibshirani: the mean squared error of inner folds for outer ones."""
    n, a, b, errors = len(y), [], [], []
    for _ in range(REPEATS):
        folds = rng.permutation(n) % FOLDS
        for k in range(FOLDS):
            out = folds == k
            outer = fitted(kind, X[~out], y[~out])(X[out], y[out])
            inner = []
            for j in set(range(FOLDS)) - {k}:
                train, test = ~out & (folds != j), folds == j
                inner.append(fitted(kind, X[train], y[train])(X[test], y[test]))
            inside = np.concatenate(inner)
            a.append((inside.mean() - outer.mean()) ** 2)
            b.append(outer.var(ddof=1) / len(outer))
            errors += [inside.mean()]
    mse = max(0.0, np.mean(a) - np.mean(b))
    everything = []
    folds = rng.permutation(n) % FOLDS
    for k in range(FOLDS):
        everything.append(fitted(kind, X[folds != k], y[folds != k])(X[folds == k], y[folds == k]))
    plain = np.concatenate(everything)
    se = plain.std(ddof=1) / n**0.5
    stderr = min(max(np.sqrt((FOLDS - 1) / FOLDS * mse), se), se * FOLDS**0.5)
    bias = (1 + (FOLDS - 2) / FOLDS) * (np.mean(errors) - plain.mean())
    return (np.mean(errors) - bias) - 1.96 * stderr, (np.mean(errors) - bias) + 1.96 * stderr


def ours(kind, X, y, _rng):
    """One fit; the truth is that of our model, which is the same up to the scale of columns."""
    if kind == "classes":
        model = dd.DecoupledClassifier(features="linear", ridge=1.0).fit(X, y)
        return model.estimated_accuracy_interval_, model
    features = "linear" if kind == "numbers" else "rbf"
    model = dd.DecoupledRegressor(features=features, ridge=1.0 if kind == "numbers" else 0.1)
    model.fit(X, y)
    return model.estimated_test_error_interval_, model


METHODS = {
    "corrected resampled-t": resampled_t,
    "conservative-z": conservative_z,
    "nested cross-validation": nested,
}


def main(draws):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print("| law | rows | ours | resampled-t | conservative-z | nested |")
    print("|---|---|---|---|---|---|")
    for law, (kind, draw) in LAWS.items():
        for n in (100, 500):
            inside, widths = {}, {}
            for seed in range(draws):
                rng = np.random.default_rng(seed)
                X, y = draw(rng, n)
                A, b = draw(rng, NEW)
                (low, high), model = ours(kind, X, y, rng)
                truth = losses(kind, model, A, b).mean()
                if kind == "classes":
                    low, high = 1 - high, 1 - low
                ends = {"ours": (low, high, truth)}
                other = fitted(kind, X, y)(A, b).mean()
                for name, method in METHODS.items():
                    if name != "corrected resampled-t" and n > 100:
                        continue
                    ends[name] = (*method(kind, X, y, rng), other)
                for name, (below, above, true) in ends.items():
                    inside.setdefault(name, []).append(below <= true <= above)
                    widths.setdefault(name, []).append(above - below)
            cells = [
                f"{100 * np.mean(inside[name]):.0f} %, {np.mean(widths[name]):.3g}"
                if name in inside
                else "–"
                for name in ("ours", *METHODS)
            ]
            print(f"| {law} | {n} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
