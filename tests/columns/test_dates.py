"""Styles of dates: recognised by the column, and read alike ever after."""

import pytest

from decoupled_descent.columns import dates


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
