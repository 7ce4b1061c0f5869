"""How long θ becomes in the orthogonal method, and what ``dd.tune`` does about it.

``python studies/length.py`` prints, for four problems, the estimated error of a linear head
tuned at the usual rates only (``DEFAULTS.retreats`` = 0), with the rule of ``dd.tune``, at the
minimum of Newton's method, and with a trained factor. Beside an error are its standard error and
the factor by which longer pre-activations would have the lowest train error. It takes a minute.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.preprocessing import PolynomialFeatures
from torch import Tensor, nn

import decoupled_descent as dd
from decoupled_descent.training.sweeps import tuner

Problem = tuple[Tensor, Tensor, str]


class Factor(nn.Module):
    """A linear head with a trained factor."""

    width = 1

    def __init__(self) -> None:
        super().__init__()
        self.factor, self.shift = (
            nn.Parameter(torch.full((1,), value).double()) for value in (1.0, 0.0)
        )

    def forward(self, h: Tensor) -> Tensor:
        """Return the scaled and shifted column."""
        return h * self.factor + self.shift


def problems() -> dict[str, Problem]:
    """Half of the rows of each table, at most 400, standardised and cut at five deviations."""
    diabetes, cancer, digits = load_diabetes(), load_breast_cancer(), load_digits()
    products = PolynomialFeatures(2, include_bias=False).fit_transform(diabetes.data)
    generator = torch.Generator().manual_seed(0)
    made = torch.randn(800, 200, generator=generator).double() * torch.linspace(3, 0.3, 200)
    beta = torch.randn(200, generator=generator).double() / torch.linspace(3, 0.3, 200) / 200**0.5
    noise = 0.7 * torch.randn(800, generator=generator).double()
    given = {
        "diabetes with products": (torch.tensor(products), torch.tensor(diabetes.target)),
        "Gaussian rows": (made, made @ beta + noise),
        "breast cancer": (torch.tensor(cancer.data), torch.tensor(cancer.target)),
        "digits, odd or even": (torch.tensor(digits.data), torch.tensor(digits.target % 2)),
    }
    found = {}
    for name, (X, y) in given.items():
        X = X[:, X.std(0) > 0].double()
        X = ((X - X.mean(0)) / X.std(0)).clamp(-5, 5) / math.sqrt(X.shape[1])
        y, classes = y.double(), len(y.unique()) == 2
        y = y if classes else (y - y.mean()) / y.std()
        order = torch.randperm(len(X), generator=torch.Generator().manual_seed(0))[:800:2]
        found[name] = (X[order], y[order], "logistic" if classes else "squared")
    return found


def tuned(problem: Problem, head: nn.Module, method: str = "orthogonal") -> str:
    """The error, its standard error and the best factor."""
    X, y, loss = problem
    sweep = dd.tune(X, y, dd.Objective(head.double(), loss), method=method, progress=False)
    error, stderr, _ = sweep.corrected_error
    return f"{error:.3f} ({stderr:.3f}, × {tuner.stretch(sweep.best, y):.1f})"


def main() -> None:
    """Print a line per problem."""
    linear, changed = dd.heads.Linear(intercept=True), tuner.DEFAULTS
    for name, problem in problems().items():
        tuner.DEFAULTS = replace(changed, retreats=0)
        cells = [tuned(problem, linear)]
        tuner.DEFAULTS = changed
        cells += [tuned(problem, linear), tuned(problem, linear, "newton")]
        cells += [tuned(problem, Factor()), tuned(problem, dd.heads.TwoLayer(5, bias=True, seed=0))]
        print(name, *cells, sep=" | ", flush=True)


if __name__ == "__main__":
    main()
