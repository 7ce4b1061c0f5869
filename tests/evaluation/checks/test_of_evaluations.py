"""What lowers the verdict on an evaluation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from decoupled_descent.evaluation.checks.of_evaluations import rows_behind
from tests.evaluation.problems import quiet


@pytest.mark.parametrize(
    ("notes", "verdict"),
    [
        ({"linearisation": 0.0}, "trust"),
        ({"linearisation": 0.014}, "trust"),
        ({"linearisation": 0.02}, "caution"),
        ({"linearisation": 0.07}, "do not trust"),
        ({"linearisation": math.inf}, "do not trust"),
        ({"sample_size_bias": 0.02}, "trust"),
        ({"sample_size_bias": 0.04}, "caution"),
        ({"sample_size_bias": 9.0}, "caution"),  # too high is the safe side
        ({"copies": 0.6, "alike": 0.1}, "trust"),  # few columns with few values
        ({"copies": 0.08, "alike": 1.0}, "trust"),
        ({"copies": 0.2, "alike": 1.0}, "caution"),
        ({"copies": 1.0, "alike": 0.8}, "do not trust"),
        ({"rise": -0.3}, "trust"),
        ({"rise": 0.01}, "trust"),
        ({"rise": 0.02}, "caution"),
        ({"rise": 0.04}, "do not trust"),
        ({"interrupted": 1.0}, "caution"),
        ({"diverged": 1.0}, "caution"),
        ({"still_falling": 0.4}, "trust"),
        ({"still_falling": 0.6}, "caution"),
    ],
)
def test_what_the_training_measured(notes, verdict):
    found = quiet(notes=notes)
    assert found.stderr == pytest.approx(0.03)
    assert found.verdict == verdict
    assert len(found.reasons) == (verdict != "trust")


@pytest.mark.parametrize(
    ("count", "verdict"), [(14, "do not trust"), (15, "caution"), (38, "caution"), (39, "trust")]
)
def test_few_rows_are_no_reason_to_trust(count, verdict):
    assert quiet(count).verdict == verdict
    assert quiet(2 * count, groups=np.arange(2 * count) // 2).verdict == verdict


def test_an_error_that_comes_from_one_row_has_an_uncertain_standard_error():
    losses = np.zeros(100)
    losses[0] = 1.0
    assert rows_behind(losses) == pytest.approx(1.0, abs=0.1)
    (found,) = (one for one in quiet(losses=losses).findings if one.status == "note")
    assert found.name == "rows behind the error"
    assert found.advice.startswith("report the median absolute error")
