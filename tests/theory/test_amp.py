"""Decoupled descent is approximate message passing in other variables (equations "frozen…")."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import decoupled_descent as dd
from tests.oracles import state_evolution as oracle

ROTATION = np.array([[0.8, -0.7], [0.4, 1.1]])
STEPS = 12
LR, DAMPING = 0.3, 0.9


def g(h, y, a):
    """A direction whose Jacobian is not symmetric."""
    return a * np.tanh(h @ ROTATION.T - y[:, None])


def g_jacobian(h, y, a):
    slope = a * (1 - np.tanh(h @ ROTATION.T - y[:, None]) ** 2)
    return slope[:, :, None] * ROTATION


class FirstCoordinate(nn.Module):
    width = 2

    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.tensor(0.7, dtype=torch.float64))

    def forward(self, h):
        return torch.tanh(h[:, 0])


def run(ratio):
    """A run of decoupled descent, with everything the frozen algorithms want prescribed."""
    d = 60
    n = round(ratio * d)
    mixture = dd.mixtures.flipped_classes(d, snr=1.5, flip=0.2)
    X, y, modes = mixture.sample_with_modes(n, seed=3, dtype=torch.float64)
    rotation = torch.from_numpy(ROTATION)
    algorithm = dd.DecoupledDescent(
        lr=0.3,
        damping=0.9,
        head_lr=0.2,
        g=lambda h, y, a: a["a"] * torch.tanh(h @ rotation.T - y.unsqueeze(1)),
        f=lambda h, y, a: {"a": torch.tanh(a["a"] * h.sum(1)) - y},
    )
    seen = []
    objective = dd.Objective(FirstCoordinate(), "squared")
    dd.fit(X, y, objective, algorithm, steps=STEPS, callbacks=[seen.append], seed=0)
    theta = [step.state.theta.T.numpy() for step in seen]
    a = [step.state.head["a"].numpy() for step in seen]
    h = [step.info.preactivations.numpy() for step in seen]
    mu, labels = mixture.means.numpy(), modes.numpy()
    members = np.stack([labels == j for j in range(2)]).astype(float)
    m = np.stack([mu @ t / d for t in theta])
    signal = np.stack([members @ g(x, y.numpy(), s) / n for x, s in zip(h, a, strict=True)])
    Z = X.numpy() - mu[labels] / d
    frozen = (Z, labels, y.numpy(), theta[0], mu, m, signal, a, g, g_jacobian, 0.9, 0.3)
    return frozen, h, theta


@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
def test_training_is_the_frozen_algorithm_at_its_own_overlaps(ratio):
    frozen, h, theta = run(ratio)
    path = oracle.frozen_descent(*frozen)
    np.testing.assert_allclose(path.h, h, rtol=0, atol=1e-10)
    np.testing.assert_allclose(path.theta, theta, rtol=0, atol=1e-10)


@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
def test_training_is_amp_after_the_change_of_variables(ratio):
    frozen, h, theta = run(ratio)
    path = oracle.frozen_amp(*frozen)
    np.testing.assert_allclose(path.h, h, rtol=0, atol=1e-10)
    np.testing.assert_allclose(path.theta, theta, rtol=0, atol=1e-10)


def test_the_frozen_algorithms_agree_for_any_prescribed_limits():
    frozen, _, _ = run(1.5)
    rng = np.random.default_rng(0)
    shaken = list(frozen)
    shaken[5] = frozen[5] + rng.standard_normal(frozen[5].shape)
    shaken[6] = frozen[6] + rng.standard_normal(frozen[6].shape)
    for ours, theirs in zip(
        oracle.frozen_descent(*shaken), oracle.frozen_amp(*shaken), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)


def prescribed(frozen, ratio):
    """An evolution of the same algorithm with the limits of the frozen algorithms in it."""
    _, _, _, theta, mu, m, signal, a, *_ = frozen
    mixture = dd.mixtures.flipped_classes(mu.shape[1], snr=1.5, flip=0.2)
    rotation = torch.from_numpy(ROTATION)
    algorithm = dd.DecoupledDescent(
        lr=LR,
        damping=DAMPING,
        head_lr=0.2,
        g=lambda h, y, a: a["a"] * torch.tanh(h @ rotation.T - y.unsqueeze(1)),
        f=lambda h, y, a: {"a": torch.tanh(a["a"] * h.sum(1)) - y},
    )
    objective = dd.Objective(FirstCoordinate(), "squared")
    theory = dd.StateEvolution(mixture, objective, algorithm, ratio, paths=64, randomisations=2)
    evolution = theory.run(STEPS, theta=torch.from_numpy(theta.T))
    limits = {"alignment": torch.from_numpy(m), "signal": torch.from_numpy(signal)}
    return replace(evolution, **limits, head={"a": torch.from_numpy(np.stack(a))})


@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
def test_the_public_form_is_the_oracle_and_the_run(ratio):
    frozen, h, _ = run(ratio)
    Z, labels, y, theta1, mu, *_ = frozen
    X = Z + mu[labels] / Z.shape[1]
    path = dd.theory.amp_form(prescribed(frozen, ratio), X, y, labels, theta1.T)
    expected = oracle.frozen_amp(*frozen)
    np.testing.assert_allclose(path.preactivations, expected.h, rtol=0, atol=1e-10)
    np.testing.assert_allclose(path.theta.mT, expected.theta, rtol=0, atol=1e-10)
    np.testing.assert_allclose(path.gradients.mT, expected.theta_tilde, rtol=0, atol=1e-10)
    np.testing.assert_allclose(path.preactivations, h, rtol=0, atol=1e-10)


def test_message_passing_has_the_overlaps_of_the_limit():
    """w has covariance Σ and z has Ω/α, at n = 1500, to a few standard errors."""
    n, steps = 1500, 5
    mixture = dd.mixtures.flipped_classes(n, snr=1.5, labels=(0.0, 1.0))
    objective = dd.Objective(dd.heads.Linear(), "logistic")
    theta = torch.randn(1, n, generator=torch.Generator().manual_seed(0)).double()
    evolution = dd.StateEvolution(mixture, objective, dd.DecoupledDescent(0.4)).run(steps, theta)
    X, y, modes = mixture.sample_with_modes(n, seed=1, dtype=torch.float64)
    path = dd.theory.amp_form(evolution, X, y, modes, theta)
    w, z = path.w[:, :, 0], path.z[:, :, 0]
    tolerance = 5 * (2 / n) ** 0.5
    sigma, omega = evolution.sigma[:, :, 0, 0], evolution.omega[:, :, 0, 0]
    assert bool((w @ w.T / n - sigma).abs().max() < tolerance * float(sigma.max()))
    assert bool((z @ z.T / n - omega).abs().max() < tolerance * float(omega.max()))


def test_other_algorithms_are_refused():
    objective = dd.Objective(dd.heads.Linear(), "squared")
    mixture = dd.mixtures.signalless(10)
    evolution = dd.StateEvolution(mixture, objective, dd.GradientDescent(0.1), paths=64).run(2)
    with pytest.raises(ValueError, match="is written for DecoupledDescent without batch_size"):
        dd.theory.amp_form(evolution, *mixture.sample_with_modes(10), torch.ones(1, 10))
