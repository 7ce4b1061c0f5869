"""How many rows does an interval need? Coverage of the intervals, by rows.

``python studies/few_rows.py [DRAWS]`` prints the table of docs/diagnostics.md. Four
columns, two of which matter, default
estimators; the test error is that of 1,000 other rows.
"""

import sys
import warnings

import numpy as np
import torch

import decoupled_descent as dd

ROWS = (2, 3, 5, 8, 12, 20, 30, 40, 60)
FRESH = 1000
NOISE = {
    "a number": lambda r, n: r.normal(size=n),
    "a number, t₃ noise": lambda r, n: r.standard_t(3, size=n),
    "two classes": lambda r, n: r.logistic(size=n),
    "two classes, one rare": lambda r, n: r.logistic(size=n) - 1.8,
}


def draw(kind, n, seed):
    """Rows and labels; both classes are among the first n."""
    r = np.random.default_rng([seed, n])
    while True:
        X = r.normal(size=(n + FRESH, 4))
        y = X[:, 0] + 0.5 * X[:, 1] + NOISE[kind](r, len(X))
        if "class" not in kind:
            return X, y
        y = (y > 0).astype(int)
        if len(np.unique(y[:n])) == 2:
            return X, y


def judged(kind, n, seed):
    """Whether the interval covers the truth, whether the estimate was too low, and the verdict."""
    X, y = draw(kind, n, seed)
    fresh, labels = X[n:], y[n:]
    if "class" in kind:
        model = dd.DecoupledClassifier().fit(X[:n], y[:n])
        losses = -np.log(model.predict_proba(fresh)[np.arange(FRESH), labels])
    else:
        model = dd.DecoupledRegressor().fit(X[:n], y[:n])
        losses = (model.predict(fresh) - labels) ** 2
    noise = np.hypot(model.estimated_test_error_stderr_, losses.std() / FRESH**0.5)
    z = (model.estimated_test_error_ - losses.mean()) / noise
    return abs(z) < 1.96, z <= -1.96, model.diagnostics_.verdict


def main(draws):
    names = ("trust", "caution", "do not trust")
    print("| target | rows | interval covers | estimate too low | trust / caution / do not trust |")
    print("|---|---|---|---|---|")
    for kind in NOISE:
        for n in ROWS:
            covers, low, verdicts = zip(*(judged(kind, n, s) for s in range(draws)), strict=True)
            counts = " / ".join(str(verdicts.count(name)) for name in names)
            print(
                f"| {kind} | {n} | {np.mean(covers):.0%} | {np.mean(low):.0%} | {counts} |",
                flush=True,
            )


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
