"""Any metric of leave-one-out probabilities, against scikit-learn and a jackknife by hand."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, balanced_accuracy_score, roc_auc_score

import decoupled_descent as dd
from tests.tables.estimators.problems import binary, real, several

OPTIONS = {"features": "linear", "ridge": 1.0}


def test_metrics_are_those_of_scikit_learn():
    X, y = binary(60)
    labels = np.where(y == 1, "yes", "no")
    model = dd.DecoupledClassifier(**OPTIONS).fit(X, labels)
    chances = model.corrected_proba_[:, 1]
    auc = model.estimate("auc")
    assert auc.value == pytest.approx(roc_auc_score(y, chances))
    without = [roc_auc_score(np.delete(y, k), np.delete(chances, k)) for k in range(60)]
    spread = np.sqrt(59 / 60 * np.sum((without - np.mean(without)) ** 2))
    assert auc.stderr == pytest.approx(model.evaluation_.widening * spread, rel=1e-8)
    assert auc.interval[0] < auc.value < auc.interval[1]
    assert model.estimate("brier").value == pytest.approx(np.mean((chances - y) ** 2))
    precision = model.estimate(average_precision_score)
    assert precision.value == pytest.approx(average_precision_score(y, chances))
    loss = model.estimate("log_loss")
    assert loss.value == pytest.approx(model.estimated_test_error_)


def test_several_classes_weights_and_groups():
    X, y = several(60)
    groups, weights = np.arange(60) // 3, 1.0 + np.arange(60) % 2
    model = dd.DecoupledClassifier(**OPTIONS).fit(X, y, sample_weight=weights, groups=groups)
    counted = model.estimate(balanced_accuracy_score)
    predicted = model.classes_[model.corrected_proba_.argmax(1)]
    assert counted.value == pytest.approx(
        balanced_accuracy_score(y, predicted, sample_weight=weights)
    )
    weighted = model.estimate("brier")
    squares = np.square(model.corrected_proba_ - np.eye(3)[np.searchsorted(model.classes_, y)])
    assert weighted.value == pytest.approx(np.average(squares.sum(1), weights=weights))
    assert weighted.units == 20


def test_one_error_has_one_number():
    """The attribute, the evaluation and every metric of the same loss agree."""
    X, y = real(60)
    model = dd.DecoupledRegressor().fit(X, y)  # with forests, whose losses are corrected
    assert model.estimated_test_error_ == model.evaluation_.error == model.estimate("mse").value
    assert model.estimate("rmse").value == pytest.approx(model.estimated_test_error_**0.5)
    assert model.estimate("r2").value == model.estimated_r2_
    low, high = model.estimated_test_error_interval_
    assert model.estimate("rmse").interval == pytest.approx((low**0.5, high**0.5))
    chances = dd.DecoupledClassifier().fit(X, y > np.median(y))
    assert chances.estimate("accuracy").value == chances.estimated_accuracy_
    assert chances.estimate("log_loss").interval == chances.estimated_test_error_interval_


def test_a_model_from_a_file_has_no_rows(tmp_path):
    X, y = binary(60)
    model = dd.DecoupledClassifier(**OPTIONS).fit(X, y)
    loaded = dd.load_model(dd.save_model(model, tmp_path / "model.safetensors"))
    with pytest.raises(ValueError, match="does not have its training rows; fit it again"):
        loaded.estimator.estimate("auc")
