"""The problems, their sizes, and how often each is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

import decoupled_descent as dd
from benchmarks.versus import front, networks, paths, ridge
from benchmarks.versus.studies import study
from benchmarks.versus.ways import Array, Draw, Way
from decoupled_descent.datasets.mnist import add_noise

#: Test rows: drawn ones cost nothing, the number of real ones is limited.
TESTED = 6_000
#: Data sets per size, fewer where they take longer.
REPLICATIONS = {100: 8, 400: 6, 1000: 4, 5000: 2}


def of_mixture(mixture: dd.GaussianMixture, n: int, seed: int) -> Draw:
    X, y = mixture.sample(n, seed=2 * seed, dtype=torch.float64)
    fresh, answers = mixture.sample(TESTED, seed=2 * seed + 1, dtype=torch.float64)
    return Draw(X.numpy(), y.numpy(), fresh.numpy(), answers.numpy())


def xor(n: int, seed: int) -> Draw:
    return of_mixture(dd.mixtures.xor(min(n, 1000), snr=4.0), n, seed)


def flipped_classes(n: int, seed: int) -> Draw:
    d = min(n // 2, 500)
    return of_mixture(dd.mixtures.flipped_classes(d, 2.0, labels=(0.0, 1.0)), n, seed)


def cut(X: Array, y: Array, n: int) -> Draw:
    X, y = np.asarray(X, float), np.asarray(y, float)
    return Draw(X[:n], y[:n], X[n:], y[n:])


def noisy_mnist(n: int, seed: int) -> Draw:
    found = study("problems")
    images, y = found.shuffled(lambda: found.mnist((0, 8)), seed, n + TESTED)
    return cut(add_noise(torch.from_numpy(images), 30.0, seed).numpy(), y, n)


def embeddings(n: int, seed: int) -> Draw:
    found = study("problems")
    return cut(*found.shuffled(found.embeddings, seed, n + TESTED), n)


def regression(kind: str) -> Callable[[int, int], Draw]:
    """y = Xβ + noise of variance 1/4, for rows of mean squared length one and Xβ of variance one.

    ``Gaussian`` has independent columns, ``power law`` variances ∝ 1/k, ``t₅`` rows of unequal
    length: each is divided by the root of a χ²₅ variable.
    """

    def sample(n: int, seed: int) -> Draw:
        rng, d = np.random.default_rng(seed), min(n // 2, 500)
        variances = 1 / np.arange(1.0, d + 1) if kind == "power law" else np.ones(d)
        X = rng.standard_normal((n + TESTED, d)) * np.sqrt(variances / variances.sum())
        if kind == "t₅ rows":
            X *= np.sqrt(3 / rng.chisquare(5, (len(X), 1)))
        beta = rng.standard_normal(d)
        beta *= np.sqrt(variances.sum() / (variances @ beta**2))
        return cut(X, X @ beta + 0.5 * rng.standard_normal(len(X)), n)

    return sample


@dataclass(frozen=True)
class Cell:
    """A model class on a problem of one size.

    Attributes:
        family: The model class, as the tables call it.
        problem: Where the rows come from.
        n: Training rows.
        draw: Rows for a seed.
        ways: The ways for a seed.
        replications: How many data sets.
    """

    family: str
    problem: str
    n: int
    draw: Callable[[int], Draw]
    ways: Callable[[int], dict[str, Way]]
    replications: int


DRAWS = {
    "xor": xor,
    "flipped classes": flipped_classes,
    "noisy MNIST": noisy_mnist,
    "embeddings": embeddings,
} | {kind: regression(kind) for kind in ("Gaussian", "power law", "t₅ rows")}
SCALED = {"embeddings"}  # the others are scaled by their makers

LOGISTIC_RIDGE, SQUARED_RIDGE, NETWORK, PATH, TABLE = (
    "logistic regression with a ridge", "ridge regression", "networks, stopped early",
    "least squares by descent, stopped early", "default estimator",
)  # fmt: skip
#: The order of model classes in tables and in the figure.
FAMILIES = (LOGISTIC_RIDGE, SQUARED_RIDGE, NETWORK, PATH, TABLE)
#: Model classes of which more data sets can be had for the same time, up to 1000 rows.
CHEAP = {SQUARED_RIDGE: 2, PATH: 2}
ALL = (100, 400, 1000, 5000)
LOGISTIC = dict.fromkeys(("flipped classes", "noisy MNIST", "embeddings"), ALL)
SQUARED = dict.fromkeys(("Gaussian", "power law"), ALL)
NETWORKS = dict.fromkeys(("flipped classes", "embeddings"), ALL) | dict.fromkeys(
    ("xor", "noisy MNIST"), (100, 400, 1000)
)
PATHS = dict.fromkeys(("Gaussian", "power law", "t₅ rows", "embeddings"), ALL)
#: Tables that leave enough test rows, and take seconds a fit.
TABLES = {
    "breast_cancer": (100,),
    "saheart": (100,),
    "diabetes": (100,),
    "concrete": (100, 400),
    "ames": (400,),
    "spam": (100, 400, 1000),
    "credit": (400, 1000),
    "phoneme": (400, 1000),
}
#: Data sets per table and size: there are many tables, and a fit is a search of its own.
TABLE_REPLICATIONS = {100: 3, 400: 2, 1000: 2}


def cells() -> Iterator[Cell]:
    """Everything that is measured."""

    def cell(family: str, problem: str, n: int, ways: Callable[[int], dict[str, Way]]) -> Cell:
        source, times = DRAWS[problem], CHEAP.get(family, 1) if n <= 1000 else 1
        count = REPLICATIONS[n] * times
        return Cell(family, problem, n, lambda seed: source(n, seed), ways, count)

    for family, loss, wanted in (
        (LOGISTIC_RIDGE, "logistic", LOGISTIC),
        (SQUARED_RIDGE, "squared", SQUARED),
    ):
        for name, n in pairs(wanted):
            scaled = name in SCALED
            yield cell(family, name, n, lambda seed, a=(loss, scaled, n): ridge.ways(*a, seed))
    for name, n in pairs(NETWORKS):
        arguments = (name, name in SCALED, n)
        yield cell(NETWORK, name, n, lambda seed, a=arguments: networks.ways(*a, seed))
    for name, n in pairs(PATHS):
        yield cell(PATH, name, n, lambda seed, a=(name in SCALED, n): paths.ways(*a, seed))
    for name, n in pairs(TABLES):
        yield Cell(
            TABLE, name, n, lambda seed, a=(name, n): front.draw(*a, seed),
            lambda _: front.ways(), TABLE_REPLICATIONS[n],
        )  # fmt: skip


def pairs(wanted: dict[str, tuple[int, ...]]) -> list[tuple[str, int]]:
    return [(name, n) for name, sizes in wanted.items() for n in sizes]
