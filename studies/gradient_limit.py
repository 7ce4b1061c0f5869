"""Gradient descent at n = d = 2000 against its limit; the table and figure of the theory page.

``python studies/gradient_limit.py PROBLEM…`` measures the problems named (all of them by
default), updates gradient_limit.json next to this file, draws gradient_limit.png and prints the
table; ``--draw`` only draws and prints. About ten minutes on one core.
"""

import json
import sys
from pathlib import Path

import torch

import decoupled_descent as dd
from decoupled_descent.files import write_text
from decoupled_descent.plotting.style import COLOURS, THEORY, new_figure, save_figure, tidy
from decoupled_descent.theory.averages import Point

OUT = Path(__file__).with_suffix(".json")
FIGURE = OUT.parents[1] / "docs" / "figures" / "gradient_limit.png"
N, STEPS, RUNS = 2000, 60, 50


def signalless():
    objective = dd.Objective(dd.heads.Linear(), "squared")
    return dd.mixtures.signalless(N), objective, dd.GradientDescent(0.05), 0.0


def flipped():
    mixture = dd.mixtures.flipped_classes(N, snr=1.5, labels=(0.0, 1.0))
    objective = dd.Objective(dd.heads.Linear(), "logistic")
    return mixture, objective, dd.GradientDescent(0.5), 0.0


def xor(signal=0.02):
    objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
    return dd.mixtures.xor(N, snr=4.0), objective, dd.GradientDescent(0.05), signal


#: What is measured, and the options of predictions where every run has a start and a prediction of
#: its own: in the limit, or with the fluctuations along the means that N rows have.
PROBLEMS = {
    "signal-less": (signalless, None),
    "flipped classes": (flipped, None),
    "XOR, informed start": (xor, None),
    "XOR, random starts": (lambda: xor(0.0), {}),
    f"XOR, random starts, n = {N}": (lambda: xor(0.0), {"rows": N}),
}


def start(mixture, objective, signal, seed):
    generator = torch.Generator().manual_seed(seed)
    theta = torch.randn(objective.width, N, generator=generator).double()
    return theta + signal * mixture.means[[0, 2]] if signal else theta


def run(theory, theta, seed):
    """Train and test error of one run, the latter exact given its parameters."""
    mixture, objective = theory.mixture, theory.objective
    X, y = mixture.sample(N, seed=seed)
    nodes, model, seen = theory.nodes(len(theta)), theory.model(len(theta)), []
    fitted = dd.fit(X, y, objective, theory.algorithm, STEPS, theta, callbacks=[seen.append])
    test = []
    for step in seen:
        moved = step.state.theta.double()
        overlaps = mixture.means @ moved.T / N, moved @ moved.T / N
        head = {name: value.double() for name, value in step.state.head.items()}
        test.append(float(model.test_error(nodes, Point(*overlaps, head))))
    return torch.stack([fitted.train_error.double(), torch.tensor(test).double()])


def measure(name, runs):
    make, own = PROBLEMS[name]
    mixture, objective, algorithm, signal = make()
    options = {}
    if own is not None:
        options = (
            {"paths": 2048, "randomisations": 8} if own else {"paths": 4096, "randomisations": 2}
        )
    found, predicted, errors = [], [], []
    for seed in range(runs):
        theta = start(mixture, objective, signal, 1000 + (0 if own is None else seed))
        if own is not None or not predicted:
            theory = dd.StateEvolution(mixture, objective, algorithm, seed=seed, **options)
            evolution = theory.run(STEPS, theta, **(own or {}))
            predicted.append(torch.stack([evolution.train_error, evolution.test_error]))
            errors.append(torch.stack([evolution.stderr[k + "_error"] for k in ("train", "test")]))
        found.append(run(theory, theta, seed))
    found, predicted = torch.stack(found), torch.stack(predicted)
    gap = found - predicted
    stderr = gap.var(0) / runs  # has the errors of predictions in it where each run has its own
    if own is None:
        stderr = stderr + errors[0].square()
    stderr = stderr.sqrt()
    values = {"predicted": predicted.mean(0), "mean": found.mean(0), "stderr": stderr}
    return {"runs": runs} | {name: value.tolist() for name, value in values.items()}


def draw(results):
    figure, axes = new_figure(3, -(-len(results) // 3))
    for axis in axes.flat[len(results) :]:
        axis.remove()
    for axis, (name, found) in zip(axes.flat, results.items(), strict=False):
        for k, (kind, colour) in enumerate(COLOURS.items()):
            mean, stderr = torch.tensor(found["mean"][k]), torch.tensor(found["stderr"][k])
            limits = mean - 3 * stderr, mean + 3 * stderr
            axis.fill_between(range(STEPS), *limits, color=colour, alpha=0.3, linewidth=0)
            axis.plot(mean, color=colour, label=f"{kind}, mean of {found['runs']} runs ± 3 s.e.")
            axis.plot(found["predicted"][k], **(THEORY | {"label": "limit" if k else None}))
        axis.set(title=name, xlabel="step", ylabel="error")
        tidy(axis)
    axes.flat[0].legend(fontsize="small")
    save_figure(figure, FIGURE)


def table(results):
    print("| problem | runs | | limit, last step | runs | largest z | rms z | steps beyond 3 |")
    print("|---|---|---|---|---|---|---|---|")
    for name, found in results.items():
        for k, label in enumerate(("train", "test")):
            mean, stderr = torch.tensor(found["mean"][k]), torch.tensor(found["stderr"][k])
            z = (mean - torch.tensor(found["predicted"][k])) / stderr.clamp(min=1e-12)
            last = f"{found['predicted'][k][-1]:.5f} | {mean[-1]:.5f} ± {stderr[-1]:.5f}"
            size = f"{z.abs().max():.2f} | {z.square().mean().sqrt():.2f}"
            beyond = int((z.abs() > 3).sum())
            print(f"| {name} | {found['runs']} | {label} | {last} | {size} | {beyond} |")


if __name__ == "__main__":
    results = json.loads(OUT.read_text()) if OUT.exists() else {}
    names = [name for name in sys.argv[1:] if name != "--draw"]
    for name in names or (PROBLEMS if "--draw" not in sys.argv else []):
        results[name] = measure(name, RUNS)
        write_text(OUT, json.dumps(results, indent=1) + "\n")
    results = {name: results[name] for name in PROBLEMS if name in results}
    draw(results)
    table(results)
