"""Options that both estimators check before they look at the rows."""

import pytest

import decoupled_descent as dd
from tests.tables.estimators.problems import real


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ridge": "strong"}, "ridge='strong' must be a number or 'auto'"),
        ({"ridge": True}, "ridge=True must be a number or 'auto'"),
        ({"ridge": None}, "ridge=None must be a number or 'auto'"),
        ({"time_limit": -1}, "time_limit=-1 must be"),
    ],
)
def test_wrong_options_are_one_clear_line(options, message):
    with pytest.raises(ValueError, match=message):
        dd.DecoupledRegressor(**options).fit(*real(30))


def test_the_same_seed_is_drawn_for_the_same_state():
    assert (
        dd.DecoupledRegressor(random_state=3)._seed()
        == dd.DecoupledRegressor(random_state=3)._seed()
    )
