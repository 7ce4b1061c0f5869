"""Rows left out of sparse linear models: one by one, or in ten folds?

    python studies/sparse_rows.py errors [DRAWS]
    python studies/sparse_rows.py sets

``errors`` follows the path of penalties on drawn tables, with each row left out and with ten folds,
and compares both errors with that of 500 new rows: the mean difference, and the deviation of the
errors from draw to draw.

``sets`` leaves single rows out by the formula for the active columns: Newton's method for these
columns alone, with fixed signs, on the rows without one. It is exact if the conditions of a minimum
hold for all columns afterwards; otherwise the row has changed the set, and needs a refit.
"""

from __future__ import annotations

import itertools
import sys
import time
import warnings

import numpy as np
import torch

from decoupled_descent.objective.losses import get_loss
from decoupled_descent.tables.members import sparse_linear, sparse_path
from decoupled_descent.tables.members.interface import TrainingTable
from decoupled_descent.tables.members.sparse_linear import FOLDS, path
from decoupled_descent.tables.members.sparse_path import RATIO, RIDGE, SparseProblem, steepest
from decoupled_descent.tables.members.standardised import column_moments
from decoupled_descent.tables.prediction.predictor import standardised
from decoupled_descent.tables.search.stacking import folds_of

#: Rows, columns, and the coefficients of the first 15 columns.
SETTINGS = ((50, 500, 0.0), (50, 500, 1.0), (100, 500, 1.0))
STEPS = 6  # penalties of the path
NEW = 500


def draw(n, d, signal, seed):
    """A table of n rows with labels from a logistic model, and new rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + NEW, d))
    logits = signal * X[:, :15].sum(1)
    y = (rng.random(n + NEW) < 1 / (1 + np.exp(-logits))).astype(float)
    loss, labels = get_loss("logistic"), torch.from_numpy(y[:n])
    folds = folds_of(n, None, 0, loss.classes(labels))
    return TrainingTable(X[:n], labels, loss, 1, None, None, folds), X[n:], y[n:]


def errors(draws):
    """Print the errors of both ways, beside those of new rows."""
    sparse_linear.PATIENCE = STEPS
    for n, d, signal in SETTINGS:
        found = {"rows": [], "folds": [], "new": []}
        for seed in range(draws):
            table, X, y = draw(n, d, signal, seed)
            moments = column_moments(table)
            ways = {"rows": np.arange(n), "folds": table.folds.numpy() % FOLDS}
            for name, folds in ways.items():
                steps = list(itertools.islice(path(table, *moments, folds), STEPS))
                found[name].append([float(one.errors[-1]) for one in steps])
            outputs = [one.model.outputs(standardised(X, *moments))[:, 0] for one in steps]
            found["new"].append([np.logaddexp(0, (1 - 2 * y) * one).mean() for one in outputs])
        print(f"\n{n} x {d}, coefficients {signal}, {draws} draws; columns are penalties")
        truth = np.array(found["new"])
        print("new rows     ", " ".join(f"{v:7.3f}" for v in truth.mean(0)))
        for name in ("rows", "folds"):
            values = np.array(found[name])
            away = values - truth
            print(f"{name:5s} bias   ", " ".join(f"{v:+7.3f}" for v in away.mean(0)))
            print("      spread ", " ".join(f"{v:7.3f}" for v in values.std(0, ddof=1)))


def without(problem, weights, penalty, theta, bias):
    """The minimum for the active columns with other weights, and whether it is one for all."""
    used = np.flatnonzero(theta[:, 0])
    A = np.c_[np.ones(len(problem.X)), problem.X[:, used]]
    signs = np.r_[0.0, np.sign(theta[used, 0])]
    squares = penalty * RIDGE * np.r_[0.0, np.ones(len(used))]
    beta = np.r_[bias, theta[used, 0]]
    for _ in range(20):
        mean = 1 / (1 + np.exp(-A @ beta))
        slope = A.T @ (weights * (mean - problem.Y[:, 0])) + penalty * signs + squares * beta
        bend = (A.T * (weights * mean * (1 - mean))) @ A + np.diag(squares)
        step = np.linalg.solve(bend, slope)
        beta -= step
        if np.abs(step).max() < 1e-9:
            break
    missing = problem.Y[:, 0] - 1 / (1 + np.exp(-A @ beta))
    steep = np.abs(problem.X.T @ (weights * missing))
    steep[used] = 0.0
    stays = bool((np.sign(beta[1:]) == signs[1:]).all() and steep.max() <= penalty)
    return beta[0] + problem.X[:, used] @ beta[1:], stays


def sets():
    """Print how many rows keep the set, the errors of both ways, and their times."""
    sparse_path.TOLERANCE, sparse_path.SETTLED, sparse_path.PARABOLAS = 1e-10, 1e-8, 200
    for n, d, signal in SETTINGS:
        table, _, _ = draw(n, d, signal, 0)
        X = np.asfortranarray(standardised(table.X, *column_moments(table)))
        Y = table.y.numpy()[:, None]
        problem = SparseProblem(X, Y, np.full(n, 1 / n), True)
        last, model = steepest(problem), problem.null()
        print(f"\n{n} x {d}, coefficients {signal}")
        for number in range(STEPS):
            penalty = RATIO * last
            model = problem.minimise(penalty, last, model)
            losses, stay, seconds = [], 0, [0.0, 0.0]
            for row in range(n):
                weights = table.weights_without(np.arange(n) == row) / n
                start = time.process_time()
                outputs, stays = without(problem, weights, penalty, *model)
                seconds[0] += time.process_time() - start
                start = time.process_time()
                other = SparseProblem(X, Y, weights, True).minimise(penalty, penalty, model)
                seconds[1] += time.process_time() - start
                stay += stays
                sign = 1 - 2 * Y[row, 0]
                pair = [outputs[row], float(other.outputs(X[row : row + 1])[0, 0])]
                losses.append([*np.logaddexp(0, sign * np.array(pair)), stays])
            losses, last = np.array(losses), penalty
            kept = losses[losses[:, 2] > 0]
            worst = np.abs(kept[:, 0] - kept[:, 1]).max() if len(kept) else 0.0
            print(
                f"penalty {number}: {int(model.theta.any(1).sum()):3d} columns, {stay:3d} rows "
                f"keep them, mean loss {losses[:, 0].mean():.4f} by the formula and "
                f"{losses[:, 1].mean():.4f} by refits, largest difference of those rows "
                f"{worst:.1e}, {1e3 * seconds[0] / n:.2f} and {1e3 * seconds[1] / n:.2f} ms per row"
            )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1] == "errors":
        errors(int(sys.argv[2]) if len(sys.argv) > 2 else 20)
    else:
        sets()
