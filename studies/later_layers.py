"""Heads of growing width and depth: where train errors stop being estimates of the test error.

``python studies/later_layers.py`` measures what later_layers.json does not have yet, draws
later_layers.png and prints the table of docs/theory/beyond.md; ``--draw`` only draws and
prints. Half an hour on one core.
"""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

import decoupled_descent as dd
from decoupled_descent.files import write_text
from decoupled_descent.plotting.style import new_figure, plain_log_ticks, save_figure, tidy

OUT = Path(__file__).with_suffix(".json")
FIGURE = OUT.parents[1] / "docs" / "figures" / "later_layers.png"
N, D, UNITS, DRAWS = 400, 200, 4, 12
MIXTURE = dd.mixtures.flipped_classes(D, snr=1.5, labels=(0.0, 1.0))
HEADS = ([2], [8], [32], [128], [640], [8, 8], [32, 32], [60, 60])
#: Ten times as many steps train the head much further.
STEPS, LONG, LONG_HEADS = 60, 600, ([8], [128], [32, 32])
CASES = [(head, STEPS) for head in HEADS] + [(head, LONG) for head in LONG_HEADS]
RATES = {"lr": 0.1, "damping": 0.95}
METHODS = ("decoupled", "decoupled, five folds", "orthogonal", "path", "gradient")
#: Heads for which the path takes minutes.
SLOW = ([640], [60, 60])
MARKS = dict(zip(METHODS, "osD^v", strict=True))


