"""Ranking directions by their limits, and whether training agrees."""

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from tests.oracles import state_evolution as oracle

from . import problems

FLAT = 0.5


def labels(h, y, a):
    """Pull every row towards its label, whatever the model says of it."""
    return (FLAT - y).unsqueeze(1) + 0 * h


def test_the_curve_of_a_direction_is_that_of_the_definition():
    """g = ½ − y is a constant given the label, so the oracle needs no fine rule."""
    mixture, objective, _, _ = problems.flipped(10)
    rates = [{"lr": 0.2, "damping": 0.9}, {"lr": 0.1}]
    m1, omega1 = np.array([[-0.2], [0.2]]), np.array([[1.0]])
    result = dd.theory.rank_directions(
        mixture,
        objective,
        {"gradient": None, "labels": labels},
        rates=rates,
        steps=8,
        ratio=1.5,
        alignment=torch.from_numpy(m1),
        overlap=torch.from_numpy(omega1),
    )
    assert len(result.candidates) == 4
    errors = [candidate.test_error for candidate in result.candidates]
    assert errors == sorted(errors)
    assert result.table["test error"].tolist() == errors
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights /= weights.sum()
    pairs = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), -1).reshape(-1, 2)
    model = oracle.Model(
        loss=lambda h, y, a: np.logaddexp(0, h[:, 0]) - y * h[:, 0],
        g=lambda h, y, a: np.full_like(h, FLAT - y),
        f=lambda h, y, a: np.zeros((len(h), 1)),
    )
    modes = [
        oracle.Mode(j, float(y), 0.5 * (0.9 if y == j else 0.1)) for j in (0, 1) for y in (0, 1)
    ]
    states = oracle.definition(
        model,
        modes,
        mixture.overlaps.numpy(),
        1.5,
        m1,
        omega1,
        np.zeros(1),
        oracle.Rates(0.9, 0.2, 1.0, 0.0),
        8,
        (nodes[:, None], pairs),
        (weights, np.outer(weights, weights).ravel()),
    )
    ours = next(c for c in result.candidates if c.direction == "labels" and len(c.rates) == 2)
    np.testing.assert_allclose(ours.evolution.test_error, states.test[1:9], rtol=1e-10)
    assert ours.best_step == int(np.argmin(states.test[1:9]))
    assert result.best_with("gradient").direction == "gradient"


@pytest.mark.slow
def test_training_confirms_the_predicted_gain():
    n, runs = 1500, 8
    mixture, objective, _, theta = problems.flipped(n)
    result = dd.theory.rank_directions(
        mixture,
        objective,
        {"gradient": None, "labels": labels},
        rates=[{"lr": lr, "damping": 0.9} for lr in (0.1, 0.3)],
        steps=30,
        theta=theta,
    )
    chosen, usual = result.best, result.best_with("gradient")
    assert chosen.direction == "labels"
    gains = []
    for seed in range(runs):
        X, y = mixture.sample(n, seed=seed)
        errors = []
        for candidate in (usual, chosen):
            steps = candidate.best_step + 1
            run = dd.fit(X, y, objective, candidate.algorithm, steps, theta)
            errors.append(float(run.train_error[-1]))
        gains.append(errors[0] - errors[1])
    predicted = usual.test_error - chosen.test_error
    stderr = np.std(gains, ddof=1) / runs**0.5
    assert predicted > 4 * stderr
    assert abs(np.mean(gains) - predicted) < 4 * stderr


def test_a_candidate_that_diverges_ends_early():
    objective = dd.Objective(dd.heads.Linear(), "squared")
    result = dd.theory.rank_directions(
        dd.mixtures.signalless(10),
        objective,
        {"gradient": None},
        rates=[{"lr": 1e8}, {"lr": 0.1, "damping": 0.8}],
        steps=60,
    )
    assert len(result.candidates[1].evolution.test_error) < 60
    assert result.best.rates["lr"] == 0.1
    with pytest.raises(ValueError, match="must not be empty"):
        dd.theory.rank_directions(dd.mixtures.signalless(10), objective, {})
