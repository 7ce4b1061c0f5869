"""Estimates for rows that are more or less frequent than in training."""

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.evaluation.reweighting import reweighted, row_weights_of
from tests.evaluation.problems import quiet

OBJECTIVE = dd.Objective(dd.heads.Linear(), "logistic")


def mixture(share=0.5):
    two = dd.mixtures.flipped_classes(300, snr=1.0, flip=0.0, labels=(0.0, 1.0))
    return dd.GaussianMixture(
        two.means * torch.tensor([[1.6], [0.6]]), [share, 1 - share], [0.0, 1.0]
    )


def test_other_shares_of_the_classes():
    """Twelve draws: z has mean zero and unit spread, and no weights would be far off."""
    z, off = [], []
    for seed in range(12):
        X, y = mixture().sample(600, seed=seed)
        run = dd.fit(X, y, OBJECTIVE, dd.DecoupledDescent(0.1, 0.9), 15, seed=seed)
        after = mixture(0.1).sample(20_000, seed=100 + seed)
        outputs = run.predict(after[0], best=True)
        true = float(OBJECTIVE.loss.of(outputs, after[1]).mean())
        estimate = run.under({0.0: 0.2, 1.0: 1.8})
        z.append((estimate.value - true) / estimate.stderr)
        off.append((run.best.train_error - true) / run.best.train_error_stderr)
    assert abs(np.mean(z)) < 3 / 12**0.5
    assert np.sqrt(np.mean(np.square(z))) < 1.8
    assert abs(np.mean(off)) > 3


def test_equal_weights_give_the_train_error():
    X, y = mixture().sample(200, seed=0)
    run = dd.fit(X, y, OBJECTIVE, dd.DecoupledDescent(0.1), 5)
    estimate = run.under(np.full(200, 3.0))
    assert estimate.value == pytest.approx(run.best.train_error, rel=1e-6)
    assert estimate.stderr == pytest.approx(
        run.best.info._replace(pairs=0.0).train_error_stderr, rel=1e-5
    )


def drawn(generator):
    return torch.randn(400, generator=generator).numpy()


def test_the_standard_error_is_that_of_a_weighted_mean():
    generator = torch.Generator().manual_seed(0)
    weights = torch.rand(400, generator=generator).double() ** 3
    means = [reweighted(quiet(400, losses=drawn(generator)), weights) for _ in range(400)]
    spread = float(np.std([one.value for one in means]))
    assert np.mean([one.stderr for one in means]) == pytest.approx(spread, rel=4 / 800**0.5)


BAD = {
    "label": ({0.0: 1.0}, "no number for the label 1"),
    "shape": (np.ones(3), r"weights has shape \(3,\)"),
    "negative": (np.array([1.0, -1.0]), "must be finite, at least 0"),
    "zero": (np.zeros(2), "not all 0"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_weights(name):
    weights, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        row_weights_of(weights, torch.tensor([0.0, 1.0]))


def test_a_drift_that_few_rows_show_is_refused():
    X, y = mixture().sample(200, seed=0)
    run = dd.fit(X, y, OBJECTIVE, dd.DecoupledDescent(0.1), 3)
    with pytest.raises(ValueError, match=r"weights leave 1\.0 effective rows of 200"):
        run.under(np.exp(-np.arange(200.0) * 20))
    plain = dd.fit(X, y, OBJECTIVE, dd.GradientDescent(0.1), 3)
    with pytest.raises(ValueError, match="whose losses estimate the test error"):
        plain.under(np.ones(200))
