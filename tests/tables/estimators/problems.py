"""Gaussian rows with a teacher, and settings that cost little."""

import numpy as np

from tests.real_data import real_data

#: No search.
CHEAP = {"features": "linear", "ridge": 1.0}


def features(n, d, seed):
    return np.random.default_rng(seed).normal(size=(n, d))


def binary(n=120, d=6, seed=0, strength=3.0):
    """Rows and labels 0 or 1 of a logistic teacher."""
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(n, d)), rng.normal(size=d)
    logits = strength * X @ w / np.linalg.norm(w)
    return X, (rng.random(n) < 1 / (1 + np.exp(-logits))).astype(int)


def several(n=150, d=6, classes=3, seed=0):
    """Rows and the index of the largest of their first columns."""
    X = features(n, d, seed)
    return X, X[:, :classes].argmax(1)


def real(n=120, d=6, seed=0):
    """Rows and a bent function of them with noise."""
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(n, d)), rng.normal(size=d)
    return X, 3 * np.tanh(X @ w / np.linalg.norm(w)) + rng.normal(size=n) + 7


def several_targets(n=120, d=6, seed=0):
    """Rows and three targets of unlike scale: linear, bent and pure noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    noise = rng.normal(size=(n, 3))
    signal = np.c_[X[:, 0] + X[:, 1], np.tanh(2 * X[:, 2]), np.zeros(n)]
    return X, (signal + 0.5 * noise) * [1.0, 10.0, 100.0] + [3.0, 0.0, -50.0]


def table(name):
    """Rows and labels of one of the tables of real data."""
    path = f"tables/{name}.npz"
    with np.load(real_data(path) / path) as content:
        return content["X"].astype(float), content["y"]
