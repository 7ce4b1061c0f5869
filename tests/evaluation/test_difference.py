"""Formulas that are corrected by literal refits of drawn rows."""

import numpy as np
import pytest
from sklearn.svm import SVC

import decoupled_descent as dd
from decoupled_descent.evaluation.difference import CERTAIN, DifferenceEstimator
from decoupled_descent.evaluation.inputs import foreign_model
from tests.evaluation.families.problems import by_refits, classes, selection


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


def test_the_most_doubtful_rows_are_refitted_in_order():
    X, y = classes(60)
    foreign = foreign_model(SVC().fit(X, y), X, y)
    doubt = np.linspace(1, 0, 60)
    work = DifferenceEstimator(foreign, np.zeros(60), doubt)
    work.draw(4)
    assert {0, 1, 2} <= set(work.literal)
    assert len(work.draws) == 1
    work.draw(6)
    assert set(range(CERTAIN)) <= set(work.literal)
    assert len(work.draws) == 3


def test_doubtful_rows_that_wait_are_not_enough():
    """One of three changed: four more may change in proportion to their doubts."""
    X, y = classes(60)
    foreign = foreign_model(SVC().fit(X, y), X, y)
    work = DifferenceEstimator(foreign, np.zeros(60), np.linspace(1, 0, 60))
    work.draw(4)
    losses = iter([1.0, 0.0, 0.0, 0.0])
    found = work.correction(lambda said, rows: np.array([next(losses)]))
    assert found.shift == pytest.approx(1 / 60)
    doubt = np.linspace(1, 0, 60)
    share = np.linalg.norm(doubt[3:CERTAIN]) / np.linalg.norm(doubt[:3])
    assert found.waiting == pytest.approx(share / 60)
    assert not found.is_enough(0.05)
    assert found.is_enough(0.2)
