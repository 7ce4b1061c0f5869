"""Every metric that has a name is a function of means; its values are in test_estimation.py."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from decoupled_descent.evaluation.metrics import METRICS, Takes


@pytest.mark.parametrize("name", METRICS)
def test_rows_and_means_have_matching_shapes(name):
    generator, metric = np.random.default_rng(0), METRICS[name]
    count = 2 if name in ("sensitivity", "specificity", "ppv", "npv") else 3
    y = generator.normal(size=12) if metric.takes is Takes.NUMBERS else np.arange(12) % count
    y = y % 1 if name.endswith("deviance") else y
    shares = generator.dirichlet(np.ones(3), 12)
    given = {Takes.NUMBERS: shares[:, 0], Takes.PROBABILITIES: shares}
    rows = metric.rows(y, given.get(metric.takes, generator.integers(0, count, 12)))
    assert rows.shape[0] == 12
    stacked = np.stack([rows.mean(0), rows[:6].mean(0)])
    assert metric.value(stacked).shape == (2,)
    assert metric.value(stacked)[0] == pytest.approx(float(metric.value(rows.mean(0))))


@pytest.mark.parametrize(("name", "limits"), [("poisson", "0 to inf"), ("binomial", "0 to 1")])
def test_deviances_are_for_labels_in_a_range(name, limits):
    with pytest.raises(ValueError, match=f"y runs from -1 to 2, but .* {limits}; use 'mse'"):
        METRICS[f"{name}_deviance"].rows(np.array([-1.0, 2.0]), np.ones(2))


@pytest.mark.parametrize("name", ["sensitivity", "specificity", "ppv", "npv"])
def test_metrics_of_two_classes(name):
    with pytest.raises(ValueError, match="are for two classes"):
        METRICS[name].rows(np.arange(3), np.arange(3))


def test_weighted_kappa_is_that_of_scikit_learn():
    generator, metric = np.random.default_rng(1), METRICS["weighted_kappa"]
    grades = generator.integers(0, 5, 60)
    said = np.clip(grades + generator.integers(-1, 2, 60), 0, 4)
    expected = cohen_kappa_score(grades, said, weights="quadratic")
    found = float(metric.value(metric.rows(grades, said).mean(0)))
    assert found == pytest.approx(expected, rel=1e-12)


def test_several_values_per_row_are_averaged():
    y, said = np.zeros((4, 2)), np.ones((4, 2))
    assert METRICS["mse"].rows(y, said).tolist() == [[1.0]] * 4


def test_a_class_without_rows_does_not_count():
    rows = METRICS["balanced_accuracy"].rows(np.array([0, 0, 1]), np.array([0, 1, 1]))
    value = METRICS["balanced_accuracy"].value
    assert value(rows.mean(0)) == pytest.approx(0.75)
    assert value(rows[:2].mean(0)) == pytest.approx(0.5)
