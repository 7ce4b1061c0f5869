"""The limit of the test error on rows of another mixture."""

import pytest
import torch

import decoupled_descent as dd
from tests.problems import normal

OBJECTIVE = dd.Objective(dd.heads.Linear().double(), "logistic")
LABELS = {"labels": (0.0, 1.0)}
BEFORE = dd.mixtures.flipped_classes(200, snr=1.5, **LABELS)


def evolution(algorithm=None, steps=15):
    algorithm = algorithm or dd.DecoupledDescent(0.2, 0.95)
    return dd.StateEvolution(BEFORE, OBJECTIVE, algorithm).run(steps)


def test_without_a_drift_it_is_the_test_error():
    before = evolution()
    torch.testing.assert_close(
        before.under(BEFORE).test_error, before.test_error, rtol=1e-6, atol=0
    )
    torch.testing.assert_close(before.under(BEFORE).alignment, before.alignment)


def turned(share, snr=1.5):
    """Means of which this share of the squared length is in a direction that training never saw."""
    ones = torch.ones(200, dtype=torch.float64)
    other = torch.cat([ones[:100], -ones[100:]])
    v = snr * ((1 - share) ** 0.5 * ones + share**0.5 * other)
    return dd.GaussianMixture(torch.stack([v, -v]), BEFORE.weights, BEFORE.responses)


AFTER = {
    "weaker signal": (dd.mixtures.flipped_classes(200, snr=0.7, **LABELS), 1.0),
    "turned": (turned(0.5), 1.0),
    "unknown direction": (turned(1.0), 1.0),
    "noise": (BEFORE, 2.5),
    "shares": (dd.GaussianMixture(BEFORE.means, [0.9, 0.1], BEFORE.responses), 1.0),
}


@pytest.mark.parametrize("name", AFTER)
@pytest.mark.parametrize("algorithm", [dd.DecoupledDescent(0.2, 0.95), dd.GradientDescent(0.2)],
                         ids=["dd", "gd"])  # fmt: skip
def test_runs_agree_with_it(name, algorithm):
    """Six runs of 1200 rows in 1200 dimensions, tested on the population after the drift."""
    mixture, variance = AFTER[name]
    limit = evolution(algorithm).under(mixture, variance)
    wide, after = (_stretched(one, 1200) for one in (BEFORE, mixture))
    errors = []
    for seed in range(6):
        X, y = wide.sample(1200, seed=seed, dtype=torch.float64)
        start = normal(1, 1200, seed=seed)
        run = dd.fit(X, y, OBJECTIVE, algorithm, 15, theta=start)
        theta = run.theta
        m, overlap = after.means @ theta.T / 1200, variance * theta @ theta.T / 1200
        error = dd.theory.asymptotic_test_error(after, OBJECTIVE, m, overlap, run.head)
        errors.append(float(error))
    errors = torch.tensor(errors).double()
    stderr = float(errors.std()) / 6**0.5
    assert abs(float(errors.mean() - limit.test_error[-1])) < 4 * stderr + 0.004


def _stretched(mixture, dimension):
    means = mixture.means.repeat_interleave(dimension // mixture.means.shape[1], 1)
    return dd.GaussianMixture(means, mixture.weights, mixture.responses)


def test_noise_of_the_labels_is_a_drift_too():
    more = dd.mixtures.flipped_classes(200, snr=1.5, flip=0.4, **LABELS)
    before = evolution()
    assert float(before.under(more).test_error[-1]) > float(before.test_error[-1]) + 0.1


def test_bad_input():
    before = evolution(steps=2)
    with pytest.raises(ValueError, match="mixture has 100 dimensions, but training was on 200"):
        before.under(dd.mixtures.flipped_classes(100, **LABELS))
    with pytest.raises(ValueError, match="variance=0 must be positive"):
        before.under(BEFORE, 0)
    spectrum = torch.linspace(0.5, 1.5, 200, dtype=torch.float64)
    other = dd.StateEvolution(BEFORE, OBJECTIVE, dd.GradientDescent(0.1), covariance=spectrum)
    with pytest.raises(ValueError, match="noise of covariance I/d"):
        other.run(2).under(BEFORE)
