"""The default classifier on many rows: time, memory, and whether its estimate holds.

``python studies/large.py ROWS [--svm SETTINGS]`` prints one line for the library, and one each
for logistic regression, boosting and, if asked, so many of the twelve settings of a support vector
machine, with the five folds by which their users would choose and judge. Rows are drawn: 50
columns, two classes, a curved border. The test error is that of 20,000 other rows. Times are
processor seconds on one thread.

``--grid SETTINGS`` times so many of the twelve settings by the accuracy of five folds, without
probabilities, as the usual grid search does, and prints the ratio of times: the library over
logistic regression, boosting and the grid of twelve together.
"""

import argparse
import resource
import time
import warnings

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import cross_val_predict, cross_val_score
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

import decoupled_descent as dd

COLUMNS, NEW_ROWS = 50, 20_000


def draw(rows, rng):
    """Columns of unequal scale; ten of them matter, two by their product, two by their size."""
    X = rng.normal(size=(rows, COLUMNS)) * np.linspace(1, 0.2, COLUMNS)
    signal = X[:, :6].sum(1) + 2 * X[:, 6] * X[:, 7] + np.abs(X[:, 8]) - np.abs(X[:, 9])
    return X, (rng.random(rows) < 1 / (1 + np.exp(-signal))).astype(int)


def report(name, start, estimate, stderr, losses):
    seconds = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{name}: {seconds:.0f} s, at most {memory:.1f} GB so far; estimate {estimate:.4f} ± "
        f"{stderr:.4f}, truth {losses.mean():.4f} ± {losses.std() / len(losses) ** 0.5:.4f}",
        flush=True,
    )
    return seconds


def losses(said, y):
    return -np.log(np.clip(said[np.arange(len(y)), y], 1e-15, 1))


def settings(X):
    """C and gamma of the twelve support vector machines."""
    unit = COLUMNS * X.var()
    return [(c, g / unit) for c in (0.1, 1, 10, 100) for g in (0.2, 1, 5)]


def grid_seconds(X, y, count):
    """Time of the twelve settings with five folds and a last fit, from some of them, spread out."""
    every = settings(X)
    start = time.process_time()
    for c, gamma in every[len(every) // (2 * count) :: len(every) // count][:count]:
        cross_val_score(SVC(C=c, gamma=gamma), X, y, cv=5)
    seconds = (time.process_time() - start) * len(every) / count
    print(f"svm, twelve settings, from {count} of them: {seconds:.0f} s", flush=True)
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=int)
    parser.add_argument("--svm", type=int, default=0, help="how many of twelve settings to time")
    parser.add_argument("--grid", type=int, default=0, help="how many settings of a grid to time")
    asked = parser.parse_args()
    rng = np.random.default_rng(0)
    (X, y), (X_new, y_new) = draw(asked.rows, rng), draw(NEW_ROWS, rng)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    start = time.process_time()
    model = dd.DecoupledClassifier().fit(X, y)
    found = model.estimated_test_error_, model.estimated_test_error_stderr_
    own = report("this library", start, *found, losses(model.predict_proba(X_new), y_new))
    seconds = 0.0
    with threadpool_limits(1):
        rivals = {
            "logistic": LogisticRegressionCV(
                Cs=10, cv=5, scoring="neg_log_loss", l1_ratios=(0,), use_legacy_attributes=False
            ),
            "boosting": HistGradientBoostingClassifier(random_state=0),
        }
        for c, gamma in settings(X)[: asked.svm]:
            rivals[f"svm, C={c}, gamma={gamma:.3g}"] = SVC(C=c, gamma=gamma, probability=True)
        for name, rival in rivals.items():
            start = time.process_time()
            judged = losses(cross_val_predict(rival, X, y, cv=5, method="predict_proba"), y)
            rival.fit(X, y)
            mean, stderr = judged.mean(), judged.std() / len(judged) ** 0.5
            taken = report(name, start, mean, stderr, losses(rival.predict_proba(X_new), y_new))
            seconds += 0.0 if name.startswith("svm") else taken
        if asked.grid:
            seconds += grid_seconds(X, y, asked.grid)
            print(f"ratio of times: {own / seconds:.3f}")


if __name__ == "__main__":
    main()
