"""Outputs of networks as evaluations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn import metrics

from decoupled_descent.evaluation.output_scale import OutputScale
from decoupled_descent.evaluation.outputs import Labels

LOGITS = torch.linspace(-2, 2, 40).reshape(20, 2)
Y = torch.arange(20) % 2


def test_losses_that_are_the_usual_ones_are_recognised():
    labels = Labels(Y, OutputScale.LOGITS)
    usual = labels.evaluation(LOGITS, F.cross_entropy(LOGITS, Y, reduction="none"))
    assert (usual.loss, usual.error_name) == ("log_loss", "log loss")
    smooth = F.cross_entropy(LOGITS, Y, reduction="none", label_smoothing=0.2)
    own = labels.evaluation(LOGITS, smooth)
    assert (own.loss, own.error_name) == ("", "loss")
    assert own.error == pytest.approx(float(smooth.mean()), rel=1e-6)
    expected = metrics.log_loss(Y, torch.softmax(LOGITS.double(), 1))
    assert own.estimate("log_loss").value == pytest.approx(expected, rel=1e-6)


def test_half_of_the_squared_error_is_a_loss_of_its_own():
    values = torch.linspace(0, 1, 20)
    found = Labels(values, OutputScale.VALUES).evaluation(values + 1, torch.full((20,), 0.5))
    assert found.error == pytest.approx(0.5)
    assert found.estimate("mse").value == pytest.approx(1.0)


def test_groups_may_have_any_numbers():
    groups = torch.arange(20) // 2 * 10 + 7
    found = Labels(Y, OutputScale.LOGITS, None, groups).evaluation(LOGITS)
    assert found.groups.tolist() == np.repeat(np.arange(10), 2).tolist()
