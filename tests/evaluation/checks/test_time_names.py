"""Names of columns that are times of rows, and those that are other times."""

import pytest

from decoupled_descent.evaluation.checks.time_names import is_other_time, is_time


@pytest.mark.parametrize("name", ["date", "Year", "YEAR_SOLD", "orderDate", "time stamp", "t.time"])
def test_times(name):
    assert is_time(name)
    assert not is_other_time(name)


@pytest.mark.parametrize("name", ["years", "update", "lifetime", "time_to_event", "year built", ""])
def test_no_times(name):
    assert not is_time(name)


def test_dates_of_origin():
    assert is_other_time("Date of birth")
    assert is_other_time("dob")
