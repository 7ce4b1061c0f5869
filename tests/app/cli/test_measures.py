"""Measures of a trained estimator: of the class that the curves show, against naive counts."""

import numpy as np
import pytest
from sklearn import metrics

from decoupled_descent.app.cli.measures import of_classes, of_numbers
from decoupled_descent.app.cli.tables import TrainingTable
from decoupled_descent.app.cli.train import fit
from decoupled_descent.app.files.positive import positive_class
from decoupled_descent.checks import Target
from decoupled_descent.tables.columns.rules import Columns

FAST = {"features": "linear", "ridge": 1.0}


def prepared(task, share=0.4, n=90):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = X[:, 0] + rng.normal(size=n)
    if task.has_classes:
        y = np.where(y > np.quantile(y, 1 - share), "yes", "no")
    positive = positive_class(y.tolist()) if task.has_classes else ""
    return TrainingTable(X, y, Columns(()), task, [], positive=positive)


@pytest.mark.parametrize(("share", "name"), [(0.4, "yes"), (0.8, "yes")])
def test_of_the_class_to_find(share, name):
    data = prepared(Target.CLASSES, share)
    estimator, _ = fit(data, FAST)
    chances = estimator.corrected_proba_
    predicted = estimator.classes_[chances.argmax(1)]
    found = {one.name: one for one in of_classes(estimator.evaluation_)}
    is_class = data.y == name
    assert found["sensitivity"].value == pytest.approx((predicted == name)[is_class].mean())
    assert found["specificity"].value == pytest.approx((predicted != name)[~is_class].mean())
    right = metrics.precision_score(data.y, predicted, pos_label=name)
    assert found["positive predictive value"].value == pytest.approx(right)
    assert found["AUC"].value == estimator.estimate("auc").value
    assert all(one.interval[0] < one.value < one.interval[1] for one in found.values())
    assert f"“{name}”" in found["sensitivity"].words
    three, _ = fit(data._replace(y=np.arange(90) % 3, positive=""), FAST)
    assert of_classes(three.evaluation_) == []


def test_of_numbers():
    data = prepared(Target.NUMBERS)
    estimator, _ = fit(data, FAST)
    root, half, score = of_numbers(estimator.evaluation_)
    errors = np.abs(estimator.corrected_prediction_ - data.y)
    assert half.value == np.median(errors)
    assert half.interval[0] < half.value < half.interval[1]
    assert np.square(root.interval) == pytest.approx(estimator.estimated_test_error_interval_)
    assert score.interval == estimator.estimated_r2_interval_
