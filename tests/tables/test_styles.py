"""Styles of numbers and dates: recognised by the column, and read alike ever after."""

import math

import numpy as np
import pytest

from decoupled_descent.tables import styles


@pytest.mark.parametrize(
    ("texts", "style", "numbers"),
    [
        (["$1,234.50", "-$5", "$-6", "17"], styles.ENGLISH, [1234.5, -5, -6, 17]),
        (["12%", "3.5 %", "0"], styles.ENGLISH, [12, 3.5, 0]),
        (["(1,000)", "2,000"], styles.ENGLISH, [-1000, 2000]),
        (["1.234,50 €", "2.000", "7"], styles.EUROPEAN, [1234.5, 2000, 7]),
        (["1,5", "2,25"], styles.EUROPEAN, [1.5, 2.25]),
        (["1'005", "12 000"], styles.ENGLISH, [1005, 12000]),
        (["1,234", "5,678"], styles.ENGLISH, [1234, 5678]),
        (["1.5", "1e-3", "-2"], "", [1.5, 0.001, -2]),
        (["red", "blue"], "", [np.nan, np.nan]),
        (["$", "%", "()", "-"], styles.ENGLISH, [np.nan] * 4),
        ([], "", []),
    ],
)
def test_numbers(texts, style, numbers):
    assert styles.number_style(texts) == style
    np.testing.assert_array_equal(styles.read_numbers(texts, style), numbers)


def test_a_style_is_kept():
    """What was learnt decides, whatever a later file would suggest."""
    assert styles.read_numbers(["1,234"], styles.EUROPEAN).tolist() == [1.234]
    assert styles.read_numbers(["1,234"], styles.ENGLISH).tolist() == [1234.0]
    assert styles.iso_dates(["01/02/2024"], styles.DAY) == ["2024-02-01"]
    assert styles.iso_dates(["01/02/2024"], styles.MONTH) == ["2024-01-02"]


@pytest.mark.parametrize(
    ("texts", "style"),
    [
        (["31/01/2024", "01/02/2024"], styles.DAY),
        (["01/31/2024", "02/01/2024"], styles.MONTH),
        (["01.02.2024"], styles.DAY),
        (["01/02/2024", "03/04/2024"], ""),
        (["31/01/2024", "01/31/2024"], ""),
        (["2024/01/31"], styles.YEAR),
        (["2024-01-31"], ""),
        (["31/01/24"], ""),
        (["red"], ""),
        ([], ""),
    ],
)
def test_dates(texts, style):
    assert styles.date_style(texts) == style


def test_texts_without_digits_are_no_numbers_but_infinity_is():
    found = styles.plain_numbers(["inf", "-Infinity", "nan", "x", ""])
    assert found.tolist()[:2] == [math.inf, -math.inf]
    assert np.isnan(found[2:]).all()
    assert np.isnan(styles.plain_numbers(["a", "١x", "-"])).all()
    assert styles.plain_numbers([]).tolist() == []
