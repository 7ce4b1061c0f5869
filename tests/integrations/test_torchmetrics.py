"""A metric of torchmetrics that has a standard error."""

import pytest
import torch

from tests.evaluation.problems import estimate
from tests.integrations.problems import logits

tm = pytest.importorskip("torchmetrics")
from decoupled_descent.integrations.torchmetrics import WithStandardError  # noqa: E402


@pytest.mark.parametrize("metric", ["accuracy", tm.classification.BinaryAUROC()], ids=str)
def test_batches_together_are_the_estimate(metric):
    outputs, y = logits()
    found = WithStandardError(metric)
    for at in torch.arange(80).split(30):
        found.update(outputs[at], y[at])
    wanted = estimate(metric, y, outputs)
    value, stderr = found.compute().values()
    assert (float(value), float(stderr)) == pytest.approx((wanted.value, wanted.stderr))
    assert list(found.compute()) == [wanted.metric, f"{wanted.metric}_stderr"]


def test_in_a_collection():
    outputs, y = logits()
    both = tm.MetricCollection({"a": WithStandardError("accuracy"), "b": WithStandardError("auc")})
    both.update(outputs, y)
    assert set(both.compute()) == {"accuracy", "accuracy_stderr", "auc", "auc_stderr"}
