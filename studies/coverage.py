"""How often train error ± 1.96 standard errors contains the test error, by step and by n.

Run with ``python studies/coverage.py OUT.json``; about a quarter of an hour on one core.
"""

import json
import sys

import torch

import decoupled_descent as dd

STEPS = (0, 5, 10, 20, 40, 80)
FLIPPED = {"snr": 2.0, "flip": 0.1, "labels": (0.0, 1.0)}


def logistic(n):
    mixture = dd.mixtures.flipped_classes(n, **FLIPPED)
    return mixture, dd.heads.Linear(), dd.DecoupledDescent(0.2, damping=0.8)


def damped_network(n):
    mixture = dd.mixtures.flipped_classes(n, **FLIPPED)
    return mixture, dd.heads.TwoLayer(3, seed=0), dd.DecoupledDescent(0.2, damping=0.9)


def pure_network(n):
    mixture = dd.mixtures.flipped_classes(n, **FLIPPED)
    return mixture, dd.heads.TwoLayer(3, seed=0), dd.DecoupledDescent(0.2)


def study(problem, n, replications):
    """Share of intervals that cover, mean and variance of z = (train − test)/stderr, by step."""
    mixture, head, algorithm = problem(n)
    objective = dd.Objective(head, "logistic")
    z = []
    for seed in range(replications):
        X, y = mixture.sample(n, seed=seed)
        exact = []

        def population(step, exact=exact):
            if step.index in STEPS:
                found = dd.theory.population_test_error(
                    mixture, objective, step.state.theta.double(), step.state.head
                )
                exact.append(found.value)

        run = dd.fit(X, y, objective, algorithm, STEPS[-1] + 1, seed=seed, callbacks=[population])
        chosen = list(STEPS)
        gap = run.train_error[chosen] - torch.tensor(exact, dtype=torch.float64)
        z.append(gap / run.train_error_stderr[chosen])
    z = torch.stack(z)
    return {
        "coverage": (z.abs() < 1.96).double().mean(0).tolist(),
        "mean_z": z.mean(0).tolist(),
        "sd_z": z.std(0).tolist(),
    }


def main(out):
    table = []
    for problem in (logistic, damped_network, pure_network):
        sizes = {250: 200, 1000: 200, 4000: 120} if problem is pure_network else {1000: 200}
        for n, replications in sizes.items():
            found = study(problem, n, replications)
            table.append(
                {"setting": problem.__name__, "n": n, "replications": replications} | found
            )
            print(table[-1], flush=True)
    with open(out, "w") as file:
        json.dump({"steps": STEPS, "rows": table}, file, indent=1)


if __name__ == "__main__":
    main(sys.argv[1])
