"""The time that a search will take: its order of magnitude, and what it grows with."""

import re

import pytest
import torch

from decoupled_descent.tables.members.boosting import BoostingRecipe
from decoupled_descent.tables.members.catalogue import AUTO
from decoupled_descent.tables.members.gaussian_classes import GAUSSIANS
from decoupled_descent.tables.members.growing import FORESTS
from decoupled_descent.tables.members.interface import TableSize
from decoupled_descent.tables.search import cost
from decoupled_descent.tables.search.cost import in_words
from decoupled_descent.tables.search.search import search_models


def expected_seconds(*given):
    return cost.expected_seconds(*given, speed=1e10)


def test_it_grows_as_the_work_does():
    one, two, four = (expected_seconds(n, [2000], 1) for n in (50_000, 100_000, 200_000))
    assert four - two == pytest.approx(2 * (two - one))  # beside what a sample of the rows takes
    small = expected_seconds(10_000, [2000], 1)
    assert 2 < expected_seconds(10_000, [2000], 5) / small < 5  # several classes: cheaper steps
    assert 20 < expected_seconds(1000, [1000], 40) / expected_seconds(1000, [1000], 1) <= 40
    assert 2 < small / expected_seconds(10_000, [1000], 1) < 8
    assert expected_seconds(10_000, [2000, 50], 1) < 1.05 * small
    square, larger = (expected_seconds(n, [n], 1) for n in (1000, 2000))  # n × n matrices
    assert 3 < larger / square <= 8  # above 1000 rows there is one fit


def test_other_members_count():
    size = TableSize(1000, 20, 1, has_classes=True)
    plain = expected_seconds(1000, [1000], 1)
    others = cost.member_operations(AUTO, size)
    assert others == sum(
        one.operations(size) for one in (*FORESTS, *GAUSSIANS, BoostingRecipe())
    )  # not wide
    assert expected_seconds(1000, [1000], 1, 0, others) == pytest.approx(plain + others / 1e10)
    numbers = size._replace(has_classes=False)
    assert cost.member_operations(AUTO, numbers) == sum(
        one.operations(numbers) for one in (*FORESTS, BoostingRecipe())
    )
    wide = size._replace(columns=5000)
    assert cost.member_operations(AUTO, wide) > cost.member_operations(
        (*FORESTS, *GAUSSIANS, BoostingRecipe()), wide
    )


def test_the_ranking_counts():
    rows = [100, 400, 1000]
    ranked = [expected_seconds(n, [], 1, 16) for n in rows]
    assert ranked[1] / ranked[0] == pytest.approx(64)  # the cube of the rows …
    assert ranked[2] == ranked[1]  # … of which at most 400 take part up to 1000


def test_long_work_is_announced_on_a_terminal_only(monkeypatch, capsys):
    X, y = torch.eye(20, 3).double(), (torch.arange(20) % 2).double()
    monkeypatch.setattr(cost, "product_speed", lambda: 1e5)  # a machine that is very slow
    search_models(X, y, "logistic", features="linear", ridge=1.0, progress=True)
    assert re.search(r"This will take about [\d.]+ hours\.", capsys.readouterr().err)
    search_models(X, y, "logistic", features="linear", ridge=1.0, progress=False)
    assert capsys.readouterr().err == ""


def test_durations_in_words():
    assert in_words(61) == "1 minute"
    assert in_words(150) == "2 minutes"
    assert in_words(7200) == "2.0 hours"
