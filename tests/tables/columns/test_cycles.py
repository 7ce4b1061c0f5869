"""Hours, weekdays and seasons of dates."""

import datetime

import numpy as np
import pandas as pd

import decoupled_descent as dd
from decoupled_descent.tables.columns.cycles import CYCLES, cycle_columns, fractions, learn_cycles
from decoupled_descent.tables.columns.rules import Columns


def dates(*texts):
    return np.array(texts, dtype="datetime64[us]")


def test_fractions_are_those_of_the_calendar():
    moments = pd.date_range("1968-02-27 05:20", periods=400, freq="61h").to_numpy()
    moments = moments.astype("datetime64[us]")
    for moment, *found in zip(
        moments.tolist(), *(fractions(moments, one) for one in CYCLES), strict=True
    ):
        start = datetime.datetime(moment.year, 1, 1)
        year = datetime.datetime(moment.year + 1, 1, 1) - start
        day = moment - moment.replace(hour=0, minute=0, second=0)
        expected = day / datetime.timedelta(1), moment.weekday() / 7, (moment - start) / year
        np.testing.assert_allclose(found, expected, atol=1e-10)


def test_cycles_that_come_back_are_used():
    days = pd.date_range("2024-01-01", periods=40).to_numpy().astype("datetime64[us]")
    assert learn_cycles(days[:13]) == ()
    assert learn_cycles(days) == ("weekday",)
    assert learn_cycles(days[::7]) == ()  # always the same weekday
    hours = pd.date_range("2024-01-01", periods=900, freq="h").to_numpy().astype("datetime64[us]")
    assert learn_cycles(hours) == ("hour", "weekday")
    months = pd.date_range("2020-01-01", periods=30, freq="MS").to_numpy()
    assert learn_cycles(months.astype("datetime64[us]")) == ("season",)  # no weekdays of months
    assert learn_cycles(dates("NaT", "NaT")) == ()


def test_missing_dates_are_in_the_middle_of_the_circle():
    made = cycle_columns(dates("2024-01-01", "NaT"), ("weekday",))
    np.testing.assert_allclose(made, [[0, 1], [0, 0]], atol=1e-12)


def test_a_weekly_pattern_is_learnt():
    rng = np.random.default_rng(0)
    days = pd.date_range("2023-01-01", periods=500)
    effect = rng.normal(size=7)[days.day_of_week]
    table = pd.DataFrame({"day": days, "other": rng.normal(size=500)})
    y = effect + 0.3 * rng.normal(size=500)
    model = dd.DecoupledRegressor(features=["linear", "rbf"]).fit(table[:400], y[:400])
    assert model.columns_.names[:3] == ["day", "day_weekday_sin", "day_weekday_cos"]
    best = 1 - 0.09 / y.var()
    assert model.score(table[400:], y[400:]) > 0.85 * best


def test_rules_of_dates_are_stored():
    days = pd.date_range("2023-01-01", periods=30)
    learnt = Columns.learn(pd.DataFrame({"day": days.strftime("%d.%m.%Y"), "a": range(5, 35)}))
    assert "into columns for the weekday" in learnt.notes[0]
    assert Columns.from_dict(learnt.to_dict()) == learnt
