"""Architectures, and what a warm start needs."""

import pytest

import decoupled_descent as dd
from decoupled_descent.tables.estimators.network_training import architecture, starting_head


@pytest.mark.parametrize(
    ("hidden", "outputs", "widths"),
    [("auto", 1, [8]), ("auto", 5, [20]), ((3, 2), 1, [3, 2]), (4, 3, [4])],
)
def test_widths(hidden, outputs, widths):
    options = dd.DecoupledClassifier(hidden)
    wanted = architecture(options, outputs)
    assert wanted == (None, widths, "tanh")
    assert starting_head(options, wanted, outputs, 0).width == widths[0]


def test_a_head_of_the_user_replaces_the_widths():
    head = dd.heads.TwoLayer(3, seed=0)
    options = dd.DecoupledRegressor(7, head=head)
    assert architecture(options, 1) == (head,)
    assert starting_head(options, (head,), 1, 0) is head


@pytest.mark.parametrize("hidden", [0, (), "wide", (3, -1), 2.5])
def test_widths_that_are_none(hidden):
    with pytest.raises(ValueError, match="must be a width, several, or 'auto'"):
        architecture(dd.DecoupledRegressor(hidden), 1)
