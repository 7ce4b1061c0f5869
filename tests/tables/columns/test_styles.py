"""Styles of numbers: recognised by the column, and read alike ever after."""

import math

import numpy as np
import pandas as pd
import pytest

from decoupled_descent.tables.columns import styles


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
        (["0,123", "0,456"], styles.EUROPEAN, [0.123, 0.456]),
        (["626.146 €", "1.250.000 €"], styles.EUROPEAN, [626146, 1250000]),
        (["626.146 €", "95.5 €"], styles.ENGLISH, [626.146, 95.5]),
        (["USD 1,200.50", "EUR 7"], styles.ENGLISH, [1200.5, 7]),
        (["4,42E+03", "1,1E-2"], styles.EUROPEAN, [4420, 0.011]),
        (["85 kg", "1,234.5 KG", "7"], "1,234.5 kg", [85, 1234.5, 7]),
        (["1 yr", "2 yrs", "7 yrs."], "1,234.5 yr", [1, 2, 7]),
        (["149,1 m²", "1.020,0 m²"], "1.234,5 m²", [149.1, 1020]),
        (["20 °C", "-5 °C"], "1,234.5 °C", [20, -5]),
        (["1 kg", "500 g"], "", [np.nan, np.nan]),
        (["316L", "304L"], "", [np.nan, np.nan]),
        (["5a", "5b"], "", [np.nan, np.nan]),
        (["<0.5", "1.5", "2"], styles.ENGLISH, [0.5, 1.5, 2]),
        (["<5", ">5"], "", [np.nan, np.nan]),
        (["8:30", "12:05:36"], styles.CLOCK, [8.5, 12.0933333333333333]),
    ],
)
def test_numbers(texts, style, numbers):
    assert styles.number_style(texts) == style
    np.testing.assert_allclose(styles.read_numbers(texts, style), numbers, rtol=1e-12)
    assert styles.is_number_style(style)


def test_units_are_not_mixed():
    """Signs are units: a column of percentages and kilograms has no style for both."""
    assert styles.number_style(["85 kg", "7.5", "3 kg"]) == "1,234.5 kg"
    assert styles.number_style(["5 %", "6 %", "7 kg"]) == styles.ENGLISH
    assert np.isnan(styles.read_numbers(["7 kg"], styles.ENGLISH)).all()
    assert styles.number_style(["$5", "7 kg"]) == styles.ENGLISH


def test_a_style_is_learnt_and_applied():
    """What was learnt decides, whatever a later file would suggest."""
    assert styles.read_numbers(["1,234"], styles.EUROPEAN).tolist() == [1.234]
    assert styles.read_numbers(["1,234"], styles.ENGLISH).tolist() == [1234.0]


def test_the_mark_of_the_file():
    """Where a column can be read in two ways, the rest of the file decides."""
    assert styles.number_style(["1.234", "987"]) == ""
    assert styles.number_style(["1.234", "987"], ",") == styles.EUROPEAN
    assert styles.number_style(["1.234 kg", "2.500 kg"], ",") == "1.234,5 kg"
    assert styles.number_style(["1,234", "987"], ",") == styles.EUROPEAN
    assert styles.number_style(["$1,234.50", "987"], ",") == styles.ENGLISH


@pytest.mark.parametrize("style", ["1,234.5 5", "12:30 kg", "1,234.5  kg", "x", "1,234.5 kg\n"])
def test_no_style(style):
    assert not styles.is_number_style(style)


def test_texts_without_digits_are_no_numbers_but_infinity_is():
    result = styles.plain_numbers(["inf", "-Infinity", "nan", "x", ""])
    assert result.tolist()[:2] == [math.inf, -math.inf]
    assert np.isnan(result[2:]).all()
    assert np.isnan(styles.plain_numbers(["a", "١x", "-"])).all()
    assert styles.plain_numbers([]).tolist() == []


def test_plain_numbers_are_those_of_pandas():
    texts = [
        "1", " 1.5 ", "-.5", "+5.", "1e-3", "2E+10", "inf", "-Infinity", "nan", "", ".", "1_000",
        "1,5", "0x10", "1e", "--1", "1 2", "e5", "infinite", "١٢", "9" * 30, "1e400", "01067",
    ]  # fmt: skip
    wanted = pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce").to_numpy(float)
    np.testing.assert_allclose(styles.plain_numbers(texts), wanted, rtol=1e-15)
