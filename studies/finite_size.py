"""Do single runs have standard z-scores? Spreads predicted from small runs, against large ones.

``python studies/finite_size.py PROBLEM…`` prints the table of the theory page, all problems
by default. A quarter of an hour on one core.
"""

import sys

import torch

import decoupled_descent as dd
from decoupled_descent.theory.averages import Point

N, STEPS, RUNS = 1600, 20, 60
METHODS = {"decoupled": dd.DecoupledDescent, "gradient": dd.GradientDescent}


def orthonormal(mixture, picks, strength):
    """Orthonormal rows, orthogonal to the means, plus a share of some means."""
    drawn = torch.randn(N, len(picks), generator=torch.Generator().manual_seed(1)).double()
    span = torch.linalg.svd(mixture.means, full_matrices=False)
    kept = span.Vh[: int(torch.linalg.matrix_rank(mixture.means))]
    drawn = torch.linalg.qr(drawn - kept.T @ (kept @ drawn)).Q * N**0.5
    return drawn.T + strength * mixture.means[picks]


def flipped():
    mixture = dd.mixtures.flipped_classes(N, snr=1.5, labels=(0.0, 1.0))
    objective = dd.Objective(dd.heads.Linear(), "logistic")
    return mixture, objective, {"lr": 0.15, "damping": 0.97}, orthonormal(mixture, [1], 0.3)


def two_layer():
    mixture = dd.mixtures.xor(N, snr=2.0)
    objective = dd.Objective(dd.heads.TwoLayer(3, seed=3).double(), "logistic")
    rates = {"lr": 0.1, "damping": 0.98, "head_lr": 0.3}
    return mixture, objective, rates, orthonormal(mixture, [0, 2, 3], 0.3)


def regression():
    mixture = dd.mixtures.discrete_regression(N, modes=20, snr=2.0, response_noise=0.3)
    objective = dd.Objective(dd.heads.TwoLayer(1, seed=2).double(), "squared")
    rates = {"lr": 0.1, "damping": 0.97, "head_lr": 0.2}
    return mixture, objective, rates, orthonormal(mixture, [15], 0.3)


def saddle():
    """XOR from a start with no signal: the time of escape is random."""
    mixture = dd.mixtures.xor(N, snr=4.0)
    objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
    return mixture, objective, {"lr": 0.1}, orthonormal(mixture, [0, 2], 0.0)


def growth():
    """No signal and no damping: the overlap of decoupled descent grows without bound."""
    objective = dd.Objective(dd.heads.Linear(), "squared")
    mixture = dd.mixtures.signalless(N)
    theta = torch.randn(1, N, generator=torch.Generator().manual_seed(1)).double()
    return mixture, objective, {"lr": 0.3}, theta * N**0.5 / theta.norm()


PROBLEMS = {
    "flipped classes, linear head": flipped,
    "four modes, two-layer head, L = 3": two_layer,
    "regression, 20 modes, one tanh unit": regression,
    "XOR from a saddle": saddle,
    "no signal, no damping": growth,
}


def run(theory, theta, seed):
    """Train error and exact test error, step by step, shape (2, T)."""
    X, y = theory.mixture.sample(N, seed=seed)
    seen, test = [], []
    objective, nodes, model = theory.objective, theory.nodes(len(theta)), theory.model(len(theta))
    fitted = dd.fit(X, y, objective, theory.algorithm, STEPS, theta, callbacks=[seen.append])
    for step in seen:
        moved = step.state.theta.double()
        overlaps = theory.mixture.means @ moved.T / N, moved @ moved.T / N
        head = {name: value.double() for name, value in step.state.head.items()}
        test.append(float(model.test_error(nodes, Point(*overlaps, head))))
    return torch.stack([fitted.train_error.double(), torch.tensor(test).double()])


def measure(name, method):
    mixture, objective, rates, theta = PROBLEMS[name]()
    theory = dd.StateEvolution(mixture, objective, METHODS[method](**rates), paths=4096)
    predicted = dd.theory.finite_size(theory, N, STEPS, theta)
    runs = torch.stack([run(theory, theta, seed) for seed in range(RUNS)])
    for k, kind in enumerate(("train", "test")):
        z = torch.stack([predicted.z(one[k], f"{kind}_error") for one in runs])[:, 1:]
        ratio = runs[:, k, 1:].std(0) / predicted.stderr[f"{kind}_error"][1:]
        mean = f"{float(z[:, -1].mean()):+.2f} | {float(z[:, -1].std()):.2f}"
        beyond = f"{float((z.abs() > 2).double().mean()):.1%} | {float(z.abs().max()):.1f}"
        spread = f"{float(ratio.min()):.2f} – {float(ratio.max()):.2f}"
        print(f"| {name} | {method} | {kind} | {spread} | {mean} | {beyond} |", flush=True)


if __name__ == "__main__":
    print(
        "| problem | descent | error | spread of runs over predicted | mean z, last step |", end=""
    )
    print(" spread of z, last step | beyond 2 | largest |")
    print("|---|---|---|---|---|---|---|---|")
    for name in sys.argv[1:] or PROBLEMS:
        for method in METHODS:
            measure(name, method)
