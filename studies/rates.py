"""The error of decoupled descent at finite size along the path: bias c/n and spread s/√n.

``python studies/rates.py OUT.json`` measures, ``python studies/rates.py draw OUT.json``
prints the tables of docs/theory/beyond.md and draws its figure.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

import decoupled_descent as dd

STEPS = (5, 10, 20, 40, 79)
#: The number of draws of each size n = d.
DRAWS = {250: 600, 500: 400, 1000: 300, 2000: 120}
TEST_ROWS = 5000
#: The sizes that are drawn, with the style of their lines.
DRAWN = {250: "-", 1000: "--"}


def problems(size: int) -> dict[str, tuple[dd.GaussianMixture, dd.Objective, dict[str, Any]]]:
    """Mixture, objective and options of undamped decoupled descent."""
    flipped = dd.mixtures.flipped_classes(size, 1.5, labels=(0.0, 1.0))
    tanh = dd.Objective(dd.heads.TwoLayer(5, seed=0), "logistic")
    xor = dd.Objective(dd.heads.Product(a=1.0), "logistic")
    return {
        "XOR": (dd.mixtures.xor(size, 4.0), xor, {"lr": 0.05}),
        "flipped classes": (flipped, dd.Objective(dd.heads.Linear(), "logistic"), {"lr": 0.1}),
        "five tanh units": (flipped, tanh, {"lr": 0.1}),
        "five tanh units, head_folds=5": (flipped, tanh, {"lr": 0.1, "head_folds": 5}),
        "XOR, norms of rows": (dd.mixtures.xor(size, 4.0), xor, {"lr": 0.05}),
    }


def measure(size: int, name: str) -> dict[str, Any]:
    """Gaps and standard errors at all steps of all draws; the test rows' own noise; seconds."""
    mixture, objective, options = problems(size)[name]
    gaps, stderrs, noises, at = [], [], [], list(STEPS)
    start = time.process_time()
    for seed in range(DRAWS[size]):
        rows, test = mixture.sample(size, seed=seed), mixture.sample(TEST_ROWS, seed=10**6 + seed)
        noise: list[float] = []

        def evaluate(step: Any, test: Any = test, noise: list[float] = noise) -> None:
            if step.index in STEPS:
                outputs = objective.pure_head(test[0] @ step.state.theta.T, step.state.head)
                losses = objective.loss.of(outputs.detach(), test[1])
                noise += [float(losses.mean()), float(losses.std()) / TEST_ROWS**0.5]

        own = {"noise": "row norms"} if "norms" in name else {}
        algorithm = dd.DecoupledDescent(**options, **own)
        run = dd.fit(*rows, objective, algorithm, STEPS[-1] + 1, seed=seed, progress=False,
                     callbacks=[evaluate])  # fmt: skip
        truth = torch.tensor(noise, dtype=torch.float64).reshape(-1, 2)
        gaps.append((run.train_error[at] - truth[:, 0]).tolist())
        stderrs.append(run.train_error_stderr[at].tolist())
        noises.append(truth[:, 1].tolist())
    seconds = (time.process_time() - start) / DRAWS[size]
    return {"problem": name, "n": size, "gaps": gaps, "stderrs": stderrs, "noises": noises,
            "seconds": seconds}  # fmt: skip


def summary(record: dict[str, Any]) -> dict[str, torch.Tensor]:
    """By step: bias and its standard error, observed and stated spread, coverage."""
    gaps, stderrs, noises = (torch.tensor(record[k]) for k in ("gaps", "stderrs", "noises"))
    both = (stderrs.square() + noises.square()).sqrt()
    spread = (gaps.var(0) - noises.square().mean(0)).clamp_min(0).sqrt()
    return {
        "bias": gaps.mean(0), "bias_stderr": gaps.std(0) / len(gaps) ** 0.5, "spread": spread,
        "stated": stderrs.square().mean(0).sqrt(), "rms_z": (gaps / both).square().mean(0).sqrt(),
        "covered": ((gaps / both).abs() < 1.96).double().mean(0),
    }  # fmt: skip


def draw(path: str) -> None:
    """Print the tables, and draw n·bias and √n·spread along the path."""
    import matplotlib.pyplot as plt

    records = json.loads(Path(path).read_text())
    print("| problem | n | draws | c = n·bias, step 10 | step 40 | step 79 "
          "| s = √n·spread, step 79 | stated s | covered, steps 5 to 79 |")  # fmt: skip
    print("|---" * 9 + "|")
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    colours = {"XOR": "C0", "XOR, norms of rows": "C1", "five tanh units": "C2"}
    for record in records:
        n, found = record["n"], summary(record)
        c, doubt = n * found["bias"], n * found["bias_stderr"]
        s, stated = n**0.5 * found["spread"], n**0.5 * found["stated"]
        shown = " | ".join(f"{c[k]:+.1f} ± {doubt[k]:.1f}" for k in (1, 3, 4))
        covered = 100 * float(found["covered"].mean())
        print(f"| {record['problem']} | {n} | {len(record['gaps'])} | {shown} | {s[-1]:.2f} "
              f"| {stated[-1]:.2f} | {covered:.0f} % |")  # fmt: skip
        if n in DRAWN and record["problem"] in colours:
            label = f"{record['problem']}, n = {n}"
            style = {"color": colours[record["problem"]], "linestyle": DRAWN[n]}
            axes[0].errorbar(STEPS, c, doubt, label=label, **style)
            axes[1].plot(STEPS, s, **style)
            axes[1].plot(STEPS, stated, ".", color=style["color"])
    axes[0].axhline(0, color="0.7", zorder=0)
    axes[0].set(xlabel="step", ylabel="c = n × bias")
    axes[1].set(xlabel="step", ylabel="s = √n × spread (dots: stated)", ylim=(0, None))
    axes[0].legend(fontsize=6, frameon=False)
    figure.savefig(Path(__file__).parents[1] / "docs" / "figures" / "rates.png", dpi=110)


def main(path: str) -> None:
    """Measure all sizes and write them after each, the smallest first; keep what is there."""
    torch.set_num_threads(1)
    records = json.loads(Path(path).read_text()) if Path(path).exists() else []
    done = {(one["problem"], one["n"]) for one in records}
    for size in DRAWS:
        for name in problems(size):
            if (name, size) not in done:
                records.append(measure(size, name))
                Path(path).write_text(json.dumps(records))


if __name__ == "__main__":
    draw(sys.argv[2]) if sys.argv[1] == "draw" else main(sys.argv[1])
