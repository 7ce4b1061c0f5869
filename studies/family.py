"""Every member of the family: gaps of train and test error, and its state evolution.

Run with ``python studies/family.py OUT.json [PARTS]``, with parts gaps, gaps_adam, limit,
limit_adam and passes. Without names all parts are run: more than an hour on one core. Noisy
MNIST is found by DECOUPLED_DATA. The results that the pages quote are in
``studies/family.json``.
"""

import json
import os
import sys
from functools import partial
from pathlib import Path

import torch

import decoupled_descent as dd
from decoupled_descent.app.reproduce.experiment import default_theta
from decoupled_descent.app.reproduce.mnist import MNIST, noisy_digits

COSINE = partial(torch.optim.lr_scheduler.CosineAnnealingLR, T_max=100)
ADAM = partial(torch.optim.Adam, lr=1e-2)
LR, STEPS, TEST_ROWS = 0.1, 101, 4000
HEAVY = dd.rules.SGD(LR, momentum=0.8)
NESTEROV = dd.rules.SGD(LR, 0.8, nesterov=True, weight_decay=0.01, schedule=COSINE)
MEMBERS = {
    "plain": {"lr": LR},
    "momentum 0.8": {"lr": LR, "rule": HEAVY},
    "Nesterov, weight decay, cosine": {"lr": LR, "rule": NESTEROV},
    "momentum 0.8, Adam for the head": {"lr": LR, "rule": HEAVY, "head_optimizer": ADAM},
    "inverse Hessian, damped 0.95": {
        "lr": 0.02,
        "damping": 0.95,
        "head_lr": LR,
        "hessian_damping": 0.1,
    },
}


