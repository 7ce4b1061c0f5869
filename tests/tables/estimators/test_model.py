"""The model through the interface that estimators and files use."""

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.objective.losses import get_loss
from tests.tables.estimators.problems import CHEAP, binary, features, several

NEW = features(7, 4, seed=5)


@pytest.mark.parametrize("data", [binary, several])
def test_a_restored_state_predicts_the_same(data):
    X, y = data(60, 4)
    estimator = dd.DecoupledClassifier(**CHEAP).fit(X, y)
    model, (loss, outputs) = estimator.model_, estimator._loss
    tensors, content = model.state()
    tensors = {name: value.clone() for name, value in tensors.items()}
    again = type(model).restore(content, tensors, get_loss(loss), outputs)
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))
    np.testing.assert_array_equal(again.logits(NEW), model.logits(NEW))
    logits = model.logits(NEW)
    if logits.ndim == 1:
        logits = np.stack([np.zeros_like(logits), logits], 1)
    expected = torch.softmax(torch.from_numpy(logits), 1).numpy()
    np.testing.assert_allclose(model.predict(NEW), expected, atol=1e-12)
