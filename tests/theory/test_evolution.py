import numpy as np
import pytest
import torch

import decoupled_descent as dd

from . import problems

LINEAR = dd.Objective(dd.heads.Linear(), "squared")


def test_gradient_overlap_is_the_limit_of_the_squared_correction():
    """α Σ + α² Σ χ l lᵀ: the lemma's α Σ alone is off by an order of magnitude here."""
    n, steps = 2000, 3
    mixture, objective, algorithm, theta = problems.flipped(n)
    evolution = dd.StateEvolution(mixture, objective, algorithm).run(steps, theta=theta)
    result = []
    for seed in range(6):
        X, y = mixture.sample(n, seed=seed)
        seen = []
        dd.fit(X, y, objective, algorithm, steps=steps, theta=theta, callbacks=[seen.append])
        first, second = (step.state.theta.double() for step in seen[:2])
        tilde = (algorithm.damping * first - second) / algorithm.lr
        result.append(float(tilde.square().sum()) / n)
    stderr = np.std(result, ddof=1) / 6**0.5
    assert abs(np.mean(result) - float(evolution.gradient_overlap[0, 0])) < 4 * stderr
    assert abs(np.mean(result) - float(evolution.sigma[0, 0])) > 8 * stderr


@pytest.mark.parametrize("ridge", [0.5, np.inf])
def test_overlaps_of_steps_are_those_of_the_update(ridge):
    """Ω[t+1,t+1] = η₀²Ω − η₀η₁(Ξ + Ξᵀ) + η₁²V, whatever the step and the covariance of the rows."""
    mixture, objective, _, theta = problems.flipped(60)
    algorithm = dd.OrthogonalDecoupledDescent(0.3, 0.9, ridge=ridge)
    variances = torch.linspace(0.2, 1.8, 60)
    theory = dd.StateEvolution(mixture, objective, algorithm, 1.4, variances)
    result = theory.run(6, theta)
    t = torch.arange(5)
    xi = result.xi[t, t]
    squares = result.gradient_overlap[t, t]
    expected = 0.81 * result.overlap[:-1] - 0.27 * (xi + xi.mT) + 0.09 * squares
    np.testing.assert_allclose(result.overlap[1:], expected, rtol=0, atol=1e-12)


def test_expectations_are_those_of_the_lemma():
    """Means of any function: polynomials to rounding, jumps to the standard error."""
    mixture, objective, algorithm, theta = problems.flipped(60)
    evolution = dd.StateEvolution(mixture, objective, algorithm).run(6, theta)
    m, variance = evolution.alignment[4, :, 0], float(evolution.overlap[4])
    fourth = evolution.expect(lambda h, y, a: h[:, 0] ** 4 * y, 4)
    moments = m**4 + 6 * m**2 * variance + 3 * variance**2
    expected = float(moments @ (mixture.weights * torch.tensor([0.1, 0.9], dtype=torch.float64)))
    np.testing.assert_allclose(fourth.value, expected, rtol=1e-10)
    loss = evolution.expect(objective.losses, -1)
    np.testing.assert_allclose(loss.value, float(evolution.test_error[-1]), rtol=1e-8)
    above = evolution.expect(lambda h, y, a: (h[:, 0] > 0.3).double(), 4)
    exact = float(mixture.weights @ torch.special.ndtr((m - 0.3) / variance**0.5))
    assert abs(above.value - exact) < 5 * above.stderr
    assert 0 < above.stderr < 1e-3
    with pytest.raises(ValueError, match=r"phi returned shape \(.*, 1\)"):
        evolution.expect(lambda h, y, a: h, 0)


def test_expectations_over_training_rows_of_gradient_descent():
    mixture, objective, _, theta = problems.flipped(60)
    algorithm = dd.GradientDescent(0.4)
    evolution = dd.StateEvolution(mixture, objective, algorithm, paths=256, randomisations=3).run(
        5, theta
    )
    trained = evolution.expect(objective.losses, 3)
    np.testing.assert_allclose(trained.value, float(evolution.train_error[3]), rtol=1e-12)
    np.testing.assert_allclose(trained.stderr, float(evolution.stderr["train_error"][3]), rtol=1e-8)
    new = evolution.expect(objective.losses, 3, new=True)
    assert abs(new.value - float(evolution.test_error[3])) < 1e-6
    rows = evolution.training_rows(3)
    losses = objective.losses(rows.h[:1], torch.zeros(1).double(), {})
    assert rows.h.shape == (3 * 256, 1)
    assert losses.isfinite().all()
    np.testing.assert_allclose(float(rows.weights.sum()), 1)


@pytest.mark.parametrize("kind", [dd.DecoupledDescent, dd.GradientDescent])
def test_a_run_has_the_predicted_moments(kind):
    """Means of h² and h⁴ per label over the training rows of one large run, at a late step."""
    n, steps = 3000, 8
    mixture, objective, _, theta = problems.flipped(n)
    algorithm = kind(0.4)
    evolution = dd.StateEvolution(mixture, objective, algorithm, paths=2048).run(steps, theta)
    X, y = mixture.sample(n, seed=4)
    seen = []
    dd.fit(X, y, objective, algorithm, steps, theta, callbacks=[seen.append])
    h = seen[-1].info.preactivations.double()[:, 0]
    for power in (2, 4):
        row = h**power * y
        mean = evolution.expect(lambda h, y, a, k=power: h[:, 0] ** k * y, -1)
        # rows are not independent: fluctuations of theta add to those of a mean of n rows
        assert abs(float(row.mean()) - mean.value) < 6 * float(row.std()) / n**0.5
