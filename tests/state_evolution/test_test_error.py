import math

import numpy as np
import pytest
import torch

import decoupled_descent as dd

from . import problems


def test_squared_loss_in_closed_form():
    mixture = dd.MixtureLimit(
        [[1.0, -1.0], [-1.0, 1.0]], [0.3, 0.7], [dd.responses.flipped(1.0, -1.0, 0.25), -2.0]
    )
    objective = dd.Objective(dd.heads.Linear(), "squared")
    found = dd.asymptotic_test_error(mixture, objective, [[0.5], [-0.5]], [[0.8]])
    losses = 0.3 * (0.75 * 0.5**2 + 0.25 * 1.5**2) + 0.7 * 1.5**2
    assert float(found) == pytest.approx(0.5 * (losses + 0.8), abs=1e-13)
    assert found.stderr == 0


def test_logistic_loss_of_two_units_against_brute_force():
    mixture, objective = (
        dd.mixtures.xor(4, snr=2.0),
        dd.Objective(dd.heads.Product(a=1.5), "logistic"),
    )
    alignment = torch.tensor([[0.8, -0.6], [-0.8, 0.6], [0.2, 0.5], [-0.2, -0.5]]).double()
    overlap = torch.tensor([[1.3, 0.2], [0.2, 0.9]]).double()
    found = dd.asymptotic_test_error(mixture, objective, alignment, overlap)
    axis = np.linspace(-8.5, 8.5, 500)
    z = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    w = np.exp(-0.5 * (z**2).sum(1))
    total = 0.0
    for m, y in zip(alignment.numpy(), (0.0, 0.0, 1.0, 1.0), strict=True):
        h = m + z @ np.linalg.cholesky(overlap.numpy()).T
        u = 1.5 * h[:, 0] * h[:, 1]
        total += 0.25 * (w @ (np.logaddexp(0, u) - y * u)) / w.sum()
    assert float(found) == pytest.approx(total, abs=1e-5)


@pytest.mark.parametrize("algorithm", [dd.GradientDescent(0.05), dd.DecoupledDescent(0.05)])
def test_trained_parameters_against_a_large_test_set(algorithm):
    """Exact at finite d for Gaussian noise, for an algorithm with a train-test gap as well."""
    mixture, objective, _, theta = problems.four_modes(150)
    X, y = mixture.sample(150, seed=0)
    run = dd.fit(X, y, objective, algorithm, steps=40, theta=theta)
    found = dd.population_test_error(mixture, objective, run.theta, run.head)
    X_test, y_test = mixture.sample(60_000, seed=1)
    with torch.no_grad():
        losses = objective.losses(X_test @ run.theta.T, y_test, run.state.head).double()
    stderr = float(losses.std()) / math.sqrt(len(losses))
    assert abs(float(found) - float(losses.mean())) < 4 * stderr
    assert 0 < found.stderr < 0.2 * stderr
    if isinstance(algorithm, dd.GradientDescent):
        assert abs(float(found) - float(run.train_error[-1])) > 10 * stderr


def test_sampling_agrees_with_quadrature_where_both_apply():
    mixture, objective, _, theta = problems.four_modes(60)
    sampled = dd.population_test_error(mixture, objective, theta, samples=2**14)
    exact = dd.population_test_error(mixture, objective, theta, order=20)
    assert exact.stderr == 0
    assert abs(float(sampled) - float(exact)) < 5 * sampled.stderr
    assert sampled.stderr < 1e-3


def test_a_head_may_be_a_module_a_mapping_or_the_objective_s_own():
    mixture, objective = dd.mixtures.xor(10), dd.Objective(dd.heads.Product(a=2.0), "logistic")
    theta = torch.randn(2, 10, generator=torch.Generator().manual_seed(0))
    values = [
        float(dd.population_test_error(mixture, objective, theta, head))
        for head in (None, dd.heads.Product(a=2.0), {"a": torch.tensor(2.0)})
    ]
    assert values == pytest.approx([values[0]] * 3, abs=1e-14)
    other = dd.population_test_error(mixture, objective, theta, dd.heads.Product(a=1.0))
    assert abs(float(other) - values[0]) > 0.1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alignment": [[0.0, 0.0]]}, r"must be \(4, 2\)"),
        ({"overlap": [[1.0, 3.0], [3.0, 1.0]]}, "overlap is not positive semi-definite"),
        ({"head": {"b": torch.zeros(())}}, "no parameter 'a'"),
        ({"overlap": [[1.0]], "alignment": [[0.0]] * 4}, "L = 2"),
    ],
)
def test_bad_input(change, message):
    arguments = {"alignment": torch.zeros(4, 2), "overlap": torch.eye(2)} | change
    objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
    with pytest.raises(ValueError, match=message):
        dd.asymptotic_test_error(dd.mixtures.xor(4), objective, **arguments)


def test_limits_without_means_have_no_theta():
    limit = dd.MixtureLimit([[0.0]], [1.0], [0.0])
    objective = dd.Objective(dd.heads.Linear(), "squared")
    with pytest.raises(ValueError, match="needs a mixture with means"):
        dd.population_test_error(limit, objective, torch.zeros(1, 3))


def test_too_few_samples():
    mixture, objective, _, theta = problems.four_modes(20)
    with pytest.raises(ValueError, match="samples=16"):
        dd.population_test_error(mixture, objective, theta, samples=16)
