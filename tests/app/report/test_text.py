"""How numbers, intervals, values and tables are written."""

import math

import pytest
from scipy import stats

from decoupled_descent.app.report.text import (
    as_text,
    column,
    interval,
    number,
    together,
    tone,
    written_interval,
)

NAN, INF = float("nan"), float("inf")


def test_numbers_in_words():
    assert number(0.0) == "0"
    assert number(-0.05) == "−0.05"
    assert number(1234567.0) == "1.235 × 10⁶"
    assert together([12345.6, 12001.2], 151.0) == ["12,346", "12,001"]
    assert together([-0.004, 0.2], 0.3) == ["0.00", "0.20"]  # and not −0.00
    assert together([0.5], float("nan")) == ["0.5"]
    assert together([NAN], 0.1) == ["undefined"]
    large = [" ".join(text.split()) for text in together([1.2e9, 1.21e9], 1.2e7)]
    assert large == ["1.200 × 10⁹", "1.210 × 10⁹"]


def test_intervals_are_those_of_the_normal_law():
    low, high = stats.norm.interval(0.95, loc=0.5, scale=0.1)
    assert interval(0.5, 0.1) == pytest.approx((0.5, low, high))
    assert interval(0.1, 0.1)[1] == 0
    assert interval(0.9, 0.1, high=1.0)[2] == 1
    assert interval(-0.1, 0.01)[1] == -0.1  # an estimate below 0 is not moved
    for value, stderr in ((0.5, None), (0.5, NAN), (0.5, INF), (NAN, 0.1)):
        assert len(interval(value, stderr)) == 1


def test_an_interval_is_written_in_one_way():
    assert written_interval(interval(0.9, 0.02), percent=True) == (
        "90.0\u00a0%",
        "95\u00a0% interval 86.1\u00a0% to 93.9\u00a0%",
    )
    assert written_interval((NAN,)) == ("undefined", "no interval")


def test_values_are_harmless_and_cut():
    assert as_text([None, True, 1.5, "<i>"]) == "–, yes, 1.5, <i>"
    assert as_text("x" * 1000).endswith("x…")
    assert as_text("a\x1b[31m\u202eb") == "a\\x1b[31m\\u202eb"
    assert tone("note") == tone("unheard of") == ("plain", "·")


def test_columns_of_very_different_size_keep_their_own_decimals():
    assert column([0.5, math.inf, "x"]) == ["0.5", "∞", "x"]
    assert column([1e-6, 1.0]) == ["10⁻⁶", "1"]
