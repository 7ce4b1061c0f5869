"""The table of methods: what can be built from it, and with which settings."""

import inspect

import pytest

from decoupled_descent.training.sweeps.methods import METHODS, check_method

VALUES = {"lr": 0.3, "damping": 0.9, "ridge": 2.0}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_builds_its_algorithm_from_its_settings(name):
    method = check_method(name)
    algorithm = method.build(**{key: VALUES[key] for key in method.settings})
    assert {key: algorithm.settings[key] for key in method.settings} == {
        key: VALUES[key] for key in method.settings
    }
    assert getattr(algorithm, "reduction", "mean") == "mean"
    given = list(inspect.signature(method.build).parameters)
    assert given[: len(method.settings)] == list(method.settings)


def test_settings_are_those_of_some_method():
    assert set(VALUES) == {key for method in METHODS.values() for key in method.settings}


def test_only_gradient_descent_says_that_it_estimates_nothing():
    built = {
        name: method.build(**{key: VALUES[key] for key in method.settings})
        for name, method in METHODS.items()
    }
    silent = {name for name, algorithm in built.items() if not algorithm.estimates_test_error}
    assert silent == {"gradient"}


def test_unknown_methods_are_listed():
    with pytest.raises(
        ValueError, match="method='sgd' must be one of newton, orthogonal, decoupled"
    ):
        check_method("sgd")
