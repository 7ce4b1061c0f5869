"""How often *trust* is right, and how often it is withheld without need.

    python studies/verdicts.py [DRAWS]

Default estimators on drawn tables, honest ones and bad ones: a column that leaks the target,
duplicates, patients without groups, drift in time, long tails, few rows. The truth is the error on
4,000 rows as they will be: new patients, later rows, a leaking column without its information. An
estimate is wrong if the truth is outside its 95 % interval.
"""

import sys
import warnings
from collections import Counter

import numpy as np
import torch

import decoupled_descent as dd

NEW = 4000


def plain(rng, n, d=8):
    X = rng.normal(size=(n, d))
    return X, X[:, 0] + 0.5 * X[:, 1] * X[:, 2]


def classes(rng, n):
    X, mean = plain(rng, n)
    return X, (rng.random(n) < 1 / (1 + np.exp(-2 * mean))).astype(int)


def numbers(rng, n, noise=None):
    X, mean = plain(rng, n)
    return X, mean + (rng.normal(size=n) if noise is None else noise(rng, n))


def honest_classes(rng):
    return *classes(rng, 150), *classes(rng, NEW)


def honest_numbers(rng):
    return *numbers(rng, 150), *numbers(rng, NEW)


def no_signal(rng):
    return rng.normal(size=(100, 5)), rng.integers(0, 2, 100), *(
        rng.normal(size=(NEW, 5)), rng.integers(0, 2, NEW)
    )  # fmt: skip


def wide(rng):
    X, new = rng.normal(size=(80, 300)), rng.normal(size=(NEW, 300))
    y, later = (A[:, :5].sum(1) + rng.normal(size=len(A)) > 0 for A in (X, new))
    return X, y.astype(int), new, later.astype(int)


def leak(rng):
    (X, y), (new, later) = classes(rng, 150), classes(rng, NEW)
    known = y + 0.05 * rng.normal(size=150)
    return np.c_[X, known], y, np.c_[new, rng.choice(known, NEW)], later


def copies(rng):
    X, y = numbers(rng, 100)
    again = rng.choice(100, 60)
    return np.r_[X, X[again]], np.r_[y, y[again]], *numbers(rng, NEW)


def patients(rng):
    def visits(count, each):
        who = np.repeat(np.arange(count), each)
        X = rng.normal(size=(count, 6))[who] + 0.3 * rng.normal(size=(count * each, 6))
        level = rng.normal(size=count)[who]
        return X, X[:, 0] + 1.5 * level + 0.3 * rng.normal(size=count * each)

    return *visits(30, 6), *visits(NEW // 4, 4)


def drift(rng):
    def rows(times):
        X = rng.normal(size=(len(times), 5))
        slope = np.cos(3 * times)
        return np.c_[X, times], slope * X[:, 0] + 3 * times + 0.3 * rng.normal(size=len(times))

    return *rows(np.sort(rng.random(200))), *rows(1 + 0.3 * rng.random(NEW))


def tails(rng):
    def noise(rng, n):
        return rng.standard_t(3, n)

    return *numbers(rng, 100, noise), *numbers(rng, NEW, noise)


def tiny_classes(rng):
    X, y = classes(rng, 12)
    y[:2] = 0, 1
    return X, y, *classes(rng, NEW)


def tiny_numbers(rng):
    return *numbers(rng, 12), *numbers(rng, NEW)


PROBLEMS = {
    "classes": honest_classes,
    "numbers": honest_numbers,
    "no signal": no_signal,
    "more columns than rows": wide,
    "long tails (t₃)": tails,
    "12 rows, classes": tiny_classes,
    "12 rows, numbers": tiny_numbers,
    "a column leaks the target": leak,
    "duplicates": copies,
    "patients, six rows each": patients,
    "later rows, after a drift": drift,
}


def fit(X, y, new, later):
    """The verdict, and whether the truth is inside the interval."""
    if y.dtype.kind == "i":
        model = dd.DecoupledClassifier().fit(X, y)
        chances = model.predict_proba(new)
        truth = -np.log(chances[np.arange(len(later)), later]).mean()
    else:
        model = dd.DecoupledRegressor().fit(X, y)
        truth = np.mean((model.predict(new) - later) ** 2)
    low, high = model.estimated_test_error_interval_
    return model.diagnostics_.verdict, low <= truth <= high


def main(draws):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print("| table | fits | estimate right | *trust* | *trust* and right | trust withheld, right |")
    print("|---|---|---|---|---|---|")
    total = Counter()
    for name, problem in PROBLEMS.items():
        results = [fit(*problem(np.random.default_rng(seed))) for seed in range(draws)]
        right = sum(inside for _, inside in results)
        trusted = [inside for verdict, inside in results if verdict == "trust"]
        withheld = right - sum(trusted)
        share = f"{sum(trusted)} of {len(trusted)}" if trusted else "–"
        print(f"| {name} | {draws} | {right} | {len(trusted)} | {share} | {withheld} |", flush=True)
        total.update(fits=draws, right=right, trust=len(trusted), both=sum(trusted))
    withheld = total["right"] - total["both"]
    print(f"| all | {total['fits']} | {total['right']} | {total['trust']} | {total['both']} of "
          f"{total['trust']} | {withheld} |")  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
