"""Intervals of a mean of squared errors with long tails.

    python studies/heavy_tails.py losses [DRAWS]   # independent errors of several laws
    python studies/heavy_tails.py models [DRAWS]   # the default regressor, noise of these laws

Each line counts how often 95 % intervals cover, by the standard error (of the root of the mean, the
largest loss counted twice) and with a Pareto tail, and gives their median width in units of the
truth. The prior of the tail's shape was chosen on the first four laws of ``losses``.
"""

import sys
import warnings

import numpy as np
import torch

import decoupled_descent as dd
from decoupled_descent.checks import error_interval
from decoupled_descent.evaluation.heavy_tail import mean_interval

NEW = 20_000
#: Errors, and the mean of their squares.
LAWS = {
    "normal": (lambda rng, n: rng.normal(size=n), 1.0),
    "t, 5 degrees of freedom": (lambda rng, n: rng.standard_t(5, n), 5 / 3),
    "t, 3 degrees of freedom": (lambda rng, n: rng.standard_t(3, n), 3.0),
    "lognormal": (lambda rng, n: np.exp(rng.normal(size=n)) - np.exp(0.5), (np.e - 1) * np.e),
    "Laplace": (lambda rng, n: rng.laplace(size=n), 2.0),
    "uniform": (lambda rng, n: rng.uniform(-1, 1, n), 1 / 3),
    "one in 20 is ten times larger": (
        lambda rng, n: rng.normal(size=n) * np.where(rng.random(n) < 0.05, 10, 1),
        0.95 + 5.0,
    ),
}


def line(name, n, ends, truths):
    usual, tail = np.array(ends["usual"]), np.array(ends["tail"])
    truths = np.asarray(truths)
    cells = []
    for low, high in (usual.T, tail.T):
        inside = (low <= truths) & (truths <= high)
        cells.append(f"{100 * inside.mean():.0f} %, {np.median((high - low) / truths):.2f}")
    print(f"| {name} | {n} | {' | '.join(cells)} |", flush=True)


def losses(draws):
    for name, (draw, mean) in LAWS.items():
        for n in (30, 100, 400, 1000):
            rng, ends = np.random.default_rng(0), {"usual": [], "tail": []}
            for _ in range(draws):
                values = draw(rng, n) ** 2
                spread = np.append(values, values.max()).std(ddof=1) / n**0.5
                ends["usual"].append(error_interval(values.mean(), spread))
                ends["tail"].append(mean_interval(values))
            line(name, n, ends, np.full(draws, mean))


def models(draws):
    for name, (draw, mean) in LAWS.items():
        for n in (100, 400):
            ends, truths = {"usual": [], "tail": []}, []
            for seed in range(draws):
                rng = np.random.default_rng(seed)
                X, new = rng.normal(size=(n, 6)), rng.normal(size=(NEW, 6))
                scale = 1 / mean**0.5
                y = X[:, 0] + 0.5 * X[:, 1] * X[:, 2] + scale * draw(rng, n)
                model = dd.DecoupledRegressor().fit(X, y)
                error, stderr = model.estimated_test_error_, model.estimated_test_error_stderr_
                ends["usual"].append(error_interval(error, stderr))
                ends["tail"].append(model.estimated_test_error_interval_)
                missed = model.predict(new) - new[:, 0] - 0.5 * new[:, 1] * new[:, 2]
                truths.append(np.mean(missed**2) + 1.0)  # the noise of new rows in closed form
            line(name, n, ends, truths)


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print("| law | rows | standard error | Pareto tail |")
    print("|---|---|---|---|")
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    {"losses": losses, "models": models}[sys.argv[1]](count)
