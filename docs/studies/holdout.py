"""What people do today against decoupled descent, on the same rows.

Each method gets n labelled rows and must return a model and an estimate of its test error:
gradient descent stopped on a 20 % hold-out set, gradient descent stopped by 5-fold cross-validation
and refitted, and decoupled descent stopped on its own train error.

Run with ``python docs/studies/holdout.py OUT.json``; about ten minutes on one core.
"""

import json
import sys
import time
from functools import cache

import torch

import decoupled_descent as dd
from decoupled_descent.data.mnist import add_noise, load_mnist, two_digits

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


def fit(data, objective, algorithm, theta, steps, test=None):
    return dd.fit(*data, objective, algorithm, steps, theta=theta, test=test, progress=False)


def hold_out(data, test, objective, theta, options, steps):
    X, y = data
    cut = len(y) * 4 // 5
    algorithm = dd.GradientDescent(**options)
    watch = {"test": (torch.cat([X[cut:], test[0]]), torch.cat([y[cut:], test[1]]))}
    held, fresh = [], []

    def both(step):
        losses = objective.losses(
            watch["test"][0] @ step.state.theta.T, watch["test"][1], step.state.head
        )
        held.append(float(losses[: len(y) - cut].mean()))
        fresh.append(float(losses[len(y) - cut :].mean()))

    start = time.perf_counter()
    dd.fit(X[:cut], y[:cut], objective, algorithm, steps, theta=theta, callbacks=[both])
    best = min(range(steps), key=held.__getitem__)
    return held[best], fresh[best], time.perf_counter() - start


def cross_validation(data, test, objective, theta, options, steps):
    X, y = data
    algorithm, folds = dd.GradientDescent(**options), torch.arange(len(y)) % 5
    start, curves = time.perf_counter(), []
    for fold in range(5):
        inside, outside = folds != fold, folds == fold
        run = fit(
            (X[inside], y[inside]), objective, algorithm, theta, steps, (X[outside], y[outside])
        )
        curves.append(run.test_error)
    curve = torch.stack(curves).mean(0)
    run = fit(data, objective, algorithm, theta, int(curve.argmin()) + 1, test)
    return float(curve.min()), float(run.test_error[-1]), time.perf_counter() - start


def decoupled(data, test, objective, theta, options, steps):
    start = time.perf_counter()
    run = fit(data, objective, dd.DecoupledDescent(**options), theta, steps, test)
    best = run.best_step
    return float(run.train_error[best]), float(run.test_error[best]), time.perf_counter() - start


def main(out):
    table = []
    for problem in (xor, mnist):
        for method in (hold_out, cross_validation, decoupled):
            found = torch.tensor([method(*problem(seed)) for seed in range(REPLICATIONS)])
            estimate, error, seconds = found.T
            miss = estimate - error
            table.append(
                {
                    "problem": problem.__name__,
                    "method": method.__name__,
                    "test_error": float(error.mean()),
                    "test_error_stderr": float(error.std()) / REPLICATIONS**0.5,
                    "estimate": float(estimate.mean()),
                    "rms_miss": float(miss.square().mean().sqrt()),
                    "mean_miss": float(miss.mean()),
                    "seconds": float(seconds.median()),
                }
            )
            print(table[-1], flush=True)
    with open(out, "w") as file:
        json.dump({"replications": REPLICATIONS, "rows": table}, file, indent=1)


if __name__ == "__main__":
    main(sys.argv[1])
