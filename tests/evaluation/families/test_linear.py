"""What linear models have in common: shares of classes, early ends of training."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

import decoupled_descent as dd
from tests.evaluation.families.problems import EXACT, by_refits, classes


def test_without_signal_decisions_are_right_in_half_of_the_rows():
    """Without the shares of the classes kept, hardly any decision would be right."""
    right, areas, plain = [], [], []
    for seed in range(10):
        rows = np.random.default_rng(seed).normal(size=(40, 3))
        labels = np.arange(40) % 2
        model = LogisticRegression(C=1e-4, **EXACT).fit(rows, labels)
        evaluation = dd.evaluate(model, rows, labels, refits=0)
        right.append(evaluation.estimate("accuracy").value)
        areas.append(evaluation.estimate("auc").value)
        every = dd.evaluate(model, rows, labels, refits=40)
        assert every.error == pytest.approx(evaluation.error, rel=1e-4)
        assert every.estimate("accuracy").value == pytest.approx(right[-1], abs=0.026)
        plain.append(np.mean(by_refits(model, rows, labels).argmax(1) == labels))
    assert np.mean(plain) < 0.1
    for values in (right, areas):
        assert np.mean(values) == pytest.approx(0.5, abs=4 * np.std(values) / 10**0.5)


def test_an_early_end_of_training_is_seen_by_refits():
    """Such a model is not at its minimum, which is no sign of other rows."""
    A, two = classes(100)
    model = LogisticRegression(C=1e4, max_iter=3)
    with pytest.warns(ConvergenceWarning):
        model.fit(A, two)
    evaluation, every = dd.evaluate(model, A, two), dd.evaluate(model, A, two, refits=100)
    assert evaluation.refits >= 4
    assert abs(evaluation.error - every.error) < every.stderr
