"""Links: half of the deviance, and predictions away from the ends of their range."""

import numpy as np
import pytest
import torch
from scipy.special import kl_div
from sklearn.metrics import mean_poisson_deviance

from decoupled_descent.objective.losses import LOSSES
from tests.objective.test_losses import OUTPUTS, REFERENCES


@pytest.mark.parametrize(
    ("name", "deviance"),
    [
        ("poisson", mean_poisson_deviance),
        ("proportion", lambda y, mean: 2 * np.mean(kl_div(y, mean) + kl_div(1 - y, 1 - mean))),
    ],
)
def test_losses_of_means_are_half_of_the_deviance(name, deviance):
    loss, labels = LOSSES[name], REFERENCES[name][0][:, :1]
    outputs = OUTPUTS[:, :1]
    means = loss.predictions(outputs)
    half = deviance(labels.numpy()[:, 0], means.numpy()[:, 0]) / 2
    assert loss.of_predictions(means, labels).mean().item() == pytest.approx(half, rel=1e-12)
    assert loss.of(outputs, labels).mean().item() == pytest.approx(half, rel=1e-12)
    bounded = loss.smoothed(torch.tensor([[-1.0], [0.0], [2.0]]), 9.0)
    assert (bounded > 0).all()
    assert name == "poisson" or (bounded < 1).all()
