"""Metrics of torchmetrics in ``estimate``."""

import pytest
import torch
from sklearn import metrics as sk
from torch import nn

import decoupled_descent as dd
from tests.evaluation.problems import estimate
from tests.integrations.problems import logits, two_classes

tm = pytest.importorskip("torchmetrics")

TWO = [
    (tm.classification.BinaryAccuracy(), "accuracy"),
    (tm.classification.BinaryAUROC(), "auc"),
    (tm.classification.BinaryMatthewsCorrCoef(), sk.matthews_corrcoef),
    (tm.functional.classification.binary_average_precision, sk.average_precision_score),
]


@pytest.mark.parametrize(("metric", "same"), TWO, ids=lambda m: type(m).__name__)
def test_it_is_what_others_compute(metric, same):
    outputs, y = logits()
    found, wanted = estimate(metric, y, outputs), estimate(same, y, outputs)
    assert found.value == pytest.approx(wanted.value, abs=1e-6)
    assert found.stderr == pytest.approx(wanted.stderr, rel=0.05)  # float32; shares have rows added


def test_several_classes_and_values():
    outputs, y = logits(outputs=3)
    found = estimate(tm.classification.MulticlassAccuracy(3, average="micro"), y, outputs)
    assert found.metric == "MulticlassAccuracy"
    assert found.value == pytest.approx(estimate("accuracy", y, outputs).value, abs=1e-6)
    values, _ = logits()
    labels = values + 0.1 * torch.arange(80)
    rmse = tm.MeanSquaredError(squared=False)
    found = estimate(rmse, labels, values, "values")
    assert found.value == pytest.approx(estimate("rmse", labels, values, "values").value, rel=1e-5)


def test_two_classes_as_several():
    """Metrics for several classes get both columns: one column would be taken as the classes."""
    outputs, y = logits()
    for one, name in (
        (tm.classification.MulticlassAccuracy(2, average="micro"), "accuracy"),
        (tm.classification.MulticlassAUROC(2), "auc"),
    ):
        assert estimate(one, y, outputs).value == pytest.approx(
            estimate(name, y, outputs).value, abs=1e-6
        )


def test_what_the_metric_has_collected_stays():
    outputs, y = logits()
    metric = tm.classification.BinaryAccuracy()
    metric.update(torch.tensor([0.9]), torch.tensor([0]))
    estimate(metric, y, outputs)
    assert float(metric.compute()) == 0.0


def test_a_run_takes_it():
    X, y = two_classes()
    run = dd.CrossFit(nn.Linear(6, 2), nn.CrossEntropyLoss(), torch.optim.AdamW, folds=3).fit(
        X, y, 2
    )
    found = run.estimate(tm.classification.BinaryF1Score())
    assert found.value == pytest.approx(run.estimate("f1").value, abs=1e-6)
    assert found.verdict is not None


def test_refusals():
    outputs, y = logits(outputs=3)
    with pytest.raises(ValueError, match=r"give BinaryAccuracy\("):
        estimate(tm.classification.BinaryAccuracy, y, outputs)
    with pytest.raises(ValueError, match="one number"):
        estimate(tm.classification.MulticlassAccuracy(3, average=None), y, outputs)
    with pytest.raises(ValueError, match="no weights of rows"):
        estimate(tm.classification.MulticlassAccuracy(3), y, outputs, sample_weight=y.double())
