"""Duplicate rows in real tables: the value of the check, and the bias of the estimate on tecator.

    python studies/copies.py [--data FOLDER]

The rows of a random split that judge have their copies among those that train, and look as good as
these. So copies are kept on one side of the split here.
"""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path

import numpy as np

import decoupled_descent as dd

MOST = 600  # rows of a table
SPLITS = 12


def finding(model):
    return next(one for one in model.diagnostics_.findings if one.name == "duplicate rows")


def tables(data):
    for name in ("ionosphere", "tecator", "concrete", "glass", "tissue"):
        with np.load(data / f"{name}.npz") as arrays:
            X, y = arrays["X"].astype(float), arrays["y"]
        some = np.random.default_rng(0).permutation(len(X))[:MOST] if len(X) > MOST else slice(None)
        kind = dd.DecoupledRegressor if y.dtype.kind == "f" else dd.DecoupledClassifier
        found = finding(kind().fit(X[some], y[some]))
        print(f"{name:12} {found.value:.2f} {found.status:8} {found.reason}", flush=True)


def tecator(data):
    with np.load(data / "tecator.npz") as arrays:
        X, y = arrays["X"], arrays["y"]
    codes = np.unique(X, axis=0, return_inverse=True)[1].reshape(-1)
    print(f"tecator: {len(X)} rows, {codes.max() + 1} different ones")
    for name, once in (("with copies", False), ("one of each", True)):
        said, true, z = [], [], []
        for split in range(SPLITS):
            order = np.random.default_rng(split).permutation(codes.max() + 1)
            train = np.flatnonzero(np.isin(codes, order[: len(order) // 2]))
            rest = np.setdiff1d(np.arange(len(X)), train)
            train = train[np.unique(codes[train], return_index=True)[1]] if once else train
            rest = rest[np.unique(codes[rest], return_index=True)[1]]
            model = dd.DecoupledRegressor().fit(X[train], y[train])
            errors = (model.predict(X[rest]) - y[rest]) ** 2
            said.append(model.estimated_test_error_)
            true.append(errors.mean())
            noise = errors.std() / math.sqrt(len(errors))
            z.append((said[-1] - true[-1]) / np.hypot(model.estimated_test_error_stderr_, noise))
        print(
            f"  {name}: estimate {np.mean(said):.2f}, true {np.mean(true):.2f}, z {np.mean(z):.2f}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, default=Path(os.environ.get("DECOUPLED_DATA", "data"), "tables")
    )
    folder = parser.parse_args().data
    tables(folder)
    tecator(folder)
