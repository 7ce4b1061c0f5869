"""ISTA and FISTA: the generalisation error along the path, of Bellec and Tan.

Source: "Uncertainty quantification for iterative algorithms in linear models with application to
early stopping" (arXiv 2404.17856), code github.com/kaitan365/Proximal-gradient-methods,
``boxplot_ISTA.ipynb``, ``boxplot_FISTA.ipynb``, ``demo_FISTA.ipynb``.

Setting: n = 200, p = 400, N(0, 1) entries of X, noise 0.5 N(0, 1), ten equal coefficients with
‖β‖² = 100 · 0.25, λ = 0.1 beside the mean of ½(y − Xθ)², steps 1/L with L = ‖X‖²/n, T = 30, 100
seeds. The error ‖θ − β‖² + 0.25 is 25.25 at the start. Their FISTA reports the points at which
gradients are taken, as ours does. Boxes of estimates and errors are given as figures only. One of
their runs takes 95 CPU seconds and 3.9 GB, ours 0.05 seconds.
"""

import pytest
import torch

import decoupled_descent as dd
from tests.published.descents import followed, z_of_means

N, P, STEPS, NOISE = 200, 400, 30, 0.5


def errors(seed, accelerated):
    """Estimated and true error, and the standard error of the estimate, of every iterate."""
    generator = torch.Generator().manual_seed(seed)
    beta = torch.zeros(P, dtype=torch.float64)
    beta[:10] = 10 * NOISE / 10**0.5
    X = torch.randn(N, P, generator=generator, dtype=torch.float64)
    y = X @ beta + NOISE * torch.randn(N, generator=generator, dtype=torch.float64)

    def measure(step):
        gap = step.state.theta[0] - beta
        true = float(gap.square().sum()) + NOISE**2
        return 2 * step.info.train_error, true, 2 * step.info.train_error_stderr

    algorithm = dd.GradientDescent(
        float(N / torch.linalg.matrix_norm(X, 2) ** 2),
        reduction="mean",
        estimate=True,
        noise=dd.noise.White(1.0),
        prox=dd.prox.SoftThreshold(0.1),
        accelerated=accelerated,
    )
    objective = dd.Objective(dd.heads.Linear(), "squared")
    return followed(X, y, objective, algorithm, STEPS, measure)


def check(draws, accelerated):
    every = torch.stack([errors(seed, accelerated) for seed in range(draws)])
    estimate, true, stderr = every.unbind(2)
    assert float(true[0, 0]) == pytest.approx(25.25, rel=1e-12)
    assert float(z_of_means(estimate - true).abs().max()) < 3
    z = (estimate - true) / stderr
    # pairs of rows add more than the standard error has: up to 1.3, plus that of a root mean square
    assert float(z.square().mean().sqrt()) < 1.3 + 3 / (2 * draws) ** 0.5
    end = 0.45 if accelerated else 2.0
    assert float(true[:, -1].mean()) < end  # FISTA is near the Lasso, ISTA on its way
    return true.mean(0)


@pytest.mark.parametrize("accelerated", [False, True], ids=["ista", "fista"])
def test_a_few_draws(accelerated):
    check(12, accelerated)


@pytest.mark.slow
@pytest.mark.parametrize("accelerated", [False, True], ids=["ista", "fista"])
def test_all_draws(accelerated):
    true = check(100, accelerated)
    if accelerated:  # the error is U-shaped, which is what early stopping is for
        assert 10 < int(true.argmin()) < STEPS - 2
