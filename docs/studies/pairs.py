"""Standard errors of softmax networks, with and without the variance of pairs of rows.

Run with ``python docs/studies/pairs.py OUT.json``; about five minutes on one core.
"""

import json
import sys
from pathlib import Path

import torch

import decoupled_descent as dd

STEPS = (0, 20, 40, 60, 80)
SETTINGS = {"snr 1, rate 0.2": (1.0, 0.2, 40), "snr 2, rate 0.1": (2.0, 0.1, 30)}


def three_classes(d, snr):
    means = torch.zeros(3, d, dtype=torch.float64)
    for j in range(3):
        means[j, j * (d // 3) : (j + 1) * (d // 3)] = snr * 3**0.5
    return dd.GaussianMixture(means, [1 / 3] * 3, [0.0, 1.0, 2.0])


def study(snr, lr, replications, n=500):
    """Mean and spread of z = (train − test)/stderr by step, for both standard errors."""
    mixture = three_classes(n, snr)
    X_test, y_test = mixture.sample(20_000, seed=10**6)
    found = {step: [] for step in STEPS}
    for seed in range(replications):
        X, y = mixture.sample(n, seed=seed)
        torch.manual_seed(seed)
        head = torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Linear(5, 3))
        objective, seen = dd.Objective(head, "cross_entropy", width=5), []
        algorithm = dd.DecoupledDescent(lr)
        dd.fit(X, y.long(), objective, algorithm, 81, seed=seed, callbacks=[seen.append])
        for step in STEPS:
            at = seen[step]
            h = X_test @ at.state.theta.T
            with torch.no_grad():
                test = objective.losses(h, y_test.long(), at.state.head).mean()
            gap, alone = at.train_error - float(test), float(at.info.losses.std()) / n**0.5
            found[step].append((gap, gap / alone, gap / at.train_error_stderr))
    summary = {}
    for step, rows in found.items():
        gap, alone, both = torch.tensor(rows).T
        summary[step] = {
            "mean_gap": float(gap.mean()),
            "without_pairs": [float(alone.mean()), float(alone.std())],
            "with_pairs": [float(both.mean()), float(both.std())],
        }
    print(summary, flush=True)
    return summary


if __name__ == "__main__":
    results = {name: study(*settings) for name, settings in SETTINGS.items()}
    Path(sys.argv[1]).write_text(json.dumps(results, indent=1) + "\n")
