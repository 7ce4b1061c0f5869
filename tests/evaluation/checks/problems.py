"""Data, runs and lookups that the tests of the diagnostics share."""

import numpy as np

import decoupled_descent as dd

ODD = dd.OrthogonalDecoupledDescent(2.0, 0.98, 10.0, reduction="mean")
WHITE = dd.DecoupledDescent(2.0, 0.98, reduction="mean")
GD = dd.GradientDescent(2.0, reduction="mean")


def clean(n=600, d=60, seed=0):
    return dd.mixtures.flipped_classes(d, 2.0, labels=(0.0, 1.0)).sample(n, seed=seed)


def objective(outputs=1, loss="logistic", width=3):
    return dd.Objective(dd.heads.TwoLayer(width, outputs=outputs, bias=True, seed=0), loss)


def trained(X, y, algorithm=ODD, steps=60, what=None):
    return dd.fit(X, y, what or objective(), algorithm, steps, progress=False)


def find(diagnosis, name):
    (found,) = [finding for finding in diagnosis.findings if finding.name == name]
    return found


def status(diagnosis, name):
    return find(diagnosis, name).status


def value(diagnosis, name):
    return find(diagnosis, name).value


def names(diagnosis):
    return {finding.name for finding in diagnosis.findings}


def grouped_patients(seed, count=40, rows=5):
    """Rows of patients next to each other, whose labels are mostly their own."""
    rng = np.random.default_rng(seed)
    own = rng.normal(size=(count, 6))
    chance = 1 / (1 + np.exp(-own[:, 0] - 3 * rng.normal(size=count)))
    who = np.repeat(np.arange(count), rows)
    X = own[who] + 0.3 * rng.normal(size=(len(who), 6))
    return X, (rng.random(len(who)) < chance[who]).astype(int), who
