"""The time that a search will take: its order of magnitude, and what it grows with."""

import re

import pytest
import torch

from decoupled_descent.selection import cost
from decoupled_descent.selection.cost import expected_seconds, in_words
from decoupled_descent.selection.search import search_models


def test_it_grows_as_the_work_does(monkeypatch):
    monkeypatch.setattr(cost, "_speed", lambda: 1e10)
    one, two, four = (expected_seconds(n, [2000], 1) for n in (50_000, 100_000, 200_000))
    assert four - two == pytest.approx(2 * (two - one))  # beside what a sample of the rows takes
    small = expected_seconds(10_000, [2000], 1)
    assert 2 < expected_seconds(10_000, [2000], 5) / small < 5  # several classes: cheaper steps
    assert 20 < expected_seconds(1000, [1000], 40) / expected_seconds(1000, [1000], 1) <= 40
    assert 2 < small / expected_seconds(10_000, [1000], 1) < 8
    assert expected_seconds(10_000, [2000, 50], 1) < 1.05 * small
    square, larger = (expected_seconds(n, [n], 1) for n in (1000, 2000))  # n × n matrices
    assert 6 < larger / square <= 8


def test_long_work_is_announced_on_a_terminal_only(monkeypatch, capsys):
    from decoupled_descent.selection import search as module

    X, y = torch.eye(20, 3).double(), (torch.arange(20) % 2).double()
    monkeypatch.setattr(module, "QUICK", 0)
    monkeypatch.setattr(cost, "_speed", lambda: 10.0)  # a machine that is very slow
    search_models(X, y, "logistic", features="linear", ridge=1.0, progress=True)
    assert re.search(r"This will take about [\d.]+ hours\.", capsys.readouterr().err)
    search_models(X, y, "logistic", features="linear", ridge=1.0, progress=False)
    assert capsys.readouterr().err == ""


def test_durations_in_words():
    assert in_words(61) == "1 minute"
    assert in_words(150) == "2 minutes"
    assert in_words(7200) == "2.0 hours"
