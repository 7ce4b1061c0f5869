"""Checks of single arguments, and the 95 % interval."""

import decimal
import fractions
import math
import re

import numpy as np
import pytest
from scipy import stats

from decoupled_descent.checks import (
    Z95,
    error_interval,
    harmless,
    interval,
    outside,
    percent,
    real_number,
    unbroken,
    whole_number,
)


def test_shares():
    assert percent(1, 8) == "12.5\u00a0%"
    assert percent(np.float64(0.126), decimals=0) == "13\u00a0%"
    assert percent(1, 0) == "–"


def test_a_number_is_not_parted_from_its_sign():
    assert unbroken("95 % of 3 rows, 100% and %s") == "95\u00a0% of 3 rows, 100% and %s"


@pytest.mark.parametrize("value", [1, 7, np.int8(3), np.uint64(2**40)])
def test_whole_numbers(value):
    found = whole_number("steps", value)
    assert type(found) is int
    assert found == value


@pytest.mark.parametrize("value", [0, -3, 1.0, 2.5, True, np.True_, "3", None, math.nan, [1]])
def test_not_whole_numbers(value):
    message = re.escape(f"steps={value!r} must be a whole number of at least 1")
    with pytest.raises(ValueError, match=f"^{message}$"):
        whole_number("steps", value)


def test_limits():
    assert whole_number("folds", 0, least=0) == 0
    assert whole_number("folds", 5, least=2, most=5) == 5
    with pytest.raises(ValueError, match=r"^folds=6 must be .* of at least 2 and at most 5$"):
        whole_number("folds", 6, least=2, most=5)


@pytest.mark.parametrize("value", [0, -1.5, np.float32(0.5), np.int64(3), fractions.Fraction(1, 2)])
def test_real_numbers(value):
    found = real_number("lr", value)
    assert type(found) is float
    assert found == value


@pytest.mark.parametrize("value", [math.nan, math.inf, True, "1", None, 1j, decimal.Decimal(1)])
def test_not_real_numbers(value):
    with pytest.raises(ValueError, match=re.escape(f"lr={value!r} must be a finite number")):
        real_number("lr", value)


def test_intervals_hold_95_percent_of_the_normal_law():
    assert pytest.approx(stats.norm.ppf(0.975), rel=1e-15) == Z95
    low, high = interval(2.0, 3.0)
    assert stats.norm(2, 3).cdf(high) - stats.norm(2, 3).cdf(low) == pytest.approx(0.95, rel=1e-12)


def test_a_warning_names_the_first_line_outside_the_package():
    inside = {"__name__": "decoupled_descent.somewhere", "outside": outside}
    exec("def deep():\n    return outside()\ndef call(f=deep):\n    return f()", inside)
    assert inside["deep"]() == 2
    assert inside["call"]() == 3
    assert outside() == 1


def test_intervals_of_errors_cover_alike_on_both_sides():
    """Means of 30 squared normal errors: symmetric intervals miss large errors far more often."""
    rng = np.random.default_rng(0)
    losses = np.square(rng.normal(size=(4000, 30)))
    means, stderrs = losses.mean(1), losses.std(1, ddof=1) / 30**0.5
    below, above = np.array([error_interval(*one) for one in zip(means, stderrs, strict=True)]).T
    low, high = np.array([interval(*one) for one in zip(means, stderrs, strict=True)]).T
    assert (above < 1).mean() < (high < 1).mean() - 0.01
    assert ((below < 1) & (above > 1)).mean() > ((low < 1) & (high > 1)).mean()
    assert (below > 0).all()


def test_intervals_of_errors_at_the_edges():
    assert error_interval(0.0, 0.0) == (0.0, 0.0)
    low, high = error_interval(1e-3, 1.0)
    assert low == 0
    assert 1 < high < 1e6
    low, high = error_interval(1.0, 1e-9)
    assert (high - low) == pytest.approx(2e-9 * Z95, rel=1e-5)


def test_characters_that_steer_terminals_or_turn_text_are_shown():
    text = "a\x1b[31m\x07\x9b\u202eb\u2066"
    assert harmless(text) == "a\\x1b[31m\\x07\\x9b\\u202eb\\u2066"
    assert harmless("ü\tñ\n") == "ü\tñ\n"
