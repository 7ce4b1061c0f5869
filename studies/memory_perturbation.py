"""What several formulas say of each row's left-out loss along one network's run, and who is right.

``python studies/memory_perturbation.py`` prints the table of docs/theory/memory_perturbation.md and
draws its figure. The run is one of damped Gauss-Newton steps. Literal leave-one-out makes it again
from the same start without each row.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn
from torch.func import functional_call, hessian, jacrev, vmap

import decoupled_descent as dd

N, D, WIDTH, STEPS, RIDGES = 100, 10, 8, 60, (10.0, 1.0, 0.05)
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "memory_perturbation.png"
NAMES = ("path", "ten folds", "memory perturbation", "infinitesimal jackknife", "one Newton step")


def rows(count, seed):
    """Two classes that a product of two columns decides, with noise."""
    draw = torch.Generator().manual_seed(seed)
    X = torch.randn(count, D, generator=draw, dtype=torch.float64)
    score = X[:, 0] + X[:, 1] * X[:, 2]
    return X, (score + torch.randn(count, generator=draw, dtype=torch.float64) > 0).double()


def network(seed):
    """One layer of tanh units."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = (nn.Linear(D, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))
        return nn.Sequential(*layers).double()


def descent(X, y, model, ridge, followed):
    """All iterates, and the left-out outputs that the path has for them."""
    seen = []
    algorithm = dd.DecoupledGaussNewton(ridge, 0.3, 0.3, followed=followed, stratified=False)

    def keep(step):
        seen.append((step.state.theta[0], step.info.preactivations))

    dd.fit(X, y, model, algorithm, STEPS, loss="logistic", progress=False, callbacks=keep)
    return torch.stack([theta for theta, _ in seen]), [h for _, h in seen]


class Flat:
    """The network as a function of one vector of parameters."""

    def __init__(self, model):
        self.model = model
        self.shapes = {name: value.shape for name, value in model.named_parameters()}

    def __call__(self, beta, X):
        """Outputs, shape (n,)."""
        named, first = {}, 0
        for name, shape in self.shapes.items():
            named[name] = beta[first : first + shape.numel()].reshape(shape)
            first += shape.numel()
        return functional_call(self.model, named, (X,)).reshape(-1)


def formulas(output, beta, X, y, ridge):
    """Left-out outputs at one iterate, by name."""

    def one(b, x):
        return output(b, x.unsqueeze(0))[0]

    J = vmap(jacrev(one), (None, 0))(beta, X)
    o = output(beta, X)
    p = o.sigmoid()
    g, W = p - y, p * (1 - p)
    gauss_newton = (J.T * W) @ J + ridge * torch.eye(len(beta)).double()
    bend = torch.einsum("n,nab->ab", g, vmap(hessian(one), (None, 0))(beta, X))

    def variance(matrix):
        return (J * torch.linalg.solve(matrix, J.T).T).sum(1)

    v = variance(gauss_newton)
    return {
        "memory perturbation": o + v * g,
        "infinitesimal jackknife": o + variance(gauss_newton + bend) * g,
        "one Newton step": o + v * g / (1 - W * v),
    }


def log_loss(outputs, y):
    """Row by row."""
    return nn.functional.binary_cross_entropy_with_logits(outputs, y, reduction="none")


def measure(ridge, seed):
    """Row losses at every step, by name, each (T, n); and test errors."""
    (X, y), (X_test, y_test), model = rows(N, seed), rows(4000, 1000 + seed), network(seed)
    output = Flat(model)
    betas, left_out = descent(X, y, model, ridge, N)
    found = {name: [] for name in (*NAMES, "fitted")}
    for beta, h in zip(betas, left_out, strict=True):
        found["path"].append(log_loss(h.reshape(-1), y))
        found["fitted"].append(log_loss(output(beta, X), y))
        for name, outputs in formulas(output, beta, X, y, ridge).items():
            found[name].append(log_loss(outputs, y))
    found["test"] = [log_loss(output(beta, X_test), y_test).mean() for beta in betas]
    order = torch.randperm(N, generator=torch.Generator().manual_seed(seed))
    for name, parts in (("ten folds", order.chunk(10)), ("literal", order.chunk(N))):
        losses = torch.zeros(STEPS, N).double()
        for part in parts:
            rest = torch.ones(N, dtype=torch.bool)
            rest[part] = False
            others, _ = descent(X[rest], y[rest], model, ridge, 2)
            losses[:, part] = torch.stack([log_loss(output(b, X[part]), y[part]) for b in others])
        found[name] = list(losses)
    return {name: torch.stack(values) for name, values in found.items()}


def table(results):
    """Errors against literal leave-one-out at three steps."""
    print("| ridge | step | fitted | literal | test | " + " | ".join(NAMES) + " |")
    print("|---" * (5 + len(NAMES)) + "|")
    for ridge, found in results.items():
        for step in sorted({3, 15, STEPS - 1}):
            literal = found["literal"][step]
            means = [f"{float(found[name][step].mean()):.3f}"
                     for name in ("fitted", "literal", "test")]  # fmt: skip
            cells = []
            for name in NAMES:
                own = found[name][step]
                apart = (own - literal).square().mean() / (found["fitted"][step] - literal).square(
                ).mean()  # fmt: skip
                cells.append(f"{float(own.mean()):.3f} ({float(apart.sqrt()):.2f})")
            print(f"| {ridge:g} | {step} | " + " | ".join([*means, *cells]) + " |")


def draw(results):
    """Mean left-out losses along the run."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    styles = {
        "literal": ("black", "-"), "test": ("#D55E00", "-"), "fitted": ("0.6", ":"),
        "path": ("#0072B2", "-"), "ten folds": ("#009E73", "-"),
        "memory perturbation": ("#CC79A7", "--"), "infinitesimal jackknife": ("#E69F00", "--"),
        "one Newton step": ("#56B4E9", "--"),
    }  # fmt: skip
    for axis, (ridge, found) in zip(axes, results.items(), strict=True):
        for name, (colour, style) in styles.items():
            values = found[name] if name == "test" else found[name].mean(1)
            label = "literal leave-one-out" if name == "literal" else name
            width = 2 if name == "literal" else 1.4
            axis.plot(values, color=colour, ls=style, label=label, lw=width)
        top = 1.15 * float(np.nanmax(found["literal"].mean(1)))
        axis.set(title=f"ridge {ridge:g}", xlabel="step", ylim=(0, max(1.0, top)))
    axes[0].set_ylabel("mean log loss")
    axes[0].legend(frameon=False, fontsize=8, loc="lower right")
    figure.savefig(FIGURE, dpi=110)


if __name__ == "__main__":
    results = {ridge: measure(ridge, 0) for ridge in RIDGES}
    table(results)
    draw(results)
