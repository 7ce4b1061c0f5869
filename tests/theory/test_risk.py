import math

import numpy as np
import pytest
import torch

import decoupled_descent as dd

from . import problems


def test_squared_loss_in_closed_form():
    mixture = dd.theory.MixtureLimit(
        [[1.0, -1.0], [-1.0, 1.0]], [0.3, 0.7], [dd.responses.flipped(1.0, -1.0, 0.25), -2.0]
    )
    objective = dd.Objective(dd.heads.Linear(), "squared")
    result = dd.theory.asymptotic_test_error(mixture, objective, [[0.5], [-0.5]], [[0.8]])
    losses = 0.3 * (0.75 * 0.5**2 + 0.25 * 1.5**2) + 0.7 * 1.5**2
    assert float(result) == pytest.approx(0.5 * (losses + 0.8), abs=1e-13)
    assert result.stderr < 1e-12


def test_logistic_loss_of_two_units_against_brute_force():
    mixture, objective = (
        dd.mixtures.xor(4, snr=2.0),
        dd.Objective(dd.heads.Product(a=1.5), "logistic"),
    )
    alignment = torch.tensor([[0.8, -0.6], [-0.8, 0.6], [0.2, 0.5], [-0.2, -0.5]]).double()
    overlap = torch.tensor([[1.3, 0.2], [0.2, 0.9]]).double()
    result = dd.theory.asymptotic_test_error(mixture, objective, alignment, overlap)
    axis = np.linspace(-8.5, 8.5, 500)
    z = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    w = np.exp(-0.5 * (z**2).sum(1))
    total = 0.0
    for m, y in zip(alignment.numpy(), (0.0, 0.0, 1.0, 1.0), strict=True):
        h = m + z @ np.linalg.cholesky(overlap.numpy()).T
        u = 1.5 * h[:, 0] * h[:, 1]
        total += 0.25 * (w @ (np.logaddexp(0, u) - y * u)) / w.sum()
    assert float(result) == pytest.approx(total, abs=1e-5)


@pytest.mark.parametrize("algorithm", [dd.GradientDescent(0.05), dd.DecoupledDescent(0.05)])
def test_trained_parameters_against_a_large_test_set(algorithm):
    """Exact at finite d for Gaussian noise, for an algorithm with a train-test gap as well."""
    mixture, objective, _, theta = problems.four_modes(150)
    X, y = mixture.sample(150, seed=0)
    run = dd.fit(X, y, objective, algorithm, steps=40, theta=theta)
    result = dd.theory.population_test_error(mixture, objective, run.theta, run.head)
    X_test, y_test = mixture.sample(60_000, seed=1)
    with torch.no_grad():
        losses = objective.losses(X_test @ run.theta.T, y_test, run.state.head).double()
    stderr = float(losses.std()) / math.sqrt(len(losses))
    assert abs(float(result) - float(losses.mean())) < 4 * stderr
    assert 0 < result.stderr < 0.2 * stderr
    if isinstance(algorithm, dd.GradientDescent):
        assert abs(float(result) - float(run.train_error[-1])) > 10 * stderr


def test_sampling_agrees_with_quadrature_where_both_apply():
    mixture, objective, _, theta = problems.four_modes(60)
    sampled = dd.theory.population_test_error(mixture, objective, theta, samples=2**14)
    exact = dd.theory.population_test_error(mixture, objective, theta, order=20)
    assert 0 < exact.stderr < 1e-5
    assert abs(float(sampled) - float(exact)) < 5 * sampled.stderr
    assert sampled.stderr < 1e-3


LIMIT = dd.theory.MixtureLimit([[0.0]], [1.0], [0.7])


def mean_distance(m, spread):
    """E|m + spread Z|."""
    density = math.exp(-0.5 * (m / spread) ** 2) / math.sqrt(2 * math.pi)
    return 2 * spread * density + m * math.erf(m / spread / math.sqrt(2))


@pytest.mark.parametrize("variance", [0.25, 1.0, 4.0])
def test_absolute_loss_in_closed_form(variance):
    objective = dd.Objective(dd.heads.Linear(), "absolute")
    result = dd.theory.asymptotic_test_error(LIMIT, objective, [[0.0]], [[variance]])
    assert float(result) == pytest.approx(mean_distance(0.7, variance**0.5), abs=1e-5)
    assert 0 < result.stderr < 1e-5
    noisy = dd.theory.MixtureLimit([[0.0]], [1.0], [dd.responses.Noisy(0.7, 0.5)])
    sampled = dd.theory.asymptotic_test_error(noisy, objective, [[0.0]], [[variance]], seed=1)
    expected = mean_distance(0.7, (variance + 0.25) ** 0.5)
    assert abs(float(sampled) - expected) < 5 * sampled.stderr < 1e-3


