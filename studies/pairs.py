"""Standard errors of softmax networks: pairs of rows, and the optimism of the head.

Run with ``python studies/pairs.py OUT.json [replications]``; about ten minutes on one core
with 100 of them. The results that the pages quote are in ``studies/pairs.json``.
"""

import json
import sys
from pathlib import Path

import torch

import decoupled_descent as dd

STEPS = (0, 20, 40, 60, 80)
SETTINGS = {"snr 1, rate 0.2": (1.0, 0.2), "snr 2, rate 0.1": (2.0, 0.1)}
ALGORITHMS = {"no folds": {}, "head_folds=5": {"head_folds": 5}}


def three_classes(d, snr):
    means = torch.zeros(3, d, dtype=torch.float64)
    for j in range(3):
        means[j, j * (d // 3) : (j + 1) * (d // 3)] = snr * 3**0.5
    return dd.GaussianMixture(means, [1 / 3] * 3, [0.0, 1.0, 2.0])


def study(snr, lr, replications, n=500):
    """Mean and spread of z = (train − test)/stderr by step, with and without folds.

    Folds do not change the parameters, so one test error serves both.
    """
    mixture = three_classes(n, snr)
    X_test, y_test = mixture.sample(20_000, seed=10**6)
    X_test, y_test = X_test.float(), y_test.long()
    found = {step: [] for step in STEPS}
    for seed in range(replications):
        X, y = mixture.sample(n, seed=seed)
        torch.manual_seed(seed)
        head = torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Linear(5, 3))
        objective = dd.Objective(head, "cross_entropy", width=5)
        algorithms = [dd.DecoupledDescent(lr, **options) for options in ALGORITHMS.values()]
        watched = [[] for _ in algorithms]
        for algorithm, seen in zip(algorithms, watched, strict=True):
            dd.fit(
                X.float(), y.long(), objective, algorithm, 81, seed=seed, callbacks=[seen.append]
            )
        for step in STEPS:
            state = watched[0][step].state
            with torch.no_grad():
                test = objective.losses(X_test @ state.theta.T, y_test, state.head).mean()
            row = []
            for seen in watched:
                gap = seen[step].train_error - float(test)
                alone = float(seen[step].info.losses.std()) / n**0.5
                row += [gap, gap / alone, gap / seen[step].train_error_stderr]
            found[step].append(row)
    summary = {}
    for step, rows in found.items():
        columns = torch.tensor(rows, dtype=torch.float64).T.view(len(ALGORITHMS), 3, -1)
        summary[step] = {
            name: {
                "mean_gap": float(gap.mean()),
                "stderr_of_mean_gap": float(gap.std() / len(gap) ** 0.5),
                "z_from_sd": [float(alone.mean()), float(alone.std())],
                "z": [float(whole.mean()), float(whole.std())],
            }
            for name, (gap, alone, whole) in zip(ALGORITHMS, columns, strict=True)
        }
        print(step, summary[step], flush=True)
    return summary


if __name__ == "__main__":
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    results = {name: study(*settings, count) for name, settings in SETTINGS.items()}
    results["replications"] = count
    Path(sys.argv[1]).write_text(json.dumps(results, indent=1) + "\n")
