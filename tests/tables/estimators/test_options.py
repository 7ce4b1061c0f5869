"""Options, and the method that they imply."""

import pytest

import decoupled_descent as dd
from decoupled_descent.tables.estimators.options import AT_MINIMUM, BY_DESCENT, DESCENT, Options
from decoupled_descent.training.sweeps.methods import METHODS


def test_both_methods_of_auto_exist_and_differ():
    assert METHODS[AT_MINIMUM].minimises
    assert not METHODS[BY_DESCENT].minimises


@pytest.mark.parametrize(
    ("given", "method"),
    [
        ({}, AT_MINIMUM),
        ({"hidden": 3}, BY_DESCENT),
        ({"lr": 0.1}, BY_DESCENT),
        ({"ridge": 1.0}, AT_MINIMUM),
    ],
)
def test_options_of_steps_mean_a_descent(given, method):
    assert dd.DecoupledRegressor(**given)._chosen_method() == method


def test_class_weights_mean_the_minimum():
    assert dd.DecoupledClassifier(class_weight="balanced", lr=0.1)._chosen_method() == AT_MINIMUM


def test_a_value_of_another_type_is_a_change():
    assert Options(early_stopping=1)._changed(*DESCENT) == ["early_stopping"]
    assert Options()._changed(*DESCENT) == []
