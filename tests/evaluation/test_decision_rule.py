"""Decisions."""

import numpy as np

from decoupled_descent.evaluation.decision_rule import DecisionRule

CHANCES = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]])


def test_the_threshold_is_for_the_class_to_find():
    assert DecisionRule().decide(CHANCES).tolist() == [0, 0, 1]
    assert DecisionRule(0.3).decide(CHANCES).tolist() == [0, 1, 1]
    assert DecisionRule(0.2, positive=0).decide(CHANCES).tolist() == [0, 0, 0]
    assert DecisionRule(0.8, positive=0).decide(CHANCES).tolist() == [0, 1, 1]


def test_several_classes_have_no_threshold():
    chances = np.array([[0.3, 0.3, 0.4], [0.5, 0.2, 0.3]])
    assert DecisionRule(0.1).decide(chances).tolist() == [2, 0]
    assert DecisionRule().is_usual
    assert not DecisionRule(0.4).is_usual
