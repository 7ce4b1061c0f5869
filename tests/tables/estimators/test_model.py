"""Both kinds of models through the interface that estimators and files use."""

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.objective.losses import get_loss
from decoupled_descent.tables.estimators.base import model_class
from decoupled_descent.tables.estimators.network_model import NetworkModel
from decoupled_descent.tables.estimators.newton_model import NewtonModel
from decoupled_descent.training.sweeps.methods import METHODS
from tests.tables.estimators.problems import binary, features, several

NEW = features(7, 4, seed=5)
NETWORK = {"method": "decoupled", "lr": 0.2, "damping": 0.9, "max_iter": 5}


def test_every_method_has_a_model():
    kinds = {name: model_class(name) for name in METHODS}
    assert kinds.pop("newton") is NewtonModel
    assert set(kinds.values()) == {NetworkModel}


@pytest.mark.parametrize("options", [{"features": "linear", "ridge": 1.0}, NETWORK])
@pytest.mark.parametrize("data", [binary, several])
def test_a_restored_state_predicts_the_same(options, data):
    X, y = data(60, 4)
    estimator = dd.DecoupledClassifier(**options).fit(X, y)
    model, (loss, outputs) = estimator.model_, estimator._loss
    tensors, content = model.state()
    tensors = {name: value.clone() for name, value in tensors.items()}
    content["columns_in"] = X.shape[1]
    again = type(model).restore(content, tensors, get_loss(loss), outputs)
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))
    np.testing.assert_array_equal(again.logits(NEW), model.logits(NEW))
    logits = model.logits(NEW)
    if logits.ndim == 1:
        logits = np.stack([np.zeros_like(logits), logits], 1)
    expected = torch.softmax(torch.from_numpy(logits), 1).numpy()
    np.testing.assert_allclose(model.predict(NEW), expected, atol=1e-12)


def test_attributes_of_networks_belong_to_networks():
    X, y = binary(60, 4)
    newton = dd.DecoupledClassifier(features="linear", ridge=1.0).fit(X, y)
    network = dd.DecoupledClassifier(**NETWORK).fit(X, y)
    for name in ("theta_", "head_", "mean_", "scale_"):
        assert hasattr(network, name)
        assert not hasattr(newton, name)
    assert hasattr(newton, "mixture_")
    assert not hasattr(network, "mixture_")
