"""The mixture that the Newton method trains: predictions, and what a file keeps of it."""

import json

import numpy as np
import torch

from decoupled_descent.objective.losses import get_loss
from decoupled_descent.tables.estimators.mixture import (
    Mixture,
    NewtonMember,
    describe_mixture,
    rebuild_mixture,
)
from decoupled_descent.tables.features.kernel_map import Kernel
from tests.tables.estimators.problems import features

X, NEW = features(30, 4, seed=0), features(9, 4, seed=1)
SHARES = (0.5, 0.3, 0.2)


def mixture(loss="cross_entropy", outputs=3):
    """Two members with the same feature map, and one with another."""
    linear, rbf = Kernel("linear"), Kernel("rbf")
    linear.fit(X)
    rbf.fit(X)
    generator = torch.Generator().manual_seed(0)
    members = []
    for share, each in zip(SHARES, (rbf, linear, linear), strict=True):
        width = each.transform(X).shape[1]
        theta = torch.randn(outputs, width, generator=generator, dtype=torch.float64)
        bias = torch.randn(outputs, generator=generator, dtype=torch.float64)
        members.append(NewtonMember(share, each, theta, bias, ridge=2.0))
    return Mixture(get_loss(loss), tuple(members), rows=30.0)


def test_probabilities_are_mixed_by_the_shares():
    model, total = mixture(), np.zeros((len(NEW), 3))
    for share, each, theta, bias, _ in model.members:
        logits = each.transform(NEW).numpy() @ theta.numpy().T + bias.numpy()
        chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        total += share * (30 * chances + 1 / 3) / 31  # one more row, of no class
    np.testing.assert_allclose(model.predict(NEW), total, rtol=1e-12)


def test_numbers_are_mixed_by_the_shares():
    model = mixture("squared", 2)
    parts = [
        share * (each.transform(NEW) @ theta.T + bias)
        for share, each, theta, bias, _ in model.members
    ]
    np.testing.assert_allclose(model.predict(NEW), sum(parts).numpy(), rtol=1e-12)


def test_the_main_features_have_the_largest_share_together():
    model = mixture()
    assert model.main_features() is model.members[0].features  # 0.5 against 0.3 + 0.2
    shares = (0.4, 0.35, 0.25)
    members = [one._replace(share=s) for one, s in zip(model.members, shares, strict=True)]
    changed = Mixture(model.loss, tuple(members), model.rows)
    assert changed.main_features().name == "linear"


def test_a_description_gives_the_same_bits():
    model = mixture()
    tensors, about = describe_mixture(model)
    assert len(about["maps"]) == 2  # members share their maps
    again = rebuild_mixture(json.loads(json.dumps(about)), tensors, get_loss("cross_entropy"), 3)
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))
    assert again.members[1].features is again.members[2].features
