"""Train and test error as the number of units L grows with d: a table and a figure.

``python studies/width.py`` measures what width.json next to this file does not have yet, draws
width.png and prints the table; ``--draw`` only draws and prints. Ten minutes on one core.
``--features`` prints a second table instead: weights of the head 1/L and not L^{−1/2}, the rate L
times as large, so that every unit moves by as much as a single one would. Two minutes.
"""

import json
import sys
from pathlib import Path

import torch

import decoupled_descent as dd
from decoupled_descent.files import write_text
from decoupled_descent.plotting.style import new_figure, plain_log_ticks, save_figure, tidy

OUT = Path(__file__).with_suffix(".json")
FIGURE = OUT.parents[1] / "docs" / "figures" / "width.png"
STEPS, ROWS, TEST_ROWS, HEAD_LR = 30, 8000, 4000, 0.1
SIZES = (200, 400, 800)
SHARES = (0.01, 0.03, 0.1, 0.3, 1.0)  # L/d
METHODS = {"decoupled": dd.DecoupledDescent, "gradient": dd.GradientDescent}
HEADS = {
    "head frozen": {"head_lr": 0.0},
    "head trained": {"head_lr": HEAD_LR},
    "heads of five folds": {"head_lr": HEAD_LR, "head_folds": 5},  # decoupled descent only
}


class OwnShare:
    r"""What a row has gained by its own pull at the weights of the head, to first order.

    The head moves by −γ/n Σ_i ℓ'_i σ(h_i). So the output of row i at step t contains
    −γ/n Σ_s ℓ'_{s,i} σ(h_{s,i})ᵀσ(h_{t,i}) of its own, L/n times a number of order one. The mean
    of ℓ'_t times this is what the loss has gained.
    """

    def __init__(self, y, head_lr):
        self.y, self.head_lr, self.past, self.gain = y, head_lr, 0.0, 0.0

    def __call__(self, step):
        features = torch.tanh(step.info.preactivations)
        outputs = features @ step.state.head["1.weight"][0]
        slopes = torch.sigmoid(outputs) - self.y
        self.gain = float(
            self.head_lr / len(self.y) * (slopes * (features * self.past).sum(1)).mean()
        )
        self.past = self.past + slopes.unsqueeze(1) * features
        self.state = step.state


def run(method, n, width, options, seed, rate=0.5, weights=None):
    """Train error, test error and the head's own share of the gap at the last step."""
    mixture = dd.mixtures.flipped_classes(n, snr=1.5, labels=(0.0, 1.0))
    X, y = mixture.sample(n, seed=seed)
    X_new, y_new = mixture.sample(TEST_ROWS, seed=10_000 + seed)
    head = dd.heads.TwoLayer(width, seed=seed)
    if weights is not None:
        head[1].weight.data = weights
    objective = dd.Objective(head, "logistic")
    algorithm, own = METHODS[method](rate, 0.95, **options), OwnShare(y, options["head_lr"])
    fitted = dd.fit(X, y, objective, algorithm, STEPS, seed=seed, callbacks=[own])
    test = objective.losses(X_new @ own.state.theta.T, y_new, own.state.head).mean()
    return float(fitted.train_error[-1]), float(test), own.gain


def measure(method, n, share, head):
    width, runs = max(2, round(share * n)), ROWS // n
    found = torch.tensor([run(method, n, width, HEADS[head], s) for s in range(runs)]).double()
    gap = found[:, 0] - found[:, 1]
    values = dict(zip(("train", "test", "own"), found.mean(0).tolist(), strict=True))
    spread = float(gap.std()) / runs**0.5
    found = {"L": width, "runs": runs, "gap": float(gap.mean()), "stderr": spread}
    return found | values | {"gaps": [round(value, 6) for value in gap.tolist()]}


