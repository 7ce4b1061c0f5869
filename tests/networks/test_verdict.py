"""Verdicts on networks: what lowers them."""

import math

import pytest
import torch

from decoupled_descent.networks.verdict import folds_verdict, path_verdict, rows_behind

EVEN = torch.linspace(0, 1, 100)
QUIET = {"drift": 0.0, "lost": 0.0, "lost_error": 0.0}


@pytest.mark.parametrize(
    ("drift", "verdict"),
    [(0.0, "trust"), (0.014, "trust"), (-0.02, "caution"), (0.07, "do not trust"),
     (math.nan, "do not trust"), (math.inf, "do not trust")],
)  # fmt: skip
def test_a_path_is_trusted_if_its_own_error_is_small(drift, verdict):
    for notes in ({"drift": drift}, {"lost_error": abs(drift), "lost": 3.0}):
        found, reasons = path_verdict(100, 50.0, 0.03, QUIET | notes)
        assert found == verdict
        assert len(reasons) == (verdict != "trust")


@pytest.mark.parametrize(
    ("notes", "verdict"),
    [
        ({"copies": 0.6, "alike": 0.1}, "trust"),  # few columns with few values
        ({"copies": 0.08, "alike": 1.0}, "trust"),
        ({"copies": 0.2, "alike": 1.0}, "caution"),
        ({"copies": 1.0, "alike": 0.8}, "do not trust"),
        ({"rise": -0.3}, "trust"),
        ({"rise": 0.01}, "trust"),
        ({"rise": 0.02}, "caution"),
        ({"rise": 0.04}, "do not trust"),
    ],
)
def test_rows_that_belong_together_are_no_reason_to_trust(notes, verdict):
    found, reasons = path_verdict(100, 50.0, 0.03, QUIET | notes)
    assert found == folds_verdict(EVEN, 0.0, 0.03, notes)[0] == verdict
    assert all("groups=" in each for each in reasons)


@pytest.mark.parametrize(
    ("count", "verdict"), [(13, "do not trust"), (14, "caution"), (38, "caution"), (39, "trust")]
)
def test_few_rows_are_no_reason_to_trust(count, verdict):
    losses = torch.linspace(0, 1, count)
    assert path_verdict(count, rows_behind(losses), 0.1, QUIET)[0] == verdict
    assert folds_verdict(losses, 0.0, 0.1)[0] == verdict


def test_an_error_that_comes_from_one_row_has_an_uncertain_standard_error():
    losses = torch.zeros(100)
    losses[0] = 1.0
    assert rows_behind(losses) == pytest.approx(1.0, abs=0.1)
    verdict, (reason,) = folds_verdict(losses, 0.0, 0.01)
    assert verdict == "caution"
    assert reason.startswith("About 1 rows make up the error")


def test_folds_that_are_too_high_are_a_caution_at_most():
    assert folds_verdict(EVEN, 0.02, 0.03)[0] == "trust"
    assert folds_verdict(EVEN, 0.04, 0.03)[0] == "caution"
    assert folds_verdict(EVEN, 9.0, 0.03)[0] == "caution"
    assert folds_verdict(EVEN, 0.0, math.nan)[0] == "do not trust"
