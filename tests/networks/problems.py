"""Small problems, networks, and training without rows as anyone would write it."""

from __future__ import annotations

import copy

import torch
from torch import nn


def rows(n=60, d=4, classes=3, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, d, generator=generator, dtype=dtype)
    y = (X[:, 0] + 0.5 * torch.randn(n, generator=generator, dtype=dtype)).argsort().argsort()
    return X, y * classes // n


def perceptron(d=4, outputs=3, dtype=torch.float64, middle=None, seed=0):
    torch.manual_seed(seed)
    parts = [nn.Linear(d, 5), *([] if middle is None else [middle]), nn.Tanh()]
    return nn.Sequential(*parts, nn.Linear(5, outputs)).to(dtype)


def batches(n, size, epochs, seed=0):
    """The same batches for both ways of training."""
    generator = torch.Generator().manual_seed(seed)
    return [list(torch.split(torch.randperm(n, generator=generator), size)) for _ in range(epochs)]


def train_without(model, criterion, optimizer, X, y, plan, keep, scheduler=None):
    """Ordinary training on the batches of a plan, with the rows that are not kept removed."""
    model = copy.deepcopy(model).train()
    optimizer = optimizer(list(model.parameters()))
    schedule = None if scheduler is None else scheduler(optimizer)
    for epoch in plan:
        for batch in epoch:
            some = batch[keep[batch]]
            optimizer.zero_grad()
            criterion(model(X[some]), y[some]).backward()
            optimizer.step()
        if schedule is not None:
            schedule.step()
    return model.eval()


def train_folds(training, X, y, plan, scheduler=None):
    schedules = [] if scheduler is None else [scheduler(o) for o in training.optimizers]
    for epoch in plan:
        for batch in epoch:
            training.step(X[batch], y[batch], batch)
        for schedule in schedules:
            schedule.step()


def copy_of(training, k):
    """Copy k as it is now."""
    return training._stack.module(k, training._stack.snapshot())
