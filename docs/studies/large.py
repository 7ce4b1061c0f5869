"""Many rows: time and memory of the default search, beside three rivals.

    python docs/studies/large.py ours ROWS      # seconds, gigabytes, estimate and test error
    python docs/studies/large.py rivals ROWS    # seconds of each with its five-fold estimate

50 columns, of which five tell about two classes. CPU seconds on one thread. The support vector
machine has twelve settings and five folds: each setting is timed on one fold, and counted five
times.
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

COLUMNS = 50


def draw(rows, rng):
    """Rows with curved effects, two of them in a product."""
    X = rng.standard_normal((rows, COLUMNS))
    signal = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + X[:, 3] - 0.5 * X[:, 4] ** 2
    return X, (signal + rng.standard_normal(rows) > 0).astype(int)


def ours(X, y, new, labels):
    import decoupled_descent as dd

    start = time.process_time()
    model = dd.DecoupledClassifier().fit(X, y)
    seconds = time.process_time() - start
    chances = model.predict_proba(new)[np.arange(len(labels)), labels]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"ours: {seconds:.0f} s, {peak:.1f} GB; estimate {model.estimated_test_error_:.4f} ± "
        f"{model.estimated_test_error_stderr_:.4f}, test {-np.log(chances).mean():.4f}"
    )


def rivals(X, y):
    start = time.process_time()
    cross_val_score(LogisticRegressionCV(Cs=10, cv=5), X, y, scoring="neg_log_loss", cv=5)
    print(f"logistic regression: {time.process_time() - start:.0f} s", flush=True)
    start = time.process_time()
    cross_val_score(HistGradientBoostingClassifier(), X, y, scoring="neg_log_loss", cv=5)
    print(f"boosting: {time.process_time() - start:.0f} s", flush=True)
    fold, total = len(y) * 4 // 5, 0.0
    for cost in (0.1, 1.0, 10.0, 100.0):
        for gamma in (0.1, 1.0, 10.0):
            start = time.process_time()
            SVC(C=cost, gamma=gamma / COLUMNS).fit(X[:fold], y[:fold]).predict(X[fold:])
            total += 5 * (time.process_time() - start)
            print(f"svm, C={cost}, gamma={gamma}/d: {total:.0f} s so far", flush=True)


def main():
    part, rows = sys.argv[1], int(sys.argv[2])
    rng = np.random.default_rng(0)
    X, y = draw(rows, rng)
    if part == "ours":
        ours(X, y, *draw(20_000, rng))
    else:
        rivals(X, y)


if __name__ == "__main__":
    main()
