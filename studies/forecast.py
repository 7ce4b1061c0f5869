"""The forecast of the time of a fit, beside the time that it takes.

    python studies/forecast.py ROWS COLUMNS CLASSES

0 classes stand for numbers. Rows are drawn around three centres for each class. Times are CPU
seconds on one thread, of the search with all default members, without the diagnosis.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import torch

from decoupled_descent.leave_one_out.linear_algebra import product_speed
from decoupled_descent.tables.features.candidates import as_features
from decoupled_descent.tables.members.catalogue import AUTO
from decoupled_descent.tables.members.interface import TableSize
from decoupled_descent.tables.search.cost import expected_seconds, member_operations
from decoupled_descent.tables.search.ranking import KEPT
from decoupled_descent.tables.search.search import MOST_PARAMETERS, search_models


def draw(n, d, classes):
    """Rows and labels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    if not classes:
        return X, torch.from_numpy(np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + rng.normal(size=n) / 2)
    which = rng.integers(0, 3 * classes, n)
    X += 0.6 * rng.normal(size=(3 * classes, d))[which]
    return X, torch.from_numpy(which % classes).to(torch.float64 if classes == 2 else torch.int64)


def compare(n, d, classes):
    """Print both times, and their ratio."""
    X, y = draw(n, d, classes)
    loss = {0: "squared", 2: "logistic"}.get(classes, "cross_entropy")
    outputs = classes if classes > 2 else 1
    size = TableSize(n, d, outputs, classes > 0)
    maps = [one for one in as_features("auto") if one.suits(X)]
    for one in maps if classes > 2 else ():
        one.limit_width(n, MOST_PARAMETERS // classes)
    widths = [one.width(n, d) for one in maps[-KEPT - 1 :]]
    others = member_operations(AUTO, size)
    speed = float(np.median([product_speed() for _ in range(5)]))
    expected = expected_seconds(n, widths, outputs, len(maps), others, speed)
    start = time.process_time()
    search_models(X, y, loss, outputs=outputs, members=AUTO, progress=False)
    seconds = time.process_time() - start
    print(
        f"| {n} × {d} | {classes or 'numbers'} | {expected:.2f} | {seconds:.2f} | "
        f"{expected / seconds:.2f} |"
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    compare(*map(int, sys.argv[1:4]))
