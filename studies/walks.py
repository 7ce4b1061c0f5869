"""How many files a call passes, how many of them branch, and how many decide something.

    python studies/walks.py

A file *decides* if the set of its lines that run depends on the data: the same call is made with
six tables of the same shape and with the same options (a signal, none, an interaction, long tails,
copies of rows, whole numbers). A file *branches* if a function of it ran that has an ``if`` or a
``while`` which is more than a check.
"""

from __future__ import annotations

import ast
import sys
import warnings
from collections import defaultdict
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

import decoupled_descent as dd

ROOT = str(Path(dd.__file__).parent)
N, D = 80, 5


def tables():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, noise = rng.normal(size=(N, D)), rng.normal(size=N)
        y = (3 * X[:, 0] * (seed != 1) + noise > 0).astype(int)
        if seed == 2:
            y = (X[:, 0] * X[:, 1] > 0).astype(int)
        if seed == 3:
            X = np.exp(2 * X)
        if seed == 4:
            X[N // 2 :] = X[: N // 2]
        if seed == 5:
            X = rng.integers(0, 3, size=(N, D)).astype(float)
            y = (X.sum(1) + noise > D).astype(int)
        yield X, y


def classifier(X, y):
    dd.DecoupledClassifier().fit(X, y)


def estimate(X, y):
    chances = np.clip(1 / (1 + np.exp(-2 * X[:, 0])), 0.01, 0.99)
    found = dd.evaluate(predictions=np.stack([1 - chances, chances], 1), y=y)
    return found.error, found.stderr, found.interval, found.verdict


def network(X, y):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(D, 4), nn.Tanh(), nn.Linear(4, 1))
    X, y = torch.tensor(X).float(), torch.tensor(y).float()
    algorithm = dd.DecoupledGaussNewton()
    run = dd.fit(X, y, model, algorithm, steps=12, loss="logistic", progress=False)
    return run.evaluation.verdict


def lines_of(call):
    """The lines of the package that run, by file."""
    ran = defaultdict(set)

    def local(frame, event, _):
        if event == "line":
            ran[frame.f_code.co_filename].add(frame.f_lineno)
        return local

    sys.settrace(lambda frame, *_: local if frame.f_code.co_filename.startswith(ROOT) else None)
    try:
        call()
    finally:
        sys.settrace(None)
    return ran


def branches(path, lines):
    """Whether a function that ran has a branch that is more than a check."""
    for function in ast.walk(ast.parse(Path(path).read_text(encoding="utf-8"))):
        if not isinstance(function, ast.FunctionDef):
            continue
        if not lines & set(range(function.body[0].lineno, function.end_lineno + 1)):
            continue
        for node in ast.walk(function):
            check = isinstance(node, ast.If) and any(isinstance(x, ast.Raise) for x in node.body)
            if isinstance(node, ast.If | ast.IfExp | ast.While) and not check:
                return True
    return False


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for call in (classifier, estimate, network):
        data = list(tables())
        call(*data[0])  # imports
        runs = [lines_of(partial(call, *one)) for one in data]
        files = set().union(*runs)
        decide = [
            path
            for path in files
            if set.union(*(run[path] for run in runs)) > set.intersection(*(r[path] for r in runs))
        ]
        branch = [path for path in files if branches(path, runs[0][path])]
        print(
            f"{call.__name__}: {len(files)} files run, {len(branch)} branch, {len(decide)} decide"
        )
        for path in sorted(decide):
            print("   ", path.removeprefix(ROOT + "/"))
