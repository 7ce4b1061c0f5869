"""Which combinations a sweep has, and what they are called."""

import pytest

import decoupled_descent as dd
from decoupled_descent.training.sweeps.configurations import combine
from tests.problems import normal, two_layer

DD = dd.DecoupledDescent


def names(objective, algorithms, seed=0):
    return [each.name for each in combine(objective, algorithms, None, seed)]


def test_every_combination_once():
    objectives = {"narrow": two_layer(3), "wide": two_layer(5)}
    result = combine(objectives, {"slow": DD(0.1), "fast": DD(0.5)}, None, [0, 1])
    assert [each.name for each in result] == [
        f"{head}, {method}, seed={seed}"
        for head in objectives
        for method in ("slow", "fast")
        for seed in (0, 1)
    ]
    assert [each.algorithm.lr for each in result] == [0.1, 0.1, 0.5, 0.5] * 2
    assert [each.objective for each in result] == [objectives["narrow"]] * 4 + [
        objectives["wide"]
    ] * 4


def test_names_say_what_sets_a_run_apart():
    assert names(two_layer(3), DD(0.1)) == ["DecoupledDescent"]
    assert names(two_layer(3), [DD(0.1), DD(0.5)]) == ["lr=0.1", "lr=0.5"]
    mixed = [DD(0.1), dd.OrthogonalDecoupledDescent(0.1, 1.0, ridge=2.0)]
    assert names(two_layer(3), mixed) == [
        "DecoupledDescent",
        "OrthogonalDecoupledDescent ridge=2",
    ]
    assert names(two_layer(3), [DD(0.1), DD(0.1)]) == [
        "DecoupledDescent #0",
        "DecoupledDescent #1",
    ]
    assert names([two_layer(3), two_layer(5)], DD(0.1)) == ["TwoLayer L=3", "TwoLayer L=5"]


def test_a_start_for_all_or_one_for_each_objective():
    theta, other = normal(3, 16), normal(3, 16, seed=1)
    objectives = [two_layer(3), two_layer(3)]
    assert all(each.theta is theta for each in combine(objectives, DD(0.1), theta, 0))
    starts = [each.theta for each in combine(objectives, DD(0.1), [theta, other], 0)]
    assert starts[0] is theta
    assert starts[1] is other
    with pytest.raises(ValueError, match="theta has 1 entries for 2 objectives"):
        combine(objectives, DD(0.1), [theta], 0)


def test_what_is_refused():
    with pytest.raises(ValueError, match="at least one objective, one algorithm and one seed"):
        combine(two_layer(3), [], None, 0)
    for given in ("sgd", [DD(0.1), "sgd"], {"a": DD(0.1), "b": "sgd"}):
        with pytest.raises(ValueError, match="algorithm='sgd' must be an Algorithm"):
            combine(two_layer(3), given, None, 0)
    with pytest.raises(ValueError, match=r"seed=0\.5 must be a whole number"):
        combine(two_layer(3), DD(0.1), None, 0.5)
