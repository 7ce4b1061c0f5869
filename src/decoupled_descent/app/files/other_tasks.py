"""Tables for which other methods are made: several labels per row, and times to an event."""

from __future__ import annotations

import re
from collections import Counter

import pandas as pd

from decoupled_descent.tables.columns.values import is_number

#: Separators of several labels in one cell.
SEPARATORS = (";", "|", ",", "/", "+")
#: The least share of rows with several labels.
OFTEN = 0.2
EVENT = re.compile(
    r"(?i)(^|[\W_])(event|events|status|death|dead|died|censored|censor|relapse|failure)$"
)
DURATION = re.compile(
    r"(?i)(^|[\W_])(time|duration|followup|follow_up|futime|survival|tte|days|months)([\W_]|$)"
)


def several_labels(labels: pd.Series) -> str:
    """Say what to do if cells of the target hold several labels; empty otherwise.

    Example:
        >>> several_labels(pd.Series(["a;b", "a", "b;c", "c"], name="tags"))[:39]
        "'tags' seems to hold several labels per"
    """
    if is_number(labels.dtype):
        return ""
    texts = {str(text): int(count) for text, count in labels.value_counts().items()}
    for separator in SEPARATORS:
        several, counts = 0, Counter[str]()
        for text, count in texts.items():  # few texts stand for many rows
            parts = [part.strip() for part in text.split(separator)]
            several += count * (len(parts) > 1)
            for part in filter(None, parts):
                counts[part] += count
        repeated = sum(count for count in counts.values() if count > 1)
        often = several >= OFTEN * sum(texts.values()) and repeated > 0.9 * counts.total()
        if often and len(counts) < len(texts):
            return (
                f"{labels.name!r} seems to hold several labels per row, separated by {separator!r}"
                ": make a yes/no column of each label (scikit-learn's MultiLabelBinarizer), and "
                "train one model for each"
            )
    return ""


def time_to_event(frame: pd.DataFrame, target: str, labels: pd.Series) -> str:
    """Say what to use if the target is an event or its time, and a column the other one."""
    if is_number(labels.dtype) and DURATION.search(target):
        for name in frame.columns:
            if name != target and EVENT.search(str(name)) and frame[name].nunique() == 2:
                return (
                    f"{name!r} and {target!r} look like an event and the time until it. In rows "
                    "without the event, the time is only known to be longer; for that use a "
                    "survival model (lifelines, scikit-survival)"
                )
    if not EVENT.search(target) or labels.nunique() != 2:
        return ""
    for name in frame.columns:
        column = frame[name]
        numbers = is_number(column.dtype) and DURATION.search(str(name)) and name != target
        if numbers and bool((column.dropna() >= 0).all()) and column.nunique() > 10:
            return (
                f"{target!r} and {name!r} look like an event and the time until it. This model "
                "does not know that rows without the event were watched for different times; for "
                "that use a survival model (lifelines, scikit-survival), or leave the time out: "
                f"--drop {name}"
            )
    return ""
