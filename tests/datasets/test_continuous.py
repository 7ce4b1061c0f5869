"""Signals of continuous strength: nodes against integrals, rows against theory."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats

import decoupled_descent as dd
from decoupled_descent.datasets.continuous import prior_nodes

PRIORS = [
    stats.norm(1.0, 2.0),
    stats.uniform(-1, 3),
    stats.gamma(3.0),
    stats.beta(0.5, 0.5),
    stats.poisson(2.5),
]


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: prior.dist.name)
def test_moments_are_exact(prior):
    nodes, weights = prior_nodes(prior)
    assert weights.min() > 0
    for k in (1, 2, 3, 4):
        np.testing.assert_allclose(weights @ nodes**k, prior.moment(k), rtol=1e-7)


@pytest.mark.parametrize("prior", PRIORS[:3], ids=lambda prior: prior.dist.name)
def test_the_accuracy_is_as_stated(prior):
    """Against adaptive quadrature, for a curve that was not tried."""
    scale = prior.std()
    curve = lambda c: np.logaddexp(0, 1.5 * (c - prior.mean()) / scale + 0.4)  # noqa: E731
    expected, _ = integrate.quad(
        lambda c: curve(c) * prior.pdf(c), *prior.interval(1 - 1e-15), epsabs=1e-13, limit=500
    )
    errors = []
    for accuracy in (1e-3, 1e-6, 1e-9):
        nodes, weights = prior_nodes(prior, accuracy)
        errors.append(abs(weights @ curve(nodes) - expected) / accuracy)
    assert max(errors) < 2


def test_the_rule_of_a_normal_law_is_that_of_gauss_and_hermite():
    nodes, weights = prior_nodes(stats.norm(0, 1), 1e-3)
    expected = np.polynomial.hermite_e.hermegauss(len(nodes))
    np.testing.assert_allclose(nodes, expected[0], atol=1e-8)
    np.testing.assert_allclose(weights, expected[1] / expected[1].sum(), atol=1e-8)


def test_theory_averages_over_the_law():
    """A squared loss has a closed form."""
    mixture = dd.datasets.ContinuousMixture(
        torch.ones(20), stats.norm(0, 1), lambda c: dd.responses.Noisy(c, 0.5)
    )
    objective = dd.Objective(dd.heads.Linear(), "squared")
    alignment = 0.7 * mixture.strengths.unsqueeze(1)
    found = dd.theory.asymptotic_test_error(mixture, objective, alignment, [[0.6]])
    # h − y = (0.7 − 1) c + √0.6 z − 0.5 e
    np.testing.assert_allclose(found.value, (0.09 + 0.6 + 0.25) / 2, rtol=1e-10)


@pytest.mark.parametrize("kind", [dd.DecoupledDescent, dd.GradientDescent])
def test_runs_on_drawn_rows_have_the_predicted_errors(kind):
    n, steps, runs = 1000, 12, 6
    mixture = dd.datasets.ContinuousMixture(
        torch.ones(n), stats.uniform(-2, 4), lambda c: dd.responses.Noisy(np.tanh(2 * c), 0.2)
    )
    objective = dd.Objective(dd.heads.TwoLayer(1, bias=True, seed=2).double(), "squared")
    theta = torch.randn(1, n, generator=torch.Generator().manual_seed(0)).double() + 0.5
    algorithm = kind(0.3)
    predicted = dd.StateEvolution(mixture, objective, algorithm, paths=2048).run(steps, theta)
    found = torch.stack(
        [
            dd.fit(*mixture.sample(n, seed=s), objective, algorithm, steps, theta).train_error
            for s in range(runs)
        ]
    ).double()
    gap = (found.mean(0) - predicted.train_error).abs()
    assert bool((gap < 5 * found.std(0) / runs**0.5).all())


def test_what_cannot_be_done_is_refused():
    with pytest.raises(ValueError, match="standard deviation"):
        prior_nodes(stats.bernoulli(0.0))
    with pytest.raises(ValueError, match="accuracy=1e-30 is not reached"):
        prior_nodes(stats.norm(), 1e-30)
    with pytest.raises(ValueError, match="direction has shape"):
        dd.datasets.ContinuousMixture(torch.ones(2, 2), stats.norm(), lambda c: c)
