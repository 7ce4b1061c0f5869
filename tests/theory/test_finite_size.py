"""Fluctuations of runs around their limit, predicted from smaller runs."""

import numpy as np
import pytest
import torch

import decoupled_descent as dd

from . import problems


@pytest.mark.slow
@pytest.mark.parametrize("kind", [dd.DecoupledDescent, dd.GradientDescent])
def test_spread_of_runs_and_of_z(kind):
    """The spread of 40 larger runs, and the z-scores that a single one would get."""
    n, steps, runs = 600, 8, 40
    mixture, objective, _, theta = problems.flipped(n)
    algorithm = kind(0.15, 0.97, head_lr=0.1)
    theory = dd.StateEvolution(mixture, objective, algorithm, paths=2048, randomisations=4)
    result = dd.theory.finite_size(theory, n, steps, theta, replications=150, size=200)
    train = torch.stack(
        [
            dd.fit(*mixture.sample(n, seed=s), objective, algorithm, steps, theta).train_error
            for s in range(runs)
        ]
    ).double()
    # both spreads are known to a share 1/√(2 · runs); steps are correlated
    share = 4 * (1 / (2 * runs) + 1 / 300) ** 0.5
    ratio = train.std(0) / result.stderr["train_error"]
    assert bool(((ratio - 1).abs() < share).all())
    z = torch.stack([result.z(one) for one in train])
    assert bool((z.std(0) - 1).abs().max() < share)
    assert float(z.abs().max()) < 5


def test_fluctuations_fall_like_one_over_the_square_root():
    objective = dd.Objective(dd.heads.Linear(), "squared")
    theory = dd.StateEvolution(dd.mixtures.signalless(50), objective, dd.DecoupledDescent(0.1))
    result = [
        dd.theory.finite_size(theory, n, 4, replications=100, size=60).stderr for n in (1000, 4000)
    ]
    for name in result[0]:
        np.testing.assert_allclose(result[0][name], 2 * result[1][name], rtol=1e-12)
    # at the start the train error is a mean of n halved squares of N(0, Ω)
    share = 4 * 200**-0.5
    assert abs(float(result[0]["train_error"][0]) * 2000**0.5 - 1) < share
    assert float(result[0]["overlap"][0].abs().max()) < 1e-12


def test_what_has_no_small_copy_is_refused():
    objective = dd.Objective(dd.heads.Linear(), "squared")
    algorithm = dd.DecoupledDescent(0.1, reduction="mean")
    theory = dd.StateEvolution(dd.mixtures.signalless(50), objective, algorithm)
    with pytest.raises(ValueError, match="reduction='sum'"):
        dd.theory.finite_size(theory, 100, 3)