def test_relu_units_in_closed_form():
    """½ E(relu(h₁) + relu(h₂))² = ½ (1 + 1/π) for independent standard units and response 0."""
    head = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(2, 1, bias=False)).double()
    torch.nn.init.ones_(head[1].weight)
    objective = dd.Objective(head, "squared", curvature="autodiff")
    limit = dd.theory.MixtureLimit([[0.0]], [1.0], [0.0])
    result = dd.theory.asymptotic_test_error(limit, objective, [[0.0, 0.0]], torch.eye(2))
    assert abs(float(result) - 0.5 * (1 + 1 / math.pi)) < 5 * result.stderr < 1e-2


def wrong(outputs, y):
    return outputs.reshape(len(y)) * y < 0


def test_a_loss_without_gradient():
    """Share of wrong classes: Φ(−m/σ), with a share of labels flipped."""
    mixture = dd.mixtures.flipped_classes(10, snr=1.0, flip=0.2)
    objective = dd.Objective(dd.heads.Linear(), wrong)
    result = dd.theory.asymptotic_test_error(mixture, objective, [[-0.6], [0.6]], [[0.5]])
    normal = 0.5 * math.erfc(0.6 / math.sqrt(0.5) / math.sqrt(2))
    expected = 0.8 * normal + 0.2 * (1 - normal)
    assert abs(float(result) - expected) < 5 * result.stderr < 3e-3


def test_a_loss_without_gradient_of_two_units():
    """The signs of two independent units differ in half of all cases."""
    mixture = dd.theory.MixtureLimit([[0.0]], [1.0], [1.0])
    objective = dd.Objective(dd.heads.Product(a=1.0), wrong)
    result = dd.theory.asymptotic_test_error(mixture, objective, [[0.0, 0.0]], torch.eye(2))
    assert abs(float(result) - 0.5) < 5 * result.stderr < 5e-3


@pytest.mark.parametrize("spread", [10.0, 30.0])
def test_steep_losses_are_given_an_error(spread):
    """Sixty-four nodes cannot resolve a logistic loss of logits this large, and say so."""
    limit = dd.theory.MixtureLimit([[0.0]], [1.0], [1.0])
    objective = dd.Objective(dd.heads.Linear(), "logistic")
    result = dd.theory.asymptotic_test_error(limit, objective, [[0.0]], [[spread**2]])
    z = torch.linspace(-9, 9, 100_001, dtype=torch.float64)
    losses = torch.nn.functional.softplus(-spread * z, threshold=40)
    exact = float(torch.softmax(-z.square() / 2, 0) @ losses)
    assert abs(float(result) - exact) < 3 * result.stderr
    assert result.stderr > 1e-4


def test_an_order_across_kinks_is_refused():
    objective = dd.Objective(dd.heads.Linear(), "absolute")
    with pytest.raises(ValueError, match=r"order=200 .* leave order out"):
        dd.theory.asymptotic_test_error(LIMIT, objective, [[0.0]], [[1.0]], order=200)


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
        dd.theory.asymptotic_test_error(dd.mixtures.xor(4), objective, **arguments)


def test_too_few_samples():
    mixture, objective, _, theta = problems.four_modes(20)
    with pytest.raises(ValueError, match="samples=16"):
        dd.theory.population_test_error(mixture, objective, theta, samples=16)


def test_slopes_are_differences_of_the_test_error():
    mixture = dd.mixtures.xor(10, snr=1.0)
    objective = dd.Objective(dd.heads.Product(a=0.7), "logistic")
    m = 0.2 * mixture.means[:, :2].clone() + 0.1
    m = m - m.mean(0)
    omega = torch.tensor([[1.3, 0.2], [0.2, 0.9]], dtype=torch.float64)
    result = dd.theory.slopes(mixture, objective, m, omega)

    def error(alignment, overlap, a=0.7):
        head = {"a": torch.tensor(a, dtype=torch.float64)}
        return float(dd.theory.asymptotic_test_error(mixture, objective, alignment, overlap, head))

    step = 1e-5
    for j, k in ((0, 0), (3, 1)):
        moved = torch.zeros_like(m)
        moved[j, k] = step
        slope = (error(m + moved, omega) - error(m - moved, omega)) / (2 * step)
        np.testing.assert_allclose(float(result.alignment[j, k]), slope, atol=1e-8)
    for direction in ([[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]):
        moved = step * torch.tensor(direction, dtype=torch.float64)
        slope = (error(m, omega + moved) - error(m, omega - moved)) / (2 * step)
        own = float((result.curvature * moved).sum()) / (2 * step)
        np.testing.assert_allclose(own, slope, atol=1e-8)
    slope = (error(m, omega, 0.7 + step) - error(m, omega, 0.7 - step)) / (2 * step)
    np.testing.assert_allclose(float(result.head["a"]), slope, atol=1e-8)
