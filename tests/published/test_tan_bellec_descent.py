"""Robust regression by gradient descent: the risk along the path, of Tan and Bellec.

Source: "Estimating generalization performance along the trajectory of proximal SGD in robust
regression" (arXiv 2410.02629), code github.com/kaitan365/SGD-generlization-errors,
``run_gpu_GD.py``.

Setting: N(0, 1) entries of X, p/20 equal coefficients with ‖β‖² = 10, steps (1 + √(p/n))⁻²/n, Huber
loss with δ = 1 or its smooth version, noise with Student's t₂ (t₃ for batches of n/5). They show
the risk ‖θ − β‖² and r̂ − ‖ε‖²/n, both with two standard errors, for n = 3000, p = 1000, T = 20
and 100 seeds. Only figures are given, so the number to reach is their agreement at every iterate.
Their batches are drawn anew in every update; here they are drawn without replacement, four passes.
"""

import pytest
import torch

import decoupled_descent as dd
from tests.published.descents import followed, z_of_means


def huber(outputs, y):
    gap = (outputs.reshape(y.shape) - y).abs()
    return torch.where(gap < 1, gap.square() / 2, gap - 0.5)


def pseudo_huber(outputs, y):
    return (1 + (outputs.reshape(y.shape) - y).square()).sqrt() - 1


CASES = {"huber": (huber, 2.0, 1), "pseudo-huber": (pseudo_huber, 2.0, 1), "sgd": (huber, 3.0, 5)}


def risks(n, p, seed, loss, freedom, batches):
    """Estimated and true risk of every iterate, (T, 2)."""
    generator = torch.Generator().manual_seed(seed)
    beta = torch.zeros(p)
    beta[: p // 20] = (10 / (p // 20)) ** 0.5
    X = torch.randn(n, p, generator=generator)
    shape = torch.full((n,), freedom / 2)
    scale = (freedom / (2 * torch._standard_gamma(shape, generator=generator))).sqrt()
    noise = torch.randn(n, generator=generator) * scale
    y = X @ beta + noise

    def measure(step):
        h = step.info.preactivations[:, 0]
        estimate = (h - y).square().mean() - noise.square().mean()
        return float(estimate), float((step.state.theta[0] - beta).square().sum())

    algorithm = dd.GradientDescent(
        (1 + (p / n) ** 0.5) ** -2,
        reduction="mean",
        estimate=True,
        noise=dd.noise.White(1.0),
        batch_size=None if batches == 1 else n // batches,
    )
    objective = dd.Objective(dd.heads.Linear(), loss)
    return followed(X, y, objective, algorithm, 20 // batches, measure)


def check(n, p, draws, case):
    every = torch.stack([risks(n, p, seed, *CASES[case]) for seed in range(draws)])
    z = z_of_means(every[:, :, 0] - every[:, :, 1])
    assert float(every[0, 0, 1]) == pytest.approx(10, rel=1e-6)
    assert float(every[:, -1, 1].mean()) < 1.7  # the risk falls by five sixths
    assert float(z.abs().max()) < 3


@pytest.mark.parametrize("case", CASES)
def test_smaller_runs(case):
    check(600, 200, 12, case)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_runs(case):
    check(3000, 1000, 100, case)
