"""Leave-one-out by formula against literal refits, row by row, on real tables.

    python studies/refits.py [--data FOLDER] [--rows 80] [--out refits.json]

Features are made of all rows; then the model is trained again without each row in turn, and its
loss on that row is the truth. The ridge is the best of three by the formula, and a tenth of it,
where the model follows the rows more closely and the formula is harder put to it.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from pathlib import Path

import numpy as np
import torch
from tables import prepared, split

import decoupled_descent as dd
from decoupled_descent.tables.features.candidates import as_features

CASES = [  # table, features
    ("breast_cancer", "linear"),
    ("ionosphere", "rbf(1)"),
    ("saheart", "matern(2)"),
    ("wine", "linear"),
    ("glass", "rbf(1)"),
    ("vehicle", "linear"),
    ("diabetes", "rbf(1)"),
    ("concrete", "matern(1)"),
]


def problem(data, name, n, features):
    X, y, _, _, task = split(data, name, n, 0)
    A = np.asarray(prepared(X).fit_transform(X), float)
    (kernel,) = as_features(features)
    phi = kernel.fit_transform(A)
    count = 1 if task == "regression" else int(y.max()) + 1
    if task == "regression":
        labels, loss = torch.tensor((y - y.mean()) / y.std()), "squared"
    elif count == 2:
        labels, loss, count = torch.tensor(y).double(), "logistic", 1
    else:
        labels, loss = torch.tensor(y), "cross_entropy"
    return phi, labels, loss, count


def objective(loss, outputs):
    return dd.Objective(dd.heads.Linear(outputs, intercept=True).double(), loss)


def loss_of(loss, outputs, y):
    """The mean loss, written out."""
    if loss == "cross_entropy":
        return torch.nn.functional.cross_entropy(outputs, y)
    if loss == "logistic":
        return torch.nn.functional.binary_cross_entropy_with_logits(outputs.reshape(-1), y)
    return 0.5 * (outputs.reshape(-1) - y).square().mean()


def compare(phi, y, loss, outputs, ridge):
    """Mean losses with every row left out: by formula, and by training again."""
    described = objective(loss, outputs)
    algorithm = dd.DecoupledNewton(ridge, tolerance=1e-12)
    run = dd.fit(phi, y, described, algorithm, 500, seed=0, progress=False)
    literal = []
    for row in range(len(y)):
        kept = torch.arange(len(y)) != row
        rows = dd.Rows(phi[kept], y[kept])
        again = dd.fit(rows, None, described, algorithm, 500, state=run.state, progress=False)
        output = again.predict(phi[row : row + 1])
        literal.append(float(loss_of(loss, output, y[row : row + 1])))
    fitted = loss_of(loss, run.predict(phi), y)
    repaired = run.best.info.notes["repaired"]
    return float(fitted), run.best.train_error, float(np.mean(literal)), repaired


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=Path(os.environ.get("DECOUPLED_DATA", "data"), "tables"))
    parser.add_argument("--rows", type=int, default=80)
    parser.add_argument("--out")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    print("| table | model | loss | ridge | fitted | by formula | refits | difference | refitted |")
    print("|---|---|---|---|---|---|---|---|---|")
    records = []
    for name, features in CASES:
        phi, y, loss, outputs = problem(asked.data, name, asked.rows, features)
        tried = (0.1, 1.0, 10.0) if features == "linear" else (0.01, 0.1, 1.0)
        errors = []
        for ridge in tried:
            algorithm = dd.DecoupledNewton(ridge)
            run = dd.fit(phi, y, objective(loss, outputs), algorithm, 500, seed=0,
                         progress=False)  # fmt: skip
            errors.append(run.best.train_error)
        best = tried[int(np.argmin(errors))]
        for ridge in (best, best / 10):
            fitted, formula, truth, refitted = compare(phi, y, loss, outputs, ridge)
            print(
                f"| {name} | {features} | {loss} | {ridge:g} | {fitted:.4f} | {formula:.4f} "
                f"| {truth:.4f} | {100 * (formula / truth - 1):+.2f} % | {refitted} |",
                flush=True,
            )
            records.append({
                "table": name, "model": features, "loss": loss, "ridge": ridge, "fitted": fitted,
                "formula": formula, "refits": truth, "refitted": refitted,
            })  # fmt: skip
    if asked.out:
        with open(asked.out, "w") as out:
            json.dump(records, out, indent=1)


if __name__ == "__main__":
    main()
