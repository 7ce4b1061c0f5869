"""Orthogonal decoupled descent on ResNet-18 embeddings of cats and dogs: is its estimate right?

Half of the 12,000 rows, chosen once, was used while the method was being made; everything here
comes from the other half. Train rows are drawn from it at random, split by split, and the rest of
it is the test set.

Run with ``python studies/orthogonal.py PART OUT.json``, PART one of ``curves`` (n = 800, every
step), ``steps`` (whether the worst step is worse than chance), ``sizes`` (n from 100 to 4000),
``contest`` (against hold-out and cross-validation) and ``mnist`` (the paper's noisy zeros and
eights instead); a few minutes each on one core. The folder of the data is named by DECOUPLED_DATA.
"""

import json
import math
import sys
from functools import cache

import numpy as np
import torch
from sklearn.linear_model import LogisticRegressionCV

import decoupled_descent as dd
from decoupled_descent.datasets.embeddings import find_cats_dogs, load_embeddings
from decoupled_descent.datasets.mnist import add_noise, load_mnist, two_digits
from decoupled_descent.datasets.whitening import Whitening

WIDTH, STEPS, LR, DAMPING = 5, 300, 2.0, 0.98
ODD = dd.OrthogonalDecoupledDescent


@cache
def reported_half():
    pool = load_embeddings(find_cats_dogs())
    order = np.random.default_rng(2024).permutation(len(pool.y))
    half = order[len(order) // 2 :]
    return pool.X[half], pool.y[half]


@cache
def zeros_and_eights():
    loaded = load_mnist()
    return two_digits(loaded.train_images, loaded.train_labels)


def split(n, seed):
    """Train and test rows, standardised by the train rows, and the same start for all methods."""
    X, y = reported_half()
    order = np.random.default_rng(seed).permutation(len(y))
    scaling = Whitening("vanilla").fit(X[order[:n]])
    X, y = torch.from_numpy(scaling.transform(X[order])), torch.from_numpy(y[order]).float()
    objective = dd.Objective(dd.heads.TwoLayer(WIDTH, seed=seed), "logistic")
    return (X[:n], y[:n]), (X[n:], y[n:]), objective


def start(seed, kind, d=512):
    generator = torch.Generator().manual_seed(seed)
    if kind == "normal":
        return torch.randn(WIDTH, d, generator=generator)
    return (2 * torch.rand(WIDTH, d, generator=generator) - 1) / d**0.5


def mean_and_error(values):
    return [float(values.mean()), float(values.std()) / math.sqrt(len(values))]


def curves(splits=30):
    """Every step at n = 800: PyTorch's start, as for the other methods."""
    algorithms = {
        "GD": dd.GradientDescent(LR, reduction="mean"),
        "DD": dd.DecoupledDescent(LR, reduction="mean"),
        "divergence-free, damping 0.9": ODD(LR, 0.9, math.inf, reduction="mean"),
        "ODD, ridge 0.3": ODD(LR, DAMPING, 0.3, reduction="mean"),
        "ODD, ridge 1": ODD(LR, DAMPING, 1.0, reduction="mean"),
        "ODD, ridge 10": ODD(LR, DAMPING, 10.0, reduction="mean"),
    }
    table = []
    for name, algorithm in algorithms.items():
        runs = []
        for seed in range(splits):
            data, test, objective = split(800, seed)
            theta = start(seed, "uniform")
            runs.append(
                dd.fit(*data, objective, algorithm, STEPS, theta, test, seed=seed, progress=False)
            )
        gaps = torch.stack([run.gap for run in runs])
        tests = torch.stack([run.test_error for run in runs])
        spread = gaps[:, 1:].std(0) / math.sqrt(splits)
        stderr = torch.stack([run.train_error_stderr for run in runs])
        table.append(
            {
                "method": name,
                "train": float(np.mean([run.train_error[-1] for run in runs])),
                "test": float(tests[:, -1].mean()),
                "lowest_mean_test": float(tests.mean(0).min()),
                "mean_absolute_gap": float(gaps.abs().mean()),
                "final_bias": mean_and_error(gaps[:, -1]),
                "largest_bias_in_standard_errors": float(
                    (gaps[:, 1:].mean(0) / spread).abs().max()
                ),
                "z_spread": float((gaps / stderr)[:, -1].std()),
            }
        )
        print(table[-1], flush=True)
    return table


def path(data, test, objective, algorithm, theta, looks):
    """Train and test error and the standard error of the former, at a few steps."""
    rows, found = dd.Rows(*data), []
    bound = algorithm.bind(rows, objective, theta)
    state = algorithm.init(rows, bound, theta)
    for step in range(max(looks) + 1):
        following, info = algorithm.step(state, rows, bound)
        if step in looks:
            error = objective.losses(test[0] @ state.theta.T, test[1], state.head).mean()
            found.append([info.train_error, float(error), info.train_error_stderr])
        state = following
    return found


def sizes(splits=20, looks=(20, 60, 120, 249)):
    """Bias against n, from N(0, 1)."""
    table = []
    for n in (100, 200, 400, 800, 2000, 4000):
        for ridge in (1.0, 10.0):
            algorithm = ODD(LR, DAMPING, ridge, reduction="mean")
            found = torch.tensor(
                [
                    path(*split(n, seed), algorithm, start(seed, "normal"), looks)
                    for seed in range(splits)
                ]
            )
            gaps = found[..., 0] - found[..., 1]
            table.append(
                {"n": n, "ridge": ridge}
                | {f"step {k}": mean_and_error(gaps[:, i]) for i, k in enumerate(looks)}
                | {"z_spread": float((gaps / found[..., 2])[:, -1].std())}
                | {"test": float(found[:, -1, 1].mean())}
            )
            print(table[-1], flush=True)
    return table


def hold_out(data, test, objective, seed):
    X, y = data
    cut, algorithm = len(y) * 4 // 5, dd.GradientDescent(LR, reduction="mean")
    held = (torch.cat([X[cut:], test[0]]), torch.cat([y[cut:], test[1]]))
    seen = []

    def look(step):
        losses = objective.losses(held[0] @ step.state.theta.T, held[1], step.state.head)
        seen.append([float(part.mean()) for part in losses.split([len(y) - cut, len(test[1])])])

    dd.fit(X[:cut], y[:cut], objective, algorithm, STEPS, start(seed, "uniform"), callbacks=[look])
    return min(seen)


def logistic_cv(data, test, _objective, _seed):
    model = LogisticRegressionCV(
        Cs=np.logspace(-3, 4, 15), l1_ratios=(0,), scoring="neg_log_loss", max_iter=2000,
        use_legacy_attributes=False,
    ).fit(data[0].numpy(), data[1].numpy())  # fmt: skip
    logits = torch.from_numpy(model.decision_function(test[0].numpy())).float()
    error = torch.nn.functional.binary_cross_entropy_with_logits(logits, test[1])
    return [-float(np.max(np.mean(model.scores_, 0))), float(error)]


def chosen(algorithms):
    def method(data, test, objective, seed):
        swept = dd.sweep(
            *data, objective, algorithms, STEPS, start(seed, "uniform"), test=test, progress=False
        )
        best = swept.best
        return [float(best.train_error.min()), float(best.test_error[best.best_step])]

    return method


def oracle(data, test, objective, seed):
    algorithm = dd.GradientDescent(LR, reduction="mean")
    run = dd.fit(*data, objective, algorithm, STEPS, start(seed, "uniform"), test)
    return [float(run.test_error.min())] * 2


def contest(splits=12, n=800):
    """What each method tells the user, and what is true; nothing but the oracle sees test rows."""
    ridges = (0.1, 0.3, 1.0, 3.0, 10.0)
    methods = {
        "GD, 20 % hold-out": hold_out,
        "LogisticRegressionCV, 5-fold": logistic_cv,
        "DD, best step": chosen([dd.DecoupledDescent(LR, reduction="mean")]),
        "ODD, best ridge and step": chosen([ODD(LR, DAMPING, r, reduction="mean") for r in ridges]),
        "GD stopped by an oracle": oracle,
    }
    table = []
    for name, method in methods.items():
        found = torch.tensor([method(*split(n, seed), seed) for seed in range(splits)])
        miss = found[:, 0] - found[:, 1]
        table.append(
            {
                "method": name,
                "estimate": float(found[:, 0].mean()),
                "test": mean_and_error(found[:, 1]),
                "mean_miss": mean_and_error(miss),
                "rms_miss": float(miss.square().mean().sqrt()),
            }
        )
        print(table[-1], flush=True)
    return table


def worst_steps(gaps, draws=20_000, seed=0):
    """The largest |mean gap|/SE over the steps of (splits, steps), and how large chance makes it.

    Signs of whole curves are flipped at random (exact where curves are symmetric about zero), or
    curves about their mean are drawn with replacement. Steps stay as correlated as they are.

    Returns:
        The largest value; for each of the two ways, the median and 95 % quantile of chance, and
        the share of chance at least as large (the p-value).
    """
    rng, count = np.random.default_rng(seed), len(gaps)
    flips = rng.choice([-1.0, 1.0], (draws, count))
    counts = rng.multinomial(count, np.full(count, 1 / count), draws).astype(float)

    def largest(weights, curves):
        mean, square = weights @ curves / count, np.abs(weights) @ curves**2 / count
        spread = np.sqrt((square - mean**2) / (count - 1))
        return np.abs(mean / spread).max(1)

    observed = float(largest(np.ones((1, count)), gaps)[0])
    found = {"worst_step": observed}
    drawn = {"flips": largest(flips, gaps), "bootstrap": largest(counts, gaps - gaps.mean(0))}
    for name, values in drawn.items():
        p = float((values >= observed).mean())
        found[name] = [*np.quantile(values, [0.5, 0.95]).tolist(), p]
    return found


def steps(fresh=range(30, 70)):
    """Is the worst step at n = 800 worse than chance? The splits of ``curves``, and fresh ones."""
    table = []
    algorithm = ODD(LR, DAMPING, 1.0, reduction="mean")
    gaps, z = [], []
    for seed in range(fresh.stop):
        data, test, objective = split(800, seed)
        theta = start(seed, "uniform")
        run = dd.fit(*data, objective, algorithm, STEPS, theta, test, seed=seed, progress=False)
        gaps.append(run.gap.double().numpy())
        z.append(float((run.gap / run.train_error_stderr)[-1]))
    gaps, z = np.array(gaps), np.array(z)
    ranges = {"first": range(30), "fresh": fresh, "all": range(fresh.stop)}
    for name, seeds in ranges.items():
        own = gaps[list(seeds)]
        table.append(
            {"splits": f"{seeds[0]} to {seeds[-1]}", "name": name}
            | {"mean_absolute_gap": float(np.abs(own).mean())}
            | {"final_bias": mean_and_error(torch.from_numpy(own[:, -1]))}
            | {"z_spread": float(z[list(seeds)].std(ddof=1))}
            | worst_steps(own[:, 1:])
        )
        print(table[-1], flush=True)
    return table


def share(own, reference, draws=20_000, seed=0):
    """|mean of own|/|mean of reference|, with the 95 % interval of a bootstrap over splits."""
    chosen = np.random.default_rng(seed).integers(0, len(own), (draws, len(own)))
    ratios = np.abs(own[chosen].mean(1) / reference[chosen].mean(1))
    low, high = np.quantile(ratios, [0.025, 0.975])
    return {
        "share_of_dd": [float(abs(own.mean() / reference.mean())), float(low), float(high)],
        "chance_of_a_third": float((ratios <= 1 / 3).mean()),
    }


def mnist_split(seed, n=800):
    """Noisy zeros and eights: train rows, test rows, objective, start.

    Test rows are the other training images: the official test images are other people's digits.
    """
    images, labels = zeros_and_eights()
    order = np.random.default_rng(seed).permutation(len(labels))
    X, y = add_noise(images[order], 30.0, seed), labels[order]
    objective = dd.Objective(dd.heads.TwoLayer(9, seed=seed), "logistic")
    generator = torch.Generator().manual_seed(seed)
    theta = (2 * torch.rand(9, 784, generator=generator) - 1) / 28
    return (X[:n], y[:n]), (X[n:], y[n:]), objective, theta


def noisy(algorithms, seeds):
    """Bias after 500 steps of the paper's setting, and its share of the first algorithm's."""
    found = {name: [] for name in algorithms}
    for seed in seeds:
        data, test, objective, theta = mnist_split(seed)
        for name, algorithm in algorithms.items():
            found[name] += path(data, test, objective, algorithm, theta, (499,))
    found = {name: np.array(values) for name, values in found.items()}
    gaps = {name: values[:, 0] - values[:, 1] for name, values in found.items()}
    table = []
    for name, values in found.items():
        table.append(
            {"method": name, "splits": f"{seeds[0]} to {seeds[-1]}"}
            | {"bias": mean_and_error(torch.from_numpy(gaps[name]))}
            | {"test": mean_and_error(torch.from_numpy(values[:, 1]))}
            | {"z_spread": float((gaps[name] / values[:, 2]).std(ddof=1))}
            | share(gaps[name], next(iter(gaps.values())))
        )
        print(table[-1], flush=True)
    return table


def mnist(seeds=range(20, 180)):
    """Plain decoupled descent and this one, on splits that nothing was chosen on."""
    return noisy(
        {
            "DD": dd.DecoupledDescent(1.0, reduction="mean"),
            "ODD, ridge 10": ODD(1.0, DAMPING, 10.0, reduction="mean"),
            "ODD, ridge 3": ODD(1.0, DAMPING, 3.0, reduction="mean"),
            "ODD, ridge 1": ODD(1.0, DAMPING, 1.0, reduction="mean"),
        },
        seeds,
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    part, out = sys.argv[1:]
    parts = {"curves": curves, "steps": steps, "sizes": sizes, "contest": contest, "mnist": mnist}
    result = parts[part]()
    with open(out, "w") as file:
        json.dump(result, file, indent=1)
