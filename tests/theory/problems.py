"""Problems of the paper with starting points whose overlaps do not depend on the dimension."""

import numpy as np
import torch

import decoupled_descent as dd


def informed(mixture, picks, strength=0.3):
    """Orthonormal noise rows plus a share of some means, shape (len(picks), d)."""
    d = mixture.dimension
    noise = torch.randn(d, len(picks), generator=torch.Generator().manual_seed(1)).double()
    svd = torch.linalg.svd(mixture.means, full_matrices=False)
    span = svd.Vh[: int(torch.linalg.matrix_rank(mixture.means))]
    noise = torch.linalg.qr(noise - span.T @ (span @ noise)).Q * d**0.5
    return noise.T + strength * mixture.means[picks]


def flipped(d):
    mixture = dd.mixtures.flipped_classes(d, snr=1.5, flip=0.1, labels=(0.0, 1.0))
    objective = dd.Objective(dd.heads.Linear(), "logistic")
    return mixture, objective, dd.DecoupledDescent(0.15, 0.97), informed(mixture, [1])


def four_modes(d):
    mixture = dd.mixtures.xor(d, snr=2.0)
    objective = dd.Objective(dd.heads.TwoLayer(3, seed=3).double(), "logistic")
    algorithm = dd.DecoupledDescent(0.1, 0.98, head_lr=0.3)
    return mixture, objective, algorithm, informed(mixture, [0, 2, 3])


def discrete(d):
    mixture = dd.mixtures.discrete_regression(d, modes=100, snr=2.0, response_noise=0.3)
    objective = dd.Objective(dd.heads.TwoLayer(1, seed=2).double(), "squared")
    algorithm = dd.DecoupledDescent(0.1, 0.97, head_lr=0.2)
    return mixture, objective, algorithm, informed(mixture, [50])


def measure(problem, n, seed, steps):
    """m, Ω, Ξ, a and the train error of one run at n = d, step by step, by name."""
    mixture, objective, algorithm, theta = problem
    X, y = mixture.sample(n, seed=seed)
    seen = []
    run = dd.fit(X, y, objective, algorithm, steps=steps, theta=theta, callbacks=[seen.append])
    path, d = torch.stack([step.state.theta.double() for step in seen]), X.shape[1]
    tilde = (algorithm.damping * path[:-1] - path[1:]) / algorithm.lr
    result = {
        "m": (path @ mixture.means.T / d).transpose(1, 2),
        "omega": path @ path.transpose(1, 2) / d,
        "xi": path[:-1] @ tilde.transpose(1, 2) / d,
        "error": run.train_error,
    }
    for name in seen[0].state.head:
        result[name] = torch.stack([step.state.head[name].double() for step in seen])
    return {name: value.numpy() for name, value in result.items()}


def predict(evolution):
    """The same, in the limit."""
    diagonal = torch.arange(len(evolution.test_error) - 1)
    result = {
        "m": evolution.alignment,
        "omega": evolution.overlap,
        "xi": evolution.xi[diagonal, diagonal],
        "error": evolution.test_error,
    }
    return {name: value.numpy() for name, value in (result | evolution.head).items()}


def gaps(problem, n, seeds, steps, predicted):
    """Deviations of runs from the prediction, by name, stacked over seeds."""
    runs = [measure(problem, n, seed, steps) for seed in seeds]
    return {k: np.stack([run[k] for run in runs]) - predicted[k] for k in predicted}
