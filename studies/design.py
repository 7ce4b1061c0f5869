"""A direction found by simulation against the gradient: predicted and measured gains.

``python studies/design.py`` searches, trains at n = d = 2000 with what was found, writes
design.json next to this file and prints the table of the theory page. About five minutes on a core.
"""

import json
import sys
from pathlib import Path

import torch

import decoupled_descent as dd
from decoupled_descent.files import write_text

OUT = Path(__file__).with_suffix(".json")
N, STEPS, RUNS = 2000, 60, 24


def swapped(h):
    return h.flip(1)


def flipped():
    mixture = dd.mixtures.flipped_classes(N, snr=1.5, labels=(0.0, 1.0))
    directions = {
        "gradient": None,
        "½ − y": lambda h, y, _: (0.5 - y).unsqueeze(1) + 0 * h,
        "½ − y − h/10": lambda h, y, _: (0.5 - y).unsqueeze(1) - 0.1 * h,
        "σ(h/4) − y": lambda h, y, _: torch.sigmoid(h / 4) - y.unsqueeze(1),
    }
    rates = [{"lr": lr, "damping": damping} for lr in (0.1, 0.2, 0.4) for damping in (0.9, 0.8)]
    objective = dd.Objective(dd.heads.Linear(), "logistic")
    return mixture, objective, directions, rates, [0]


def xor():
    mixture = dd.mixtures.xor(N, snr=4.0)
    directions = {
        "gradient": None,
        "(½ − y) h'": lambda h, y, _: (0.5 - y).unsqueeze(1) * swapped(h),
        "(½ − y) tanh h'": lambda h, y, _: (0.5 - y).unsqueeze(1) * torch.tanh(swapped(h)),
    }
    rates = [{"lr": lr, "damping": 0.9, "head_lr": 0.0} for lr in (0.05, 0.1, 0.2)]
    objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
    return mixture, objective, directions, rates, [0, 2]


PROBLEMS = {"flipped classes, snr 1.5": flipped, "XOR, snr 4": xor}


def start(mixture, picks):
    """Orthonormal rows with alignment 0.3 to their means."""
    drawn = torch.randn(N, len(picks), generator=torch.Generator().manual_seed(1)).double()
    signal = mixture.means[picks].T
    axes = torch.linalg.qr(torch.cat([signal, drawn], 1)).Q[:, len(picks) :]
    pulled = 0.3 * signal / (signal.square().sum(0) / N)
    rest = (1 - pulled.square().sum(0) / N).sqrt()
    return (axes * N**0.5 * rest + pulled).T


def measure(name):
    mixture, objective, directions, rates, picks = PROBLEMS[name]()
    theta = start(mixture, picks)
    found = dd.theory.rank_directions(
        mixture, objective, directions, None, rates, STEPS, theta=theta, paths=4096
    )
    print(found.table.to_string())
    usual, chosen = found.best_with("gradient"), found.best
    errors = []
    for seed in range(RUNS):
        X, y = mixture.sample(N, seed=seed)
        pair = []
        for candidate in (usual, chosen):
            seen, steps = [], candidate.best_step + 1
            dd.fit(X, y, objective, candidate.algorithm, steps, theta, callbacks=[seen.append])
            state = seen[-1].state
            error = dd.theory.population_test_error(mixture, objective, state.theta, state.head)
            pair.append((seen[-1].info.train_error, float(error)))
        errors.append(pair)
    errors = torch.tensor(errors).double()  # (runs, which, train or test)
    gain = errors[:, 0] - errors[:, 1]
    return {
        "best": {"direction": chosen.direction} | dict(chosen.rates),
        "predicted": [usual.test_error, chosen.test_error],
        "train": errors[:, :, 0].mean(0).tolist(),
        "test": errors[:, :, 1].mean(0).tolist(),
        "gain": gain.mean(0).tolist(),
        "gain_stderr": (gain.std(0) / RUNS**0.5).tolist(),
    }


if __name__ == "__main__":
    results = json.loads(OUT.read_text()) if OUT.exists() else {}
    for name in sys.argv[1:] or PROBLEMS:
        results[name] = measure(name)
        write_text(OUT, json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    print("| problem | best g | gradient | best | predicted gain | test error's gain | train's |")
    print("|---|---|---|---|---|---|---|")
    for name, found in results.items():
        before, after = found["predicted"]
        train, test = (
            f"{gain:.4f} ± {error:.4f}"
            for gain, error in zip(found["gain"], found["gain_stderr"], strict=True)
        )
        row = f"{found['best']['direction']} | {before:.4f} | {after:.4f} | {before - after:.4f}"
        print(f"| {name} | {row} | {test} | {train} |")
