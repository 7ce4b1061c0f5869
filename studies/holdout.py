"""Hold-out and cross-validation against decoupled descent, on the same rows.

Each method gets n labelled rows and must return a model and an estimate of its test error:
gradient descent stopped on a 20 % hold-out set, gradient descent stopped by 5-fold cross-validation
and refitted, and decoupled descent stopped on its own train error.

Run with ``python studies/holdout.py OUT.json``; about ten minutes on one core.
"""

import json
import sys
import time
from functools import cache

import torch

import decoupled_descent as dd
from decoupled_descent.datasets.mnist import add_noise, load_mnist, two_digits

REPLICATIONS = 24


def xor(seed):
    mixture = dd.mixtures.xor(1000, 4.0)
    data, test = mixture.sample(1000, seed=2 * seed), mixture.sample(8000, seed=2 * seed + 1)
    objective = dd.Objective(dd.heads.Product(seed=seed), "logistic")
    theta = torch.randn(2, 1000, generator=torch.Generator().manual_seed(seed))
    return data, test, objective, theta, {"lr": 0.05}, 200


@cache
def digits():
    loaded = load_mnist()
    train = two_digits(loaded.train_images, loaded.train_labels)
    return train, two_digits(loaded.test_images, loaded.test_labels)


def mnist(seed):
    (images, labels), (fresh, answers) = digits()
    pick = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))[:800]
    data = add_noise(images[pick], 30.0, 2 * seed), labels[pick]
    test = add_noise(fresh, 30.0, 2 * seed + 1), answers
    objective = dd.Objective(dd.heads.TwoLayer(9, seed=seed), "logistic")
    generator = torch.Generator().manual_seed(seed)
    theta = (2 * torch.rand(9, 784, generator=generator) - 1) / 784**0.5
    return data, test, objective, theta, {"lr": 1.0, "reduction": "mean"}, 500


def evaluate(test, objective, state):
    """Test error of parameters that were chosen without it."""
    return float(objective.losses(test[0] @ state.theta.T, test[1], state.head).mean())


def hold_out(data, test, objective, theta, options, steps):
    X, y = data
    cut, best = len(y) * 4 // 5, {"error": float("inf")}

    def watch(step):
        if step.test_error < best["error"]:
            best.update(error=step.test_error, state=step.state)

    start = time.perf_counter()
    algorithm, held = dd.GradientDescent(**options), (X[cut:], y[cut:])
    dd.fit(X[:cut], y[:cut], objective, algorithm, steps, theta, held, [watch])
    seconds = time.perf_counter() - start
    return best["error"], evaluate(test, objective, best["state"]), seconds


def cross_validation(data, test, objective, theta, options, steps):
    X, y = data
    algorithm, folds = dd.GradientDescent(**options), torch.arange(len(y)) % 5
    start, curves = time.perf_counter(), []
    for fold in range(5):
        inside, outside = folds != fold, folds == fold
        held = X[outside], y[outside]
        run = dd.fit(X[inside], y[inside], objective, algorithm, steps, theta, held)
        curves.append(run.test_error)
    curve = torch.stack(curves).mean(0)
    run = dd.fit(X, y, objective, algorithm, int(curve.argmin()) + 1, theta)
    seconds = time.perf_counter() - start
    return float(curve.min()), evaluate(test, objective, run.state), seconds


def decoupled(data, test, objective, theta, options, steps):
    start = time.perf_counter()
    run = dd.fit(*data, objective, dd.DecoupledDescent(**options), steps, theta)
    seconds = time.perf_counter() - start
    return float(run.train_error.min()), evaluate(test, objective, run.best_state), seconds


def main(out):
    methods, table = (hold_out, cross_validation, decoupled), []
    for problem in (xor, mnist):
        # methods take turns on every data set, so that they share whatever the machine does
        found = torch.tensor(
            [[method(*problem(seed)) for method in methods] for seed in range(REPLICATIONS)]
        )
        for method, (estimate, error, seconds) in zip(methods, found.permute(1, 2, 0), strict=True):
            miss = estimate - error
            row = {
                "problem": problem.__name__,
                "method": method.__name__,
                "test_error": float(error.mean()),
                "test_error_stderr": float(error.std()) / REPLICATIONS**0.5,
                "estimate": float(estimate.mean()),
                "rms_miss": float(miss.square().mean().sqrt()),
                "mean_miss": float(miss.mean()),
                "time_ratio": float((seconds / found[:, -1, 2]).quantile(0.5)),
            }
            table.append(row)
            print(row, flush=True)
    with open(out, "w") as file:
        json.dump({"replications": REPLICATIONS, "rows": table}, file, indent=1)


if __name__ == "__main__":
    main(sys.argv[1])
