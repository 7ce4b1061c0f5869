"""State evolution against runs of finite size."""

import numpy as np
import pytest
import torch
from torch import nn

import decoupled_descent as dd

from . import problems
from .test_recursion import Momentum, RowRates
from .test_state_evolution import LINEAR


def test_signalless_regression_predicts_the_mean_of_runs():
    """Pure and damped, several c in one run: every row of θ has rates of its own."""
    n, steps, replications = 500, 60, 10
    lr, damping = [0.05, 0.0125, 0.05, 0.0625], [1.0, 0.95, 0.95, 0.95]
    objective = dd.Objective(nn.Identity(), "squared", width=4)
    algorithm = dd.DecoupledDescent(1.0, rule=RowRates(lr, damping))
    mixture = dd.mixtures.signalless(n)
    theta = problems.informed(mixture, [0] * 4)
    curves = []
    for seed in range(replications):
        X, _ = mixture.sample(n, seed=seed, dtype=torch.float64)
        seen = []
        y = torch.zeros(n, 4)
        dd.fit(X, y, objective, algorithm, steps=steps, theta=theta, callbacks=[seen.append])
        curves.append([step.info.preactivations.square().mean(0).numpy() / 2 for step in seen])
    curves = np.array(curves)
    for k in range(4):
        theory = dd.StateEvolution(mixture, LINEAR, dd.DecoupledDescent(lr[k], damping[k]))
        predicted = theory.run(steps, theta=theta[k : k + 1]).test_error.numpy()
        stderr = curves[:, :, k].std(0, ddof=1) / replications**0.5
        z = np.abs(curves[:, :, k].mean(0) - predicted) / stderr
        assert z.max() < 4, k
        assert np.sqrt((z**2).mean()) < 2.2, k


def test_momentum_predicts_training():
    n = 1500
    mixture, objective, _, theta = problems.flipped(n)
    heavy = dd.DecoupledDescent(0.05, rule=Momentum(0.05, 0.8))
    with_momentum, without = (
        dd.StateEvolution(mixture, objective, algorithm).run(25, theta=theta).overlap[-1, 0, 0]
        for algorithm in (heavy, dd.DecoupledDescent(0.05))
    )
    result = []
    for seed in range(6):
        X, y = mixture.sample(n, seed=seed)
        run = dd.fit(X, y, objective, heavy, steps=25, theta=theta)
        result.append(float(run.theta.double().square().mean()))
    stderr = np.std(result, ddof=1) / 6**0.5
    assert abs(np.mean(result) - float(with_momentum)) < 4 * stderr
    assert abs(float(with_momentum - without)) > 20 * stderr


STEPS = 12


@pytest.mark.parametrize("name", ["flipped", "four_modes", "discrete"])
def test_training_at_n_2000_is_predicted(name):
    """Runs at n = d = 500 set the scale of fluctuations; at 2000 they are half as large."""
    make = getattr(problems, name)
    evolution = dd.StateEvolution(*make(500)[:3], paths=2**13).run(STEPS, theta=make(500)[3])
    predicted = problems.predict(evolution)
    small = problems.gaps(make(500), 500, range(20), STEPS, predicted)
    large = problems.gaps(make(2000), 2000, range(6), STEPS, predicted)
    for key, deviations in large.items():
        spread = small[key].std(0, ddof=1) / 2  # of a single run at n = 2000
        moving = spread > 1e-7
        z = np.abs(deviations.mean(0))[moving] / (spread[moving] / 6**0.5)
        assert np.sqrt((z**2).mean()) < 2.5, key
        assert z.max() < 4.5, key
        shrunk = np.sqrt((deviations**2).mean() / (small[key] ** 2).mean())
        assert shrunk < 0.85, key


def test_xor_through_the_escape_from_the_saddle():
    """A start with a little signal; from none at all, the escape is finite-size noise."""
    n, steps = 1000, 110
    mixture = dd.mixtures.xor(n, snr=4.0)
    theta = problems.informed(mixture, [0, 1], strength=0.02) + 0.02 * mixture.means[[2, 2]]
    objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
    problem = mixture, objective, dd.DecoupledDescent(0.05), theta
    theory = dd.StateEvolution(*problem[:3], paths=2**12, randomisations=2)
    evolution = theory.run(steps, theta=theta)
    assert evolution.test_error[0] > 0.7 > 0.4 > evolution.test_error[-1]
    runs = [problems.measure(problem, n, seed, steps) for seed in range(5)]
    errors, m = (np.stack([run[k] for run in runs]) for k in ("error", "m"))
    low, high = errors.min(0) - 0.02, errors.max(0) + 0.02
    inside = (evolution.test_error.numpy() > low) & (evolution.test_error.numpy() < high)
    assert inside.mean() > 0.9
    strongest = np.abs(m).max((2, 3)).mean(0)
    np.testing.assert_allclose(strongest, evolution.alignment.abs().amax((1, 2)), rtol=0.15)