def four_modes(d, snr=1.5):
    """Modes ±[v, v] and ±[v, −v]; the response is given by the sign of the first half."""
    v = torch.full((d // 2,), float(snr), dtype=torch.float64)
    means = torch.stack([torch.cat(m) for m in ([v, v], [-v, -v], [v, -v], [-v, v])])
    return dd.GaussianMixture(means, [0.25] * 4, [0.0, 1.0, 0.0, 1.0])


def network(seed, width=5):
    return dd.Objective(dd.heads.TwoLayer(width, seed=seed), "logistic")


def gaps(seeds=range(4), n=1000, only=None):
    """Mean over steps and data sets of |train − test|, and of the test error at the end."""
    mixture, found = four_modes(n), {}
    test = mixture.sample(TEST_ROWS, seed=10**6)
    for name, options in MEMBERS.items():
        if only not in (None, name):
            continue
        plain = {k: v for k, v in options.items() if k != "hessian_damping"}
        if "inverse" in name:
            plain["lr"] = LR
        for kind, algorithm in {
            "DecoupledDescent": dd.DecoupledDescent(**options),
            "DecoupledDescent, head_folds=5": dd.DecoupledDescent(**options, head_folds=5),
            "GradientDescent": dd.GradientDescent(**plain),
        }.items():
            runs = [
                dd.fit(*mixture.sample(n, seed=s), network(s), algorithm, STEPS, seed=s, test=test)
                for s in seeds
            ]
            each = torch.stack([run.gap for run in runs])
            found[f"{name} / {kind}"] = {
                "mean_absolute_gap": float(each.abs().mean()),
                "mean_gap": float(each.mean()),
                "stderr": float(each.abs().mean(1).std() / len(each) ** 0.5),
                "last_test_error": float(torch.stack([run.test_error[-1] for run in runs]).mean()),
            }
            print(name, kind, found[f"{name} / {kind}"], flush=True)
    return found


def limit(seeds=range(6), n=4000, steps=11, only=None):
    """Expected losses of runs on new rows against state evolution from the same start."""
    mixture, found = four_modes(n), {}
    members = {name: (options, steps) for name, options in MEMBERS.items()}
    members["batches of n/4"] = ({"lr": LR, "batch_size": n // 4}, 4)
    if only is not None:
        members = {only: members[only]}
    for name, (options, count) in members.items():
        algorithm, each = dd.DecoupledDescent(**options), []
        for seed in seeds:
            rows = dd.Rows(*mixture.sample(n, seed=seed))
            objective, errors = network(seed, 2), []

            def measure(step, objective=objective, errors=errors):
                state = step.state
                error = dd.theory.population_test_error(mixture, objective, state.theta, state.head)
                errors.append(error.value)

            state = algorithm.init(rows, objective, seed=seed)
            theory = dd.StateEvolution(mixture, objective, algorithm, paths=2048, randomisations=4)
            theirs = theory.run(count, theta=state.theta, progress=False).test_error
            dd.fit(rows, None, objective, algorithm, count, state=state, callbacks=[measure])
            each.append(torch.tensor(errors, dtype=torch.float64) - theirs)
        each = torch.stack(each)[:, 1:]  # the starting points are the same
        stderr = each.std(0) / len(each) ** 0.5
        z = each.mean(0) / stderr
        found[name] = {
            "largest_z": float(z.abs().max()),
            "largest": float(each.mean(0).abs().max()),
            "stderr": float(stderr.max()),
        }
        print(name, found[name], flush=True)
    return found


def passes(seeds=6, count=101):
    """The test error of what each member chooses among six rates and all steps, on train errors.

    A step is one pass over the rows for every member.
    """
    found = {}
    for name, (problem, base, reduction) in PROBLEMS.items():
        data = [problem(seed) for seed in range(seeds)]
        for title, member in CONTENDERS.items():
            curves = []
            for seed, (rows, objective, test, theta) in enumerate(data):
                algorithms = [member(factor * base, reduction, rows.n) for factor in FACTORS]
                result = dd.sweep(
                    rows, None, objective, algorithms, count, theta=theta, seed=seed, test=test
                )
                curves.append(_chosen(result.runs, count))
            errors = torch.stack([errors for errors, _ in curves])
            estimates = torch.stack([estimates for _, estimates in curves])
            at = {"5": 5, "10": 10, "20": 20, "50": 50, "100": count - 1}
            found[f"{name} / {title}"] = {
                "test_error": {k: float(errors[:, i].mean()) for k, i in at.items()},
                "stderr": {k: float(errors[:, i].std() / seeds**0.5) for k, i in at.items()},
                "estimate": {k: float(estimates[:, i].mean()) for k, i in at.items()},
            }
            print(name, title, found[f"{name} / {title}"], flush=True)
    return found


def _chosen(runs, count):
    """Test and train error of the rate and step of lowest train error so far, pass by pass."""
    train, test = (torch.full((len(runs), count), torch.inf) for _ in range(2))
    for k, run in enumerate(runs):
        train[k, : len(run.train_error)] = run.train_error
        test[k, : len(run.test_error)] = run.test_error
    places = [int(train[:, : k + 1].argmin()) for k in range(count)]
    places = [(place // (k + 1), place % (k + 1)) for k, place in enumerate(places)]
    run, step = torch.tensor(places).T
    return test[run, step], train[run, step]


FACTORS = [2.0**k for k in range(-3, 3)]
CONTENDERS = {
    "whole batches": lambda lr, r, _: descent(lr, r),
    "momentum 0.8": lambda lr, r, _: descent(lr, r, rule=dd.rules.SGD(lr, 0.8)),
    "Adam for the head": lambda lr, r, _: descent(lr, r, head_optimizer=ADAM),
    "batches of n/2": lambda lr, r, n: descent(lr, r, batch_size=n // 2),
    "batches of n/10": lambda lr, r, n: descent(lr, r, batch_size=n // 10),
    "orthogonal, ridge 1": lambda lr, r, _: dd.OrthogonalDecoupledDescent(lr, reduction=r),
}


def descent(lr, reduction, **options):
    return dd.DecoupledDescent(lr, reduction=reduction, **options)


def xor(seed, n=1000):
    mixture = dd.mixtures.xor(n, 4.0)
    rows = dd.Rows(*mixture.sample(n, seed=seed))
    objective = dd.Objective(dd.heads.Product(seed=seed), "logistic")
    return rows, objective, mixture.sample(TEST_ROWS, seed=10**6), None


def noisy_mnist(seed):
    rows, test = noisy_digits(MNIST.settings, seed, Path(os.environ["DECOUPLED_DATA"]))
    theta = default_theta(9, rows[0].shape[1], seed)
    objective = dd.Objective(dd.heads.TwoLayer(9, seed=seed), "logistic")
    return dd.Rows(*rows), objective, test, theta


PROBLEMS = {
    "XOR, snr 4": (xor, 0.05, "sum"),
    "noisy MNIST": (noisy_mnist, 2.0, "mean"),
}
PARTS = {
    "gaps": gaps,
    "gaps_adam": partial(gaps, range(4, 16), only="momentum 0.8, Adam for the head"),
    "limit": limit,
    "limit_adam": partial(limit, range(6, 22), only="momentum 0.8, Adam for the head"),
    "passes": passes,
}


def main(out, *names):
    out = Path(out)
    found = json.loads(out.read_text()) if out.exists() else {}
    for name in names or PARTS:
        found[name] = PARTS[name]()
        out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
