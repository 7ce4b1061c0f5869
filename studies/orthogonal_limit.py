"""Orthogonal decoupled descent at finite n against its limit; the tables of the theory page.

``python studies/orthogonal_limit.py`` measures, writes orthogonal_limit.json and
docs/figures/orthogonal_limit.png and prints the tables; ``--draw`` only draws and prints.
About ten minutes on one core.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np
import torch

import decoupled_descent as dd
from decoupled_descent.datasets.responses import flipped
from decoupled_descent.files import write_text, written_whole
from decoupled_descent.plotting.style import COLOURS, THEORY, new_figure
from decoupled_descent.theory.populations import quadrature_nodes, sampled_nodes

OUT = Path(__file__).with_suffix(".json")
FIGURE = OUT.parents[1] / "docs" / "figures" / "orthogonal_limit.png"
RATIO, STEPS = 2.0, 40
SIZES = {250: 400, 500: 300, 1000: 150, 2000: 80}  # how many runs
NETWORK_SIZES = {250: 250, 500: 200, 1000: 100, 2000: 70}
RIDGES = (0.3, 1.0, math.inf)
DRAWN = (1000, "power")
HEADS = {
    "linear": (dd.heads.Linear, {"lr": 0.2, "damping": 0.9}),
    "two-layer tanh, L = 3": (
        lambda: dd.heads.TwoLayer(3, seed=3).double(),
        {"lr": 0.3, "damping": 0.95, "head_lr": 0.5},
    ),
}
QUANTITIES = ("train", "test", "m", "omega", "train - test")


def spectrum(kind, d):
    quantile = (torch.arange(d).double() + 0.5) / d
    tau = 1 / (quantile + 0.05) if kind == "power" else torch.where(quantile < 0.5, 0.2, 1.8)
    return tau / tau.mean()


def three_modes(tau, noise="gaussian"):
    """Means of length 2.5, one of them drawn towards the strong directions; spare directions."""
    d = len(tau)
    drawn = torch.randn(d, 6, generator=torch.Generator().manual_seed(5)).double()
    axes = torch.linalg.qr(drawn).Q.T * d**0.5
    means = 2.5 * torch.stack([axes[0], axes[1] * tau.sqrt(), axes[2] - axes[0] / 2])
    laws = [flipped(1.0, 0.0, 0.1), flipped(0.0, 1.0, 0.1), 1.0]
    return dd.GaussianMixture(means, [0.3, 0.4, 0.3], laws, noise), axes[3:]


def sample(mixture, tau, n, seed, elliptical=False):
    X, y, modes = mixture.sample_with_modes(n, seed, torch.float64)
    centres = mixture.means[modes] / len(tau)
    noise = (X - centres) * tau.sqrt()
    if elliptical:  # t₅ rows: norms that vary, the same covariance
        chi = np.random.default_rng(seed).chisquare(5, n)
        noise = noise * torch.from_numpy(np.sqrt(3 / chi)).unsqueeze(1)
    return dd.Rows(centres + noise, y)


def measure(rows, mixture, tau, objective, algorithm, theta):
    """Train and test error, alignments and overlaps of every iterate of one run."""
    width = len(theta)
    narrow = width <= 2
    nodes = (
        quadrature_nodes(mixture, width, 64) if narrow else sampled_nodes(mixture, width, 2**13, 0)
    )
    bound = algorithm.bind(rows, objective, theta)
    state, found = algorithm.init(rows, bound, theta), []
    for _ in range(STEPS):
        m = mixture.means @ state.theta.T / len(tau)
        omega = (state.theta * tau) @ state.theta.T / len(tau)
        population = nodes.population
        losses = objective.losses(nodes.place(m, omega), population.responses, state.head)
        test = float(population.weights @ losses)
        state, info = algorithm.step(state, rows, bound)
        train = info.train_error
        found.append((train, test, m.tolist(), omega.tolist(), train - test))
    columns = zip(QUANTITIES, zip(*found, strict=True), strict=True)
    return {name: np.array(v) for name, v in columns} | {"nominal": info.train_error_stderr}


def compare(runs, evolution):
    """Deviations of the mean of runs in standard errors, by quantity."""
    limits = {"train": evolution.test_error, "test": evolution.test_error}
    limits |= {"m": evolution.alignment, "omega": evolution.overlap}
    limits["train - test"] = torch.zeros(STEPS)
    rows = {}
    for name, limit in limits.items():
        values, limit = np.stack([run[name] for run in runs]), limit.numpy()
        stderr = values.std(0, ddof=1) / math.sqrt(len(runs))
        moving = stderr > 1e-10
        z = (values.mean(0) - limit)[moving] / stderr[moving]
        rows[name] = {
            "limit": limit[-1].tolist(),
            "mean": values.mean(0)[-1].tolist(),
            "stderr": stderr[-1].tolist(),
            "deviation": float(np.sqrt(((values - limit)[:, -1] ** 2).mean())),
            "rms_z": float(np.sqrt((z**2).mean())),
            "max_z": float(np.abs(z).max()),
        }
    gap = np.stack([run["train - test"][-1] / run["nominal"] for run in runs])
    return rows | {"z_spread": float(gap.std(ddof=1))}


def curves(runs, evolution):
    found = {"limit": evolution.test_error.tolist()}
    for name in ("train", "test"):
        values = np.stack([run[name] for run in runs])
        found[name] = np.quantile(values, (0.1, 0.5, 0.9), axis=0).tolist()
    return found


def study(kind, n, count, heads=tuple(HEADS), ridges=RIDGES, noise="gaussian", **options):
    """All heads and ridges on the same rows."""
    options = options or {"randomisations": 4}
    tau = spectrum(kind, round(n / RATIO))
    elliptical = noise == "elliptical"
    mixture, spare = three_modes(tau, "gaussian" if elliptical else noise)
    settings = [(head, ridge) for head in heads for ridge in ridges]
    runs = {setting: [] for setting in settings}
    problems = {}
    for head, ridge in settings:
        make, rates = HEADS[head]
        objective = dd.Objective(make(), "logistic")
        width = objective.width
        theta = spare[:width] + 0.1 * mixture.means[:width]
        algorithm = dd.OrthogonalDecoupledDescent(**rates, ridge=ridge)
        problems[head, ridge] = (objective, algorithm, theta)
    for seed in range(count):
        rows = sample(mixture, tau, n, 1000 + seed, elliptical)
        for setting, problem in problems.items():
            runs[setting].append(measure(rows, mixture, tau, *problem))
    for (head, ridge), (objective, algorithm, theta) in problems.items():
        theory = dd.StateEvolution(mixture, objective, algorithm, RATIO, tau, **options)
        evolution = theory.run(STEPS, theta)
        own = runs[head, ridge]
        where = {"head": head, "spectrum": kind, "noise": noise, "ridge": str(ridge), "n": n}
        compared = {"runs": count, "found": compare(own, evolution)}
        print(where, compared["found"]["omega"]["rms_z"], flush=True)
        drawn = {"curves": curves(own, evolution)} if (n, kind) == DRAWN else {}
        yield where | compared | drawn


def network(n, count):
    return study("two-point", n, count, ("two-layer tanh, L = 3",), (0.3,), paths=2**15)


def show(rows):
    print(
        "\n| head | spectrum | λ | limit | train | test | z of train, test, m, Ω | train − test |"
    )
    for row in rows["heads"]:
        print(f"| {row['head']} | {row['spectrum']} | {row['ridge']} | {cells(row['found'])} |")
    print("\n| noise | λ | limit | train | test | z of train, test, m, Ω | train − test |")
    for row in rows["noise"]:
        print(f"| {row['noise']} | {row['ridge']} | {cells(row['found'])} |")
    print("\n| n | runs | test − limit | train − test |")
    for row in rows["network"]:
        test, gap = (row["found"][name] for name in ("test", "train - test"))
        off = f"{test['mean'] - test['limit']:+.4f} ± {test['stderr']:.4f}"
        print(f"| {row['n']} | {row['runs']} | {off} | {gap['mean']:+.4f} ± {gap['stderr']:.4f} |")
    print("\n| λ | n | runs | Ω/limit − 1 | rms deviation of test | train − test | z spread |")
    for row in rows["sizes"]:
        omega, gap = (row["found"][name] for name in ("omega", "train - test"))
        limit = omega["limit"][0][0]
        off, error = omega["mean"][0][0] / limit - 1, omega["stderr"][0][0] / limit
        bias = f"{off:+.4f} ± {error:.4f} | {row['found']['test']['deviation']:.4f}"
        gap = f"{gap['mean']:+.4f} ± {gap['stderr']:.4f} | {row['found']['z_spread']:.2f}"
        print(f"| {row['ridge']} | {row['n']} | {row['runs']} | {bias} | {gap} |")


def cells(found):
    train, test, gap = found["train"], found["test"], found["train - test"]
    z = ", ".join(f"{found[name]['rms_z']:.1f}" for name in QUANTITIES[:4])
    errors = [f"{e['mean']:.4f} ± {e['stderr']:.4f}" for e in (train, test)]
    return " | ".join(
        [f"{test['limit']:.4f}", *errors, z, f"{gap['mean']:+.4f} ± {gap['stderr']:.4f}"]
    )


def draw(rows):
    figure, axes = new_figure(len(RIDGES), len(HEADS), sharex=True, sharey="row")
    figure.set_size_inches(10, 5.6)
    for i, head in enumerate(HEADS):
        for j, ridge in enumerate(RIDGES):
            ax = axes[i, j]
            where = {"head": head, "ridge": str(ridge), "n": DRAWN[0], "noise": "gaussian"}
            where["spectrum"] = DRAWN[1]
            (row,) = (r for r in rows["drawn"] if all(r[k] == v for k, v in where.items()))
            for name, colour in COLOURS.items():
                low, middle, high = row["curves"][name]
                ax.fill_between(range(STEPS), low, high, color=colour, alpha=0.2, lw=0)
                ax.plot(middle, color=colour, label=f"{name}, median and 10–90 %")
            ax.plot(row["curves"]["limit"], **THEORY)
            ax.set_title(f"{head}, λ = {'∞' if math.isinf(ridge) else ridge}", fontsize=10)
    for ax in axes[-1]:
        ax.set_xlabel("step")
    for ax in axes[:, 0]:
        ax.set_ylabel("logistic loss")
    axes[0, 0].legend(fontsize=8)
    with written_whole(FIGURE) as path:
        figure.savefig(path, dpi=110, format="png")


def main(arguments):
    if "--draw" not in arguments:
        kinds, linear = ("power", "two-point"), ("linear",)
        sizes = [study("power", n, count, linear, (0.3, math.inf)) for n, count in SIZES.items()]
        noises = ("gaussian", "three_point", "elliptical")
        found = {
            "drawn": list(study(*reversed(DRAWN), 40)),
            "heads": [row for kind in kinds for row in study(kind, 2000, 48)],
            "noise": [r for name in noises for r in study("power", 1000, 60, linear, noise=name)],
            "sizes": [row for some in sizes for row in some],
            "network": [row for n, count in NETWORK_SIZES.items() for row in network(n, count)],
        }
        found = json.loads(json.dumps(found), parse_float=lambda text: float(f"{float(text):.6g}"))
        text = json.dumps({"steps": STEPS, "ratio": RATIO} | found)
        write_text(OUT, text + "\n")
    rows = json.loads(OUT.read_text())
    show(rows)
    draw(rows)


if __name__ == "__main__":
    main(sys.argv[1:])
