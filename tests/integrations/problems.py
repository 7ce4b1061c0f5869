"""Data and a naive reference for the adapters."""

import torch
from torch import nn


def two_classes(n=60, columns=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, columns, generator=generator)
    y = (X[:, 0] + X[:, 1] + torch.randn(n, generator=generator) > 0).long()
    return X, y


def plain_folds(X, y, folds, train):
    """The out-of-fold error of ordinary trainings; ``train(seen)`` returns a module."""
    total = 0.0
    for k in folds.unique():
        module = train(folds != k).eval()
        with torch.no_grad():
            out = folds == k
            total += float(nn.functional.cross_entropy(module(X[out]), y[out], reduction="sum"))
    return total / len(X)


def logits(n=80, outputs=None):
    generator = torch.Generator().manual_seed(0)
    found = torch.randn(n, *([] if outputs is None else [outputs]), generator=generator)
    y = torch.randint(0, outputs or 2, (n,), generator=generator)
    return found.double(), y
