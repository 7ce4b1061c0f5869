"""Styles of dates: recognised by the column, and read alike ever after."""

import numpy as np
import pandas as pd
import pytest

from decoupled_descent.tables.columns import dates
from decoupled_descent.tables.columns.rules import Columns


def test_a_style_is_learnt_and_applied():
    """What was learnt decides, whatever a later file would suggest."""
    assert dates.iso_dates(["01/02/2024"], dates.DAY) == ["2024-02-01"]
    assert dates.iso_dates(["01/02/2024"], dates.MONTH) == ["2024-01-02"]


@pytest.mark.parametrize(
    ("texts", "style"),
    [
        (["31/01/2024", "01/02/2024"], dates.DAY),
        (["01/31/2024", "02/01/2024"], dates.MONTH),
        (["01.02.2024"], dates.DAY),
        (["01/02/2024", "03/04/2024"], ""),
        (["31/01/2024", "01/31/2024"], ""),
        (["2024/01/31"], dates.YEAR),
        (["2024-01-31"], ""),
        (["31/01/24"], ""),
        (["red"], ""),
        ([], ""),
        (["2024-01-31", "31.01.2024"], dates.DAY),
        (["2024-01-31", "31 Jan 2024", "01/31/2024"], dates.MONTH),
        (["5/31/2024 1:05 PM", "6/1/2024 9:00 AM"], dates.MONTH),
    ],
)
def test_dates(texts, style):
    assert dates.date_style(texts) == style


@pytest.mark.parametrize(
    ("text", "style", "result"),
    [
        ("5 Jan 2024", "", "2024-01-05"),
        ("05-Jan-2024", "", "2024-01-05"),
        ("January 5, 2024", "", "2024-01-05"),
        ("Sept. 5, 2024 8:15", "", "2024-09-05 08:15"),
        ("5 Foo 2024", "", "5 Foo 2024"),
        ("2024-05-31", dates.DAY, "2024-05-31"),
        ("2024/5/31", dates.DAY, "2024-05-31"),
        ("5/31/2024 1:05 PM", dates.MONTH, "2024-05-31 13:05"),
        ("5/31/2024 12:05 am", dates.MONTH, "2024-05-31 00:05"),
        ("31.05.2024 9:05", dates.DAY, "2024-05-31 09:05"),
        ("31.05.24", dates.DAY, "31.05.24"),
    ],
)
def test_ways_to_write_a_date(text, style, result):
    assert dates.iso_dates([text], style) == [result]


def test_months_are_dates_and_seasons_are_not():
    months = [f"{year}-{month:02}" for year in (2019, 2020, 2021) for month in range(1, 13)]
    table = pd.DataFrame({"month": months, "a": np.arange(36.0) ** 2})
    columns = Columns.learn(table)
    assert columns.columns[0].kind == "date"
    assert columns.columns[0].cycles == ("season",)  # weekdays of the first of a month say nothing
    made = columns.apply(pd.DataFrame({"month": ["2019-01", "2019-02", "2020-01"], "a": 1.0}))
    assert made[:, 0].tolist() == [0.0, 31.0, 365.0]
    seasons = [f"20{k:02}-{k + 1:02}" for k in range(8, 12)] * 9
    assert Columns.learn(table.assign(month=seasons)).columns[0].kind == "category"
    assert Columns.from_dict(columns.to_dict()) == columns
