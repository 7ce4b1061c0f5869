"""Problems whose true test error is known: tables, images, embeddings and synthetic rows.

``split(name, seed)`` deals out train rows, scaled as ``fit`` wants them, up to 4,000 test rows and
an objective. Synthetic labels come from a logistic teacher with log-odds of standard deviation 3.
Real images and embeddings are found by DECOUPLED_DATA.

Problems come in two halves of like kind: whatever has thresholds or options to set looks at
``half="develop"`` and is reported on ``half="report"``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from sklearn import datasets

import decoupled_descent as dd
from decoupled_descent.datasets.embeddings import find_cats_dogs, load_embeddings
from decoupled_descent.datasets.mnist import add_noise, load_mnist
from decoupled_descent.datasets.whitening import Whitening

TEST_ROWS = 4000


class Split(NamedTuple):
    X_train: torch.Tensor
    y_train: torch.Tensor
    X_test: torch.Tensor
    y_test: torch.Tensor
    objective: dd.Objective
    task: str  # "classification" or "regression"


@dataclass(frozen=True)
class Problem:
    """Where rows come from: ``source(seed)`` gives features and labels, train rows first."""

    source: Callable[[int], tuple[np.ndarray, np.ndarray]]
    n: int
    width: int
    half: str
    task: str = "classification"


def shuffled(load, seed, most):
    """The first rows of a random order of what ``load`` has."""
    X, y = load()
    chosen = np.random.default_rng(seed).permutation(len(y))[:most]
    return X[chosen], y[chosen]


@cache
def table(name):
    loaded = getattr(datasets, f"load_{name}")()
    return loaded.data, loaded.target


@cache
def mnist(digits):
    loaded = load_mnist()
    kept = np.isin(loaded.train_labels, digits)
    images = loaded.train_images[kept].reshape(int(kept.sum()), -1) / np.float32(255)
    return images, np.searchsorted(np.array(digits), loaded.train_labels[kept])


@cache
def embeddings():
    loaded = load_embeddings(find_cats_dogs())
    return loaded.X, loaded.y


def from_table(name):
    return lambda seed: shuffled(lambda: table(name), seed, None)


def from_mnist(digits, n):
    return lambda seed: shuffled(lambda: mnist(digits), seed, n + TEST_ROWS)


def from_noisy_mnist(digits, n):
    def source(seed):
        images, y = shuffled(lambda: mnist(digits), seed, n + TEST_ROWS)
        return add_noise(torch.from_numpy(images), 30.0, seed).numpy(), y

    return source


def from_embeddings(n):
    return lambda seed: shuffled(embeddings, seed, n + TEST_ROWS)


def teacher(X, rng, offset=0.0):
    """Logistic labels whose log-odds have standard deviation 3 over the rows, about the offset."""
    signal = X @ rng.standard_normal(X.shape[1])
    return (rng.random(len(X)) < 1 / (1 + np.exp(offset - 3 * signal / signal.std()))).astype(int)


def synthetic(n, d, tails=None, spectrum=None, outliers=0.0, copies=0.0, jitter=0.0, offset=0.0):
    """Gaussian rows, with the departures asked for.

    Args:
        n: Train rows.
        d: Columns.
        tails: Degrees of freedom of Student's t: each row is scaled as a whole.
        spectrum: Eigenvalues of the covariance, in a random basis.
        outliers: The share of rows, train and test, that are ten times as long.
        copies: The share of train rows that repeat an earlier train row and its label.
        jitter: Relative size of what is added to a copy.
        offset: Moves the log-odds, which makes label 1 rare.
    """

    def source(seed):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((n + TEST_ROWS, d))
        if spectrum is not None:
            basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
            X = X * np.sqrt(spectrum) @ basis.T
        if tails:
            X = X / np.sqrt(rng.chisquare(tails, (len(X), 1)) / tails)
        y = teacher(X, rng, offset)
        X[rng.random(len(X)) < outliers] *= 10
        count = round(copies * n)
        noise = jitter * X.std() * rng.standard_normal((count, d))
        X[n - count : n], y[n - count : n] = X[:count] + noise, y[:count]
        return X, y

    return source


def power_law(d, exponent):
    return np.arange(1, d + 1.0) ** -exponent


def spikes(d, size, count=5):
    return np.r_[np.full(count, float(size)), np.ones(d - count)]


PROBLEMS = {
    "digits, 10 classes": Problem(from_table("digits"), 900, 16, "develop"),
    "breast cancer": Problem(from_table("breast_cancer"), 280, 3, "develop"),
    "wine, 3 classes": Problem(from_table("wine"), 90, 3, "report"),
    "diabetes, regression": Problem(from_table("diabetes"), 220, 3, "report", "regression"),
    "MNIST 0 and 8": Problem(from_mnist((0, 8), 400), 400, 5, "develop"),
    "MNIST 4 and 9": Problem(from_mnist((4, 9), 600), 600, 5, "report"),
    "MNIST, 10 classes": Problem(from_mnist(tuple(range(10)), 800), 800, 16, "report"),
    "noisy MNIST 0 and 8": Problem(from_noisy_mnist((0, 8), 600), 600, 5, "develop"),
    "noisy MNIST 4 and 9": Problem(from_noisy_mnist((4, 9), 600), 600, 5, "report"),
    "embeddings, n = 100": Problem(from_embeddings(100), 100, 5, "develop"),
    "embeddings, n = 200": Problem(from_embeddings(200), 200, 5, "report"),
    "embeddings, n = 400": Problem(from_embeddings(400), 400, 5, "develop"),
    "embeddings, n = 800": Problem(from_embeddings(800), 800, 5, "report"),
    "Gaussian, n/d = 0.5": Problem(synthetic(200, 400), 200, 3, "report"),
    "Gaussian, n/d = 1": Problem(synthetic(300, 300), 300, 3, "develop"),
    "Gaussian, n/d = 2": Problem(synthetic(400, 200), 400, 3, "report"),
    "Gaussian, n/d = 5": Problem(synthetic(500, 100), 500, 3, "develop"),
    "Gaussian, n/d = 20": Problem(synthetic(1000, 50), 1000, 3, "report"),
    "power law 1": Problem(synthetic(400, 200, spectrum=power_law(200, 1)), 400, 3, "develop"),
    "power law 2": Problem(synthetic(400, 200, spectrum=power_law(200, 2)), 400, 3, "report"),
    "spikes of 10": Problem(synthetic(400, 200, spectrum=spikes(200, 10)), 400, 3, "develop"),
    "spikes of 100": Problem(synthetic(400, 200, spectrum=spikes(200, 100)), 400, 3, "report"),
    "t₅ rows": Problem(synthetic(400, 200, tails=5), 400, 3, "develop"),
    "t₃ rows": Problem(synthetic(400, 200, tails=3), 400, 3, "report"),
    "t₅ rows, n/d = 10": Problem(synthetic(500, 50, tails=5), 500, 3, "report"),
    "copies, 25 %": Problem(synthetic(400, 200, copies=0.25), 400, 3, "develop"),
    "near copies, 25 %": Problem(synthetic(400, 200, copies=0.25, jitter=0.1), 400, 3, "report"),
    "copies, 5 %": Problem(synthetic(400, 200, copies=0.05), 400, 3, "report"),
    "outliers, 1 %": Problem(synthetic(400, 200, outliers=0.01), 400, 3, "develop"),
    "outliers, 5 %": Problem(synthetic(400, 200, outliers=0.05), 400, 3, "report"),
    "rare class": Problem(synthetic(400, 100, offset=6.0), 400, 3, "develop"),
    "rare class, n/d = 2": Problem(synthetic(400, 200, offset=5.0), 400, 3, "report"),
    "tiny, n = 40": Problem(synthetic(40, 20), 40, 3, "develop"),
    "tiny, n = 30": Problem(synthetic(30, 30), 30, 3, "report"),
}


def split(name, seed):
    """Train rows, test rows and an objective; the columns are scaled by the train rows alone."""
    problem = PROBLEMS[name]
    X, y = problem.source(seed)
    n, X = problem.n, np.asarray(X, np.float32)
    X = torch.from_numpy(Whitening("vanilla").fit(X[:n]).transform(X))
    if problem.task == "regression":
        y, loss, outputs = (y - y[:n].mean()) / y[:n].std(), "squared", 1
    else:
        classes = int(y.max()) + 1
        loss, outputs = ("logistic", 1) if classes == 2 else ("cross_entropy", classes)
    y = torch.tensor(y).float() if outputs == 1 else torch.tensor(y).long()
    head = dd.heads.TwoLayer(problem.width, outputs=outputs, bias=True, seed=seed)
    objective = dd.Objective(head, loss)
    return Split(X[:n], y[:n], X[n:], y[n:], objective, problem.task)
