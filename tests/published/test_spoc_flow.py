"""Teacher and student by gradient flow: dynamical mean-field theory of Gerbelot et al.

Source: Gerbelot, Troiani, Mignacco, Krzakala, Zdeborová, "Rigorous dynamical mean-field theory for
stochastic gradient descent methods" (arXiv 2210.06591), code github.com/SPOC-group/
Rigorous-dynamical-mean-field-theory: ``main.py`` and ``data/simulationsM0.2A3.0B1.0L0.5.csv``.

Setting: y = Xβ without noise, X with N(0, 1/d) entries, α = n/d = 3, squared loss plus λ‖θ‖²/2
with λ = 0.5, Euler steps of 0.1, θ₁ = 0.2 β + N(0, 1). m is θᵀβ/d. Their column "time" starts at
0.1 with the start, so that "time" τ is iterate 10 τ − 1. Neither d nor the number of simulations is
stated. The spread of the start, 0.0288, is d^{−1/2} for d = 1200, which is used here.
"""

import numpy as np
import pytest
import torch

import decoupled_descent as dd

STEP, PENALTY, START, RATIO = 0.1, 0.5, 0.2, 3
#: Iterate: mean and spread of their simulations.
PUBLISHED = {
    0: (0.199258, 0.028814),
    9: (0.773802, 0.006861),
    19: (0.807333, 0.004555),
    49: (0.813265, 0.004177),
    199: (0.813334, 0.004172),
}


def limit(steps):
    """m of every iterate for d = ∞: eigenvalues of XᵀX follow the Marchenko–Pastur law."""
    low, high = (RATIO**0.5 - 1) ** 2, (RATIO**0.5 + 1) ** 2
    angle = (np.arange(20000) + 0.5) * np.pi / 20000
    values = (low + high) / 2 + (high - low) / 2 * np.cos(angle)
    weights = (np.sin(angle) * (high - low) / 2) ** 2 / (2 * np.pi * values)
    weights /= weights.sum()
    kept = (1 - STEP * (PENALTY + values)) ** np.arange(steps)[:, None]
    return (values / (PENALTY + values) * (1 - kept) + START * kept) @ weights


def simulated(d, seed, steps):
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(RATIO * d, d, generator=generator, dtype=torch.float64) / d**0.5
    beta = torch.randn(d, generator=generator, dtype=torch.float64)
    beta = beta * (d**0.5 / beta.norm())
    theta = START * beta + torch.randn(d, generator=generator, dtype=torch.float64)
    m, true = [], []

    def measure(step):
        m.append(float(step.state.theta[0] @ beta) / d)
        true.append(float((step.state.theta[0] - beta).square().sum()) / (2 * d))

    algorithm = dd.GradientDescent(STEP, damping=1 - STEP * PENALTY, estimate=True)
    objective = dd.Objective(dd.heads.Linear(), "squared")
    start = theta.unsqueeze(0)
    run = dd.fit(X, X @ beta, objective, algorithm, steps, theta=start, callbacks=measure)
    z = (run.estimated_test_error - torch.tensor(true)) / run.train_error_stderr
    return m, z.numpy()


def check(d, draws, steps):
    results = [simulated(d, seed, steps) for seed in range(draws)]
    m = np.array([result[0] for result in results])
    z = np.array([result[1] for result in results])
    error = m.std(0, ddof=1) / draws**0.5
    assert np.all(np.abs(m.mean(0) - limit(steps)) < 3.5 * error + 1e-3)  # and O(1/d)
    for iterate, (mean, spread) in PUBLISHED.items():
        if iterate < steps:
            assert abs(m.mean(0)[iterate] - mean) < 3 * np.hypot(error[iterate], spread / 10**0.5)
    assert np.abs(z.mean(0)).max() < 3 * draws**-0.5  # the estimated test error of every iterate
    return m, error


def test_the_limit_is_that_of_the_closed_form():
    """The end is 1 − λg with λg² + (λ + α − 1)g − 1 = 0: 0.81386."""
    b = PENALTY + RATIO - 1
    g = (-b + (b * b + 4 * PENALTY) ** 0.5) / (2 * PENALTY)
    assert limit(400)[-1] == pytest.approx(1 - PENALTY * g, abs=1e-6)
    assert 1 - PENALTY * g == pytest.approx(0.81386, abs=5e-6)
    for iterate, (mean, spread) in PUBLISHED.items():
        assert abs(limit(200)[iterate] - mean) < spread / 2


def test_smaller_simulations():
    check(d=300, draws=8, steps=50)


@pytest.mark.slow
def test_simulations():
    m, _ = check(d=1200, draws=10, steps=50)
    spread = m.std(0, ddof=1)[[0, 9, 49]]
    theirs = np.array([PUBLISHED[k][1] for k in (0, 9, 49)])
    assert np.all((spread > 0.4 * theirs) & (spread < 1.8 * theirs))  # χ², nine degrees of freedom
