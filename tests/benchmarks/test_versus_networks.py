"""Networks that are stopped early, judged in all ways."""

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from benchmarks.versus.networks import SETTINGS, Problem, Setting, normal

SETTING = Setting(lambda seed: dd.heads.TwoLayer(2, seed=seed), normal(2), {"lr": 0.2}, 12)
MIXTURE = dd.mixtures.flipped_classes(20, 3.0, labels=(0.0, 1.0))


def rows(n=60, seed=0):
    X, y = MIXTURE.sample(n, seed=seed, dtype=torch.float64)
    return X.numpy(), y.numpy()


def test_candidates_are_the_iterates_of_gradient_descent():
    problem, (X, y) = Problem(SETTING, False, seed=0), rows()
    trained = problem.learner()(X, y)
    A, labels = torch.from_numpy(X).float(), torch.from_numpy(y).float()
    objective, theta = dd.Objective(SETTING.head(0), "logistic"), SETTING.start(20, 0)
    fresh = rows(seed=1)
    test = tuple(torch.from_numpy(each).float() for each in fresh)
    run = dd.fit(A, labels, objective, dd.GradientDescent(lr=0.2), 12, theta, test)
    losses = trained.losses(*fresh)
    np.testing.assert_allclose(losses.mean(1), run.test_error.numpy(), rtol=1e-5)
    np.testing.assert_allclose(trained.pick(4)(*fresh), losses[4])
    np.testing.assert_allclose(problem.learner()(X, y, last=4).pick(4)(*fresh), losses[4])


def test_decoupled_descent_gives_its_own_train_error():
    problem, (X, y) = Problem(SETTING, True, seed=0), rows(200)
    answer = problem.decoupled(X, y)
    fresh = answer.losses(*rows(4000, seed=1))
    noise = np.hypot(answer.stderr, fresh.std() / 4000**0.5)
    assert answer.estimate == pytest.approx(fresh.mean(), abs=4 * noise)


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_starts_the_same_for_everyone(name):
    setting = SETTINGS[name]
    assert torch.equal(setting.start(30, 3), setting.start(30, 3))
    for one, other in zip(setting.head(3).parameters(), setting.head(3).parameters(), strict=True):
        assert torch.equal(one, other)
