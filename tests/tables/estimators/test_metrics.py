"""Any metric of leave-one-out probabilities, against scikit-learn and a jackknife by hand."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, balanced_accuracy_score, roc_auc_score

import decoupled_descent as dd
from tests.tables.estimators.problems import binary, several

OPTIONS = {"features": "linear", "ridge": 1.0}


def test_metrics_are_those_of_scikit_learn():
    X, y = binary(60)
    labels = np.where(y == 1, "yes", "no")
    model = dd.DecoupledClassifier(**OPTIONS).fit(X, labels)
    chances = model.corrected_proba_[:, 1]
    auc = model.estimate("auc", labels)
    assert auc.value == pytest.approx(roc_auc_score(y, chances))
    without = [roc_auc_score(np.delete(y, k), np.delete(chances, k)) for k in range(60)]
    spread = np.sqrt(59 / 60 * np.sum((without - np.mean(without)) ** 2))
    assert auc.stderr == pytest.approx(model._widening * spread, rel=1e-8)
    assert auc.interval[0] < auc.value < auc.interval[1]
    assert model.estimate("brier", labels).value == pytest.approx(np.mean((chances - y) ** 2))
    precision = model.estimate(average_precision_score, labels)
    assert precision.value == pytest.approx(average_precision_score(y, chances))
    loss = model.estimate("log_loss", labels)
    assert loss.value == pytest.approx(model.estimated_test_error_)


def test_several_classes_weights_and_groups():
    X, y = several(60)
    groups, weights = np.arange(60) // 3, 1.0 + np.arange(60) % 2
    model = dd.DecoupledClassifier(**OPTIONS).fit(X, y, sample_weight=weights, groups=groups)
    counted = model.estimate(balanced_accuracy_score, y)
    predicted = model.classes_[model.corrected_proba_.argmax(1)]
    assert counted.value == pytest.approx(balanced_accuracy_score(y, predicted))
    weighted = model.estimate("accuracy", y, weights, groups)
    assert weighted.value == pytest.approx(np.average(predicted == y, weights=weights))
    assert weighted.units == 20


def test_labels_must_be_those_of_fit():
    X, y = binary(60)
    model = dd.DecoupledClassifier(**OPTIONS).fit(X, y)
    with pytest.raises(
        ValueError, match=r"y has shape \(59,\) but the model was trained on 60 rows"
    ):
        model.estimate("auc", y[:-1])
    with pytest.raises(ValueError, match="not among classes_"):
        model.estimate("auc", y + 5)
