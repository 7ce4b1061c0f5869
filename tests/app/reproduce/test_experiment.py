"""What the experiments share: settings, seeds, starts, training and theory."""

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.app import reproduce
from decoupled_descent.app.reproduce import experiment as shared
from decoupled_descent.app.reproduce.experiment import PanelProblem
from decoupled_descent.training import StopReason


def test_settings():
    experiment = reproduce.get_experiment("mnist")
    quick = experiment.resolve(True, None, {"d": 7})
    assert quick == experiment.settings | {"d": 7, "replications": experiment.quick["replications"]}
    assert experiment.resolve(True, 3, {})["replications"] == 3
    with pytest.raises(ValueError, match="replications=0 must be a whole number of at least 1"):
        experiment.resolve(False, 0, {})


def test_streams_are_distinct_and_reproducible():
    seeds = {word for seed in range(20) for word in shared.streams(seed, 5)}
    assert len(seeds) == 100
    assert shared.streams(3, 5) == shared.streams(3, 5)


def test_default_theta_has_the_law_of_torchs_linear_layer():
    theta = shared.default_theta(50, 400, seed=0)
    layer = torch.nn.Linear(400, 50, bias=False).weight.detach()
    assert theta.shape == layer.shape
    for values in (theta, layer):
        assert values.abs().max() == pytest.approx(0.05, rel=0.01)
        assert values.std() == pytest.approx(0.05 / 3**0.5, rel=0.02)


def test_normal_theta():
    theta = shared.normal_theta(2, 5000, seed=1)
    assert theta.shape == (2, 5000)
    assert theta.std() == pytest.approx(1, abs=0.03)
    assert torch.equal(theta, shared.normal_theta(2, 5000, seed=1))


@pytest.fixture
def problem():
    mixture = dd.mixtures.xor(30, 4.0)
    rows, test = shared.sample(mixture, {"n": 60, "test_rows": 40}, 0, 1)
    objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
    return mixture, rows, test, objective, shared.normal_theta(2, 30, seed=2)


def test_training_is_fit_from_the_given_start(problem):
    mixture, rows, test, objective, theta = problem
    assert (len(rows[0]), len(test[0])) == (60, 40)
    algorithms = {"gd": dd.GradientDescent(0.05), "dd": dd.DecoupledDescent(0.05)}
    curves = shared.train(PanelProblem("p", rows, test, objective, algorithms, theta, mixture), 6)
    assert list(curves) == [
        *(f"p/gd/{kind}" for kind in ("train", "test", "state_evolution", "state_evolution_train")),
        *(f"p/dd/{kind}" for kind in ("train", "test", "state_evolution")),
    ]
    for name, algorithm in algorithms.items():
        run = dd.fit(*rows, objective, algorithm, 6, theta=theta, test=test, progress=False)
        np.testing.assert_array_equal(curves[f"p/{name}/train"], run.train_error)
        np.testing.assert_array_equal(curves[f"p/{name}/test"], run.test_error)
    theory = dd.StateEvolution(
        mixture, objective, algorithms["dd"], ratio=2.0, paths=4096, randomisations=2
    ).run(6, theta=theta, progress=False)
    np.testing.assert_allclose(curves["p/dd/state_evolution"], theory.test_error)


def test_no_prediction_without_a_mixture(problem):
    _, rows, test, objective, theta = problem
    algorithms = {"dd": dd.DecoupledDescent(0.05)}
    curves = shared.train(PanelProblem("p", rows, test, objective, algorithms, theta), 3)
    assert list(curves) == ["p/dd/train", "p/dd/test"]


def test_errors_are_infinite_after_a_divergence(problem):
    _, rows, test, _, theta = problem
    objective, algorithms = dd.Objective(dd.heads.Product(a=1.0), "squared"), {}
    algorithms["gd"] = dd.GradientDescent(1e9)
    curves = shared.train(PanelProblem("p", rows, test, objective, algorithms, theta), 30)
    train = curves["p/gd/train"]
    assert train.shape == (30,)
    assert np.isfinite(train[0])
    assert np.isinf(train[-1])


def test_an_interrupted_fit_interrupts_the_experiment(problem, monkeypatch):
    _, rows, test, objective, theta = problem

    class Interrupted:
        stop_reason = StopReason.INTERRUPTED

    monkeypatch.setattr(dd, "fit", lambda *arguments, **options: Interrupted())
    problem = PanelProblem("p", rows, test, objective, {"gd": dd.GradientDescent(0.05)}, theta)
    with pytest.raises(KeyboardInterrupt):
        shared.train(problem, 3)
