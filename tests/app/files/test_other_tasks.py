"""Tables that need other methods."""

import numpy as np
import pandas as pd

from decoupled_descent.app.files.other_tasks import several_labels, time_to_event

RNG = np.random.default_rng(0)


def test_several_labels_in_a_cell():
    labels = [";".join(sorted(RNG.choice([*"abcd"], k, replace=False))) for k in [1, 2, 3] * 10]
    assert "separated by ';'" in several_labels(pd.Series(labels, name="tags"))
    assert several_labels(pd.Series(["yes", "no"] * 10, name="y")) == ""
    assert several_labels(pd.Series(["Ulm, Donau", "Bonn, Rhein"] * 10, name="y")) == ""
    assert several_labels(pd.Series([1, 2] * 10, name="y")) == ""


def test_an_event_and_its_time():
    frame = pd.DataFrame({"time_days": RNG.integers(1, 900, 50), "age": 1, "status": [0, 1] * 25})
    note = time_to_event(frame, "status", frame["status"])
    assert "'status' and 'time_days' look like an event and the time until it" in note
    assert "scikit-survival" in note
    assert time_to_event(frame.drop(columns="time_days"), "status", frame["status"]) == ""
    assert time_to_event(frame.rename(columns={"status": "y"}), "y", frame["status"]) == ""


def test_the_time_until_an_event():
    frame = pd.DataFrame({"time": RNG.integers(1, 900, 50), "died": [0, 1] * 25})
    note = time_to_event(frame, "time", frame["time"])
    assert "'died' and 'time' look like an event and the time until it. In rows without" in note
    assert time_to_event(frame.rename(columns={"died": "sex"}), "time", frame["time"]) == ""
