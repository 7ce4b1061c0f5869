"""Small tables for members of mixtures."""

import numpy as np
import torch

from decoupled_descent.objective.losses import get_loss
from decoupled_descent.tables.members.interface import TrainingTable


def rows(n=80, d=4, seed=0):
    """Columns of different scales, one of large numbers with small differences."""
    X = np.random.default_rng(seed).normal(size=(n, d)) * 10.0 ** np.arange(d)
    X[:, -1] += 1e9
    return X


def table(kind="logistic", n=80, outputs=1, weights=None, groups=None, seed=0):
    """A table in which the product of two columns decides."""
    X = rows(n, seed=seed)
    noise = np.random.default_rng(seed + 1).normal(size=(n, outputs))
    signal = np.sign(X[:, :1] * X[:, 1:2]) + 0.5 * noise
    if kind == "squared":
        y = torch.from_numpy(signal if outputs > 1 else signal[:, 0])
    elif kind == "poisson":
        y = torch.from_numpy(np.random.default_rng(seed + 2).poisson(np.exp(signal[:, 0])) / 2.0)
    elif kind == "logistic":
        y = torch.from_numpy((signal[:, 0] > 0).astype(float))
    else:
        y = torch.from_numpy(np.digitize(signal[:, 0], [-0.7, 0.7]))
    folds = (torch.arange(n) if groups is None else groups) % 20
    return TrainingTable(X, y, get_loss(kind), outputs, weights, groups, folds)
