"""Formulas that are corrected by literal refits of drawn rows."""

import numpy as np
import pytest

import decoupled_descent as dd
from tests.evaluation.families.problems import by_refits, selection


def test_all_refits_are_literal_leave_one_out():
    model, rows, target = selection(0)
    literal = np.square(target - by_refits(model, rows, target))
    evaluation = dd.evaluate(model, rows, target, refits=60)
    assert evaluation.error == pytest.approx(literal.mean())
    assert (evaluation.refits, evaluation.how) == (60, "formula and 60 refits")


@pytest.mark.slow
def test_a_formula_with_refits_is_unbiased_where_the_formula_is_not():
    """The selection of columns saw every row, which the formula does not know."""
    wrong, corrected = [], []
    for seed in range(30):
        model, rows, target = selection(seed)
        literal = np.square(target - by_refits(model, rows, target)).mean()
        wrong.append(dd.evaluate(model, rows, target, refits=0).error - literal)
        corrected.append(dd.evaluate(model, rows, target, refits=12).error - literal)
    stderr = np.std(corrected, ddof=1) / 30**0.5
    assert np.mean(wrong) < -10 * np.std(wrong, ddof=1) / 30**0.5
    assert np.mean(corrected) == pytest.approx(0, abs=3 * stderr)
    assert stderr < 0.2 * abs(np.mean(wrong))


def test_the_variance_of_few_refits_is_in_the_standard_error():
    model, rows, target = selection(1)
    formula, few = (dd.evaluate(model, rows, target, refits=m) for m in (0, 6))
    assert few.stderr > 1.2 * formula.stderr
    assert few.verdict != "trust"
    assert any("too few to say by how much" in reason for reason in few.reasons)
