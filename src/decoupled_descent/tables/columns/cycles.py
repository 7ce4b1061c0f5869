r"""Cycles of dates: the hour of the day, the day of the week, the season of the year.

Each cycle is two columns, :math:`\sin 2\pi f` and :math:`\cos 2\pi f`, f being the part of the
cycle that has passed. So midnight is near 23:00, and December near January.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Dates = NDArray[np.datetime64]

HOUR, WEEKDAY, SEASON = "hour", "weekday", "season"
CYCLES = (HOUR, WEEKDAY, SEASON)
#: A cycle is used if the dates cover this number of days: it must come back at least once.
LONG = {HOUR: 2.0, WEEKDAY: 14.0, SEASON: 548.0}
#: The fewest different parts of a cycle that must occur.
DIFFERENT = {HOUR: 3, WEEKDAY: 3, SEASON: 3}
DAY = np.timedelta64(1, "D")


def fractions(dates: Dates, cycle: str) -> Floats:
    """The part of a cycle that has passed at each date, from 0 to 1; nan where it is missing.

    Example:
        >>> monday_noon = np.array(["2024-01-01T12:00"], dtype="datetime64[us]")
        >>> [float(fractions(monday_noon, cycle)[0].round(3)) for cycle in CYCLES]
        [0.5, 0.0, 0.001]
    """
    days = dates.astype("datetime64[D]")
    if cycle == HOUR:
        return np.asarray((dates - days) / DAY, np.float64)
    if cycle == WEEKDAY:
        numbers = np.where(np.isnat(days), np.nan, days.astype(np.int64) + 3.0)  # 1970: Thursday
        return np.asarray(numbers % 7 / 7, np.float64)
    years = days.astype("datetime64[Y]")
    start = years.astype("datetime64[D]")
    length = (years + np.timedelta64(1, "Y")).astype("datetime64[D]") - start
    return np.asarray((dates - start) / DAY / (length / DAY), np.float64)


def learn_cycles(dates: Dates) -> tuple[str, ...]:
    """The cycles that dates show."""
    present = dates[~np.isnat(dates)]
    span = float((present.max() - present.min()) / DAY) if len(present) else 0.0
    days = present.astype("datetime64[D]")
    monthly = bool((days == days.astype("datetime64[M]").astype("datetime64[D]")).all())
    learnt = []
    for cycle in CYCLES:
        if cycle == WEEKDAY and monthly:  # the first of a month stands for the month
            continue
        parts = np.unique(np.round(fractions(present, cycle), 6))
        if span >= LONG[cycle] and len(parts) >= DIFFERENT[cycle]:
            learnt.append(cycle)
    return tuple(learnt)


def cycle_columns(dates: Dates, cycles: tuple[str, ...]) -> Floats:
    """Sine and cosine of each cycle, shape (n, 2 × cycles); 0 where the date is missing."""
    columns = []
    for cycle in cycles:
        angle = 2 * np.pi * fractions(dates, cycle)
        columns += [np.sin(angle), np.cos(angle)]
    made = np.stack(columns, 1) if columns else np.empty((len(dates), 0))
    return np.where(np.isnan(made), 0.0, made)
