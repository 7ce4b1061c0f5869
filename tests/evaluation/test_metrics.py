"""Every metric that has a name is a function of means; its values are in test_estimate.py."""

from __future__ import annotations

import numpy as np
import pytest

from decoupled_descent.evaluation.metrics import METRICS


@pytest.mark.parametrize("name", METRICS)
def test_rows_and_means_have_matching_shapes(name):
    generator, metric = np.random.default_rng(0), METRICS[name]
    count = 2 if name in ("sensitivity", "specificity", "ppv", "npv") else 3
    y = np.arange(12) % count if metric.classifies else generator.normal(size=12)
    shares = generator.dirichlet(np.ones(3), 12)
    rows = metric.rows(y, shares if metric.classifies and count > 2 else shares[:, 0])
    assert rows.shape[0] == 12
    stacked = np.stack([rows.mean(0), rows[:6].mean(0)])
    assert metric.value(stacked).shape == (2,)
    assert metric.value(stacked)[0] == pytest.approx(float(metric.value(rows.mean(0))))


@pytest.mark.parametrize("name", ["sensitivity", "specificity", "ppv", "npv"])
def test_metrics_of_two_classes(name):
    with pytest.raises(ValueError, match="are for two classes"):
        METRICS[name].rows(np.arange(3), np.eye(3))


def test_several_values_per_row_are_averaged():
    y, said = np.zeros((4, 2)), np.ones((4, 2))
    assert METRICS["mse"].rows(y, said).tolist() == [[1.0]] * 4


def test_a_class_without_rows_does_not_count():
    rows = METRICS["balanced_accuracy"].rows(np.array([0, 0, 1]), np.array([0.1, 0.9, 0.9]))
    value = METRICS["balanced_accuracy"].value
    assert value(rows.mean(0)) == pytest.approx(0.75)
    assert value(rows[:2].mean(0)) == pytest.approx(0.5)