def head_of(widths: list[int], seed: int) -> nn.Module:
    """Tanh layers of these widths behind the first layer, and one output."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers: list[nn.Module] = [nn.Tanh()]
        sizes = [UNITS, *widths]
        for before, after in pairwise(sizes):
            layers += [nn.Linear(before, after), nn.Tanh()]
        return nn.Sequential(*layers, nn.Linear(sizes[-1], 1))


def head_lr(widths: list[int]) -> float:
    """A rate with which outputs move equally fast for all widths: gradients add up over units."""
    return 4 / (8 + widths[-1])


class OwnShare:
    r"""What the loss of a row has gained by the row's own part in training the head.

    The head moves by −γ/n Σ_i J_iᵀ g_i, with the outputs' gradients J_i and slopes g_i of the loss.
    Let u_i be the change of all outputs that comes from row i. It moves by its own step, and the
    other rows work against it:

    .. math:: U \leftarrow U - \tfrac{\gamma}{n} K (W U + \mathrm{diag}(g)), \qquad K = J J^\top,

    with the curvatures W of the loss. The mean of g_i U_ii is the optimism, to first order.
    """

    def __init__(self, head: nn.Module, y: torch.Tensor, rate: float) -> None:
        self.y, self.rate, self.gain = y, rate, 0.0
        self.own = torch.zeros(N, N)

        def output(a: dict[str, torch.Tensor], h: torch.Tensor) -> torch.Tensor:
            return functional_call(head, a, (h,)).squeeze(-1)

        self.slopes, self.output = vmap(grad(output), in_dims=(None, 0)), output

    def __call__(self, step: Any) -> None:
        h, a = step.info.preactivations, step.state.head
        with torch.no_grad():
            p = torch.sigmoid(self.output(a, h))
        g, w = p - self.y, p * (1 - p)
        self.gain = float((g * self.own.diagonal()).mean())
        parts = [value.flatten(1) for value in self.slopes(a, h).values()]
        J = torch.cat(parts, 1)
        pulled = w[:, None] * self.own
        pulled.diagonal().add_(g)
        self.own = self.own - self.rate / N * (J @ (J.T @ pulled))


def one(widths: list[int], method: str, seed: int, steps: int = STEPS) -> dict[str, float]:
    """Train and test error at the last step, the standard error, and the predicted optimism."""
    (X, y), test = MIXTURE.sample(N, seed=seed), MIXTURE.sample(8000, seed=1000 + seed)
    head = head_of(widths, seed)
    parameters = sum(value.numel() for value in head.parameters())
    rates = RATES | {"head_lr": head_lr(widths)}
    share = OwnShare(head, y, head_lr(widths))
    if method == "path":
        first = nn.Linear(D, UNITS, bias=False)
        with torch.no_grad():
            first.weight.copy_(torch.randn(UNITS, D, generator=torch.Generator().manual_seed(seed)))
        model, algorithm = nn.Sequential(first, head), dd.DecoupledGaussNewton(ridge=1.0)
        run = dd.fit(X, y, model, algorithm, 25, loss="logistic", test=test, progress=False)
        last = run.best_step
    else:
        algorithms = {
            "decoupled": dd.DecoupledDescent(**rates),
            "decoupled, five folds": dd.DecoupledDescent(**rates, head_folds=5),
            "orthogonal": dd.OrthogonalDecoupledDescent(**rates, ridge=1.0),
            "gradient": dd.GradientDescent(**rates),
        }
        objective = dd.Objective(head, "logistic", width=UNITS)
        run = dd.fit(X, y, objective, algorithms[method], steps, test=test, seed=seed,
                     callbacks=share if method == "decoupled" else (), progress=False)  # fmt: skip
        last = -1
    assert run.test_error is not None
    return {
        "ratio": parameters / N, "train": float(run.train_error[last]),
        "test": float(run.test_error[last]), "stderr": float(run.train_error_stderr[last]),
        "predicted": share.gain,
    }  # fmt: skip


def name_of(widths: list[int], steps: int, method: str) -> str:
    return f"{'–'.join(map(str, widths))}, {steps} steps, {method}"


def measure() -> dict[str, list[dict[str, float]]]:
    """All results; those of earlier calls are kept. The path makes its own number of steps."""
    results = json.loads(OUT.read_text()) if OUT.exists() else {}
    for widths, steps in CASES:
        for method in METHODS:
            if method == "path" and (steps != STEPS or widths in SLOW):
                continue
            draws = DRAWS if method != "path" else DRAWS // 3
            known = results.setdefault(name_of(widths, steps, method), [])
            known += [one(widths, method, seed, steps) for seed in range(len(known), draws)]
            write_text(OUT, json.dumps(results))
    return results


def summary(draws: list[dict[str, float]]) -> tuple[float, float, float, float]:
    """P/n, train − test, its standard error, and the predicted optimism."""
    gaps = np.array([draw["train"] - draw["test"] for draw in draws])
    predicted = float(np.mean([draw["predicted"] for draw in draws]))
    return (
        draws[0]["ratio"],
        float(gaps.mean()),
        float(gaps.std(ddof=1)) / len(gaps) ** 0.5,
        predicted,
    )


def table(results: dict[str, list[dict[str, float]]]) -> None:
    print("| head | P/n | steps | " + " | ".join(METHODS) + " | predicted for decoupled |")
    print("|---" * (len(METHODS) + 4) + "|")
    for widths, steps in CASES:
        cells, predicted, ratio = [], 0.0, 0.0
        for method in METHODS:
            draws = results.get(name_of(widths, steps, method))
            if not draws:
                cells.append("–")
                continue
            ratio, gap, stderr, own = summary(draws)
            predicted = own if method == "decoupled" else predicted
            cells.append(f"{gap:+.3f} ± {stderr:.3f}")
        name = "–".join(map(str, widths))
        print(f"| {name} | {ratio:.2f} | {steps} | {' | '.join(cells)} | {predicted:+.3f} |")


def draw(results: dict[str, list[dict[str, float]]]) -> None:
    figure, axes = new_figure()
    ax = axes[0, 0]
    for method in METHODS:
        names = [name_of(head, STEPS, method) for head in HEADS]
        points = sorted(summary(results[name]) for name in names if name in results)
        x, gap, stderr, predicted = np.array(points).T
        ax.errorbar(x, gap, 1.96 * stderr, fmt=MARKS[method] + "-", ms=4, lw=1, label=method)
        if method == "decoupled":
            ax.plot(x, predicted, "k:", lw=1.2, label="rows' own share in the head, first order")
    ax.axhline(0, color="grey", lw=0.6)
    ax.set_xscale("log")
    plain_log_ticks(ax.xaxis)
    ax.set(xlabel="parameters of the head / rows", ylabel="train error − test error")
    tidy(ax, "small")
    save_figure(figure, FIGURE)


if __name__ == "__main__":
    results = json.loads(OUT.read_text()) if "--draw" in sys.argv else measure()
    table(results)
    draw(results)
