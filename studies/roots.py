"""Intervals of a mean loss: around the mean itself, or around its root?

``python studies/roots.py`` prints the two tables of docs/results/tables.md: the 660 fits
of studies/tables.jsonl, and drawn squared errors of known laws.
"""

import json
from pathlib import Path

import numpy as np

from decoupled_descent.checks import Z95

SAMPLES = 4000
#: Errors of each law, and the mean of their squares.
LAWS = {
    "normal": (lambda rng, size: rng.normal(size=size), 1.0),
    "Laplace": (lambda rng, size: rng.laplace(size=size), 2.0),
    "lognormal, 0.5": (
        lambda rng, size: np.exp(0.5 * rng.normal(size=size)) - np.exp(0.125),
        (np.exp(0.25) - 1) * np.exp(0.25),
    ),
    "lognormal, 1": (
        lambda rng, size: np.exp(rng.normal(size=size)) - np.exp(0.5),
        (np.e - 1) * np.e,
    ),
    "t, 3 degrees": (lambda rng, size: rng.standard_t(3, size=size), 3.0),
}


def ends(error, stderr, power):
    """The interval of error^power, taken back."""
    half = Z95 * power * stderr / error
    return error * np.maximum(0, 1 - half) ** (1 / power), error * (1 + half) ** (1 / power)


def real():
    lines = Path(__file__).with_name("tables.jsonl").read_text().splitlines()
    fits = [one for one in map(json.loads, lines) if one["model"] == "ours"]
    print("| fits | interval of | test error above | below | both, with the noise of the test |")
    print("|---|---|---|---|---|")
    for task in ("classification", "regression"):
        mine = [one for one in fits if one["task"] == task]
        names = ("estimate", "estimate_se", "test", "test_se")
        error, stderr, test, noise = (np.array([one[name] for one in mine]) for name in names)
        for power, name in ((1, "the error"), (0.5, "its root")):
            low, high = ends(error, stderr, power)
            up, down = np.hypot(high - error, Z95 * noise), np.hypot(error - low, Z95 * noise)
            off = ((test > error + up) | (test < error - down)).mean()
            print(
                f"| {len(mine)}, {task} | {name} | {np.mean(test > high):.1%} | "
                f"{np.mean(test < low):.1%} | {off:.1%} |"
            )


def drawn():
    print("\n| squares of errors | rows | covered, the error | its root |\n|---|---|---|---|")
    rng = np.random.default_rng(0)
    for name, (draw, truth) in LAWS.items():
        for rows in (40, 100, 400):
            losses = draw(rng, (SAMPLES, rows)) ** 2
            error = losses.mean(1)
            more = np.concatenate([losses, losses.max(1, keepdims=True)], 1)  # as estimators do
            stderr = np.sqrt(more.var(1, ddof=1) / rows)
            found = [ends(error, stderr, power) for power in (1, 0.5)]
            shares = [f"{np.mean((low <= truth) & (truth <= high)):.1%}" for low, high in found]
            print(f"| {name} | {rows} | {' | '.join(shares)} |")


if __name__ == "__main__":
    real()
    drawn()