def features():
    """Print train − test for weights ±1/(√3 L) and rate L/2."""
    print("| d | L/d | train | test | train − test |")
    print("|---|---|---|---|---|")
    for n in SIZES[:2]:
        for share in (0.03, 0.3, 1.0):
            width, found = round(share * n), []
            for seed in range(ROWS // n):
                drawn = torch.rand(1, width, generator=torch.Generator().manual_seed(seed))
                weights = (drawn - 0.5).sign() / (3**0.5 * width)
                pair = run("decoupled", n, width, HEADS["head frozen"], seed, 0.5 * width, weights)[
                    :2
                ]
                found.append(pair)
            found = torch.tensor(found).double()
            gap, mean = found[:, 0] - found[:, 1], found.mean(0)
            spread = f"{float(gap.mean()):+.4f} ± {float(gap.std()) / len(gap) ** 0.5:.4f}"
            print(f"| {n} | {share} | {mean[0]:.4f} | {mean[1]:.4f} | {spread} |", flush=True)


def draw(results):
    figure, axes = new_figure(2)
    for axis, head in zip(axes.flat, HEADS, strict=False):
        shown = {"decoupled descent": ("decoupled", head, "#0072B2")}
        if head == "head trained":
            shown["the same, heads of five folds"] = ("decoupled", "heads of five folds", "#009E73")
        shown["gradient descent"] = ("gradient", head, "#D55E00")
        for label, (method, kind, colour) in shown.items():
            for n, marker in zip(SIZES, "ovs", strict=True):
                cells = [results[f"{method}, {n}, {share}, {kind}"] for share in SHARES]
                axis.errorbar(
                    [c["L"] / n for c in cells],
                    [c["gap"] for c in cells],
                    [2 * c["stderr"] for c in cells],
                    color=colour,
                    marker=marker,
                    ms=4,
                    lw=1,
                    label=f"{label}, d = {n}",
                )
        axis.axhline(0.0, color="black", lw=0.8)
        axis.set(xscale="log", title=head, xlabel="L/d", ylabel="train error − test error")
        plain_log_ticks(axis.xaxis)
        tidy(axis)
    entries = axes.flat[1].get_legend_handles_labels()
    figure.legend(*entries, loc="outside lower center", ncols=3, frameon=False, fontsize="small")
    save_figure(figure, FIGURE)


def table(results):
    print("| L/d | d | train − test, head frozen | head trained | difference | predicted |", end="")
    print(" heads of five folds | gradient descent, head trained |")
    print("|---|---|---|---|---|---|---|---|")
    for share in SHARES:
        for n in SIZES:
            frozen, trained, folds = (results[f"decoupled, {n}, {share}, {h}"] for h in HEADS)
            adds = f"{trained['gap'] - frozen['gap']:+.4f}"
            if "gaps" in trained:  # run by run
                added = torch.tensor(trained["gaps"]) - torch.tensor(frozen["gaps"])
                adds += f" ± {float(added.std()) / len(added) ** 0.5:.4f}"
            adds += f" | {-trained['own']:+.4f}"
            theirs = results[f"gradient, {n}, {share}, head trained"]
            gaps = [
                f"{c['gap']:+.4f} ± {c['stderr']:.4f}" for c in (frozen, trained, folds, theirs)
            ]
            print(f"| {share} | {n} | {gaps[0]} | {gaps[1]} | {adds} | {gaps[2]} | {gaps[3]} |")


if __name__ == "__main__":
    if "--features" in sys.argv:
        sys.exit(features())
    results = json.loads(OUT.read_text()) if OUT.exists() else {}
    names = [(m, n, share, h) for n in SIZES for share in SHARES for h in HEADS for m in METHODS]
    names = [name for name in names if name[0] == "decoupled" or "folds" not in name[3]]
    for method, n, share, head in [] if "--draw" in sys.argv else names:
        name = f"{method}, {n}, {share}, {head}"
        if name not in results:
            results[name] = measure(method, n, share, head)
            print(name, results[name], flush=True)
            write_text(OUT, json.dumps(results, indent=1) + "\n")
    draw(results)
    table(results)
