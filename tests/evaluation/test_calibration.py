"""Reliability of probabilities, and standard errors of shares with weights and groups."""

import math

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression

import decoupled_descent as dd
from decoupled_descent.evaluation import Evaluation
from decoupled_descent.evaluation import calibration as module
from decoupled_descent.evaluation.means import share_with_stderr as share_of
from tests.tables.estimators.problems import table


def reliability(chances, codes, weights=None):
    return module.reliability(Evaluation.of(codes, chances, weights=weights))


def stated(n, seed, power=1.0):
    """Probabilities of the second class, and labels for which they are right if power is 1."""
    rng = np.random.default_rng(seed)
    p = rng.beta(1.0, 1.5, size=n)
    truth = p**power / (p**power + (1 - p) ** power)
    return np.c_[1 - p, p], (rng.random(n) < truth).astype(int)


def test_bins_are_those_of_scikit_learn():
    chances, codes = stated(400, 0)
    result = reliability(chances, codes)
    seen, predictions = calibration_curve(codes, chances[:, 1], n_bins=10, strategy="quantile")
    np.testing.assert_allclose(result.seen, seen, atol=0.03)  # edges fall between other rows
    np.testing.assert_allclose(result.stated, predictions, atol=0.03)
    shares = np.array(result.count) / 400
    gaps = np.abs(np.array(result.seen) - result.stated)
    assert result.error == pytest.approx(shares @ gaps)
    assert list(result.table.columns) == ["stated", "seen", "count"]


def test_true_probabilities_are_called_calibrated():
    """Over 200 draws: the mean error is what chance makes of it, and its spread the stderr."""
    result = [reliability(*stated(300, seed)) for seed in range(200)]
    errors = np.array([one.error for one in result])
    spread = errors.std(ddof=1) / math.sqrt(len(errors))
    assert abs(errors.mean() - np.mean([one.chance for one in result])) < 3 * spread
    assert np.mean([one.calibrated for one in result]) > 0.9
    assert np.mean([one.stderr for one in result]) > 0.9 * errors.std(ddof=1)


def test_overconfident_probabilities_are_not():
    result = [reliability(*stated(600, seed, power=0.4)) for seed in range(20)]
    assert not any(one.calibrated for one in result)


def test_weights_are_repetitions_of_rows():
    chances, codes = stated(60, 1)
    weights = 1.0 + np.arange(60) % 3
    copies = np.repeat(np.arange(60), weights.astype(int))
    one = reliability(chances, codes, weights)
    many = share_of(chances[copies, 1] > 0.5)
    assert share_of(chances[:, 1] > 0.5, weights)[0] == pytest.approx(many[0])
    assert sum(one.count) == 60
    same = reliability(chances, codes, np.full(60, 2.0))
    assert same.error == pytest.approx(reliability(chances, codes).error)
    assert same.stderr == pytest.approx(reliability(chances, codes).stderr)


def test_one_class_more_than_two_is_judged_by_its_most_probable():
    chances = np.repeat([[0.2, 0.5, 0.3]], 50, axis=0)
    result = reliability(chances, np.r_[np.ones(40, int), np.zeros(10, int)])
    assert (result.stated[0], result.seen[0]) == (pytest.approx(0.5), pytest.approx(0.8))


def test_rows_of_a_group_that_agree_count_once():
    rng = np.random.default_rng(0)
    right = rng.random(50) < 0.8
    groups = np.repeat(np.arange(50), 4)
    alone, together = share_of(right), share_of(np.repeat(right, 4), groups=groups)
    assert together == pytest.approx(alone)
    assert share_of(np.repeat(right, 4))[1] < 0.6 * alone[1]
    certain = share_of(np.ones(200, bool), groups=groups)
    assert certain == pytest.approx(share_of(np.ones(50, bool)))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_standard_error_of_a_share_is_that_of_many_draws(weighted):
    """500 draws of 60 groups of 1 to 5 rows, whose rows agree more than chance has it."""
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(60), rng.integers(1, 6, size=60))
    weights = rng.exponential(size=len(groups)) if weighted else None
    shares, stderrs = [], []
    for _ in range(500):
        level = rng.beta(4, 1.5, size=60)
        share, stderr = share_of(rng.random(len(groups)) < level[groups], weights, groups)
        shares.append(share)
        stderrs.append(stderr)
    spread = np.std(shares, ddof=1)
    assert np.mean(stderrs) == pytest.approx(spread, rel=3 / math.sqrt(2 * 500) + 0.05)


@pytest.mark.data
@pytest.mark.parametrize("name", ["phoneme", "ionosphere", "vehicle"])
def test_left_out_probabilities_of_real_tables_are_calibrated(name):
    X, y = table(name)
    order = np.random.default_rng(0).permutation(len(y))[:300]
    model = dd.DecoupledClassifier(features=["linear", "rbf(1)", "laplace(1)"])
    result = model.fit(X[order], y[order]).calibration_
    assert result.calibrated
    assert sum(result.count) == len(order)


def test_the_line_is_that_of_logistic_regressions_without_penalty():
    chances, codes = stated(300, 3, power=0.5)
    line = reliability(chances, codes).line
    odds = np.log(chances[:, 1] / chances[:, 0])
    fit = LogisticRegression(C=np.inf, tol=1e-12, max_iter=1000).fit(odds[:, None], codes)
    assert line.slope == pytest.approx(fit.coef_[0, 0], abs=1e-5)
    levels = np.linspace(-1, 1, 20001)  # at slope 1
    losses = np.logaddexp(0, levels[:, None] + odds) - codes * (levels[:, None] + odds)
    assert line.intercept == pytest.approx(levels[losses.mean(1).argmin()], abs=1e-4)


def test_standard_errors_of_the_line_are_those_of_draws():
    lines = [reliability(*stated(300, seed)).line for seed in range(200)]
    for name, truth in (("slope", 1), ("intercept", 0)):
        values = np.array([getattr(one, name) for one in lines])
        errors = np.array([getattr(one, f"{name}_stderr") for one in lines])
        assert abs(values.mean() - truth) < 0.05 + 3 * values.std(ddof=1) / math.sqrt(200)
        assert np.mean(errors) == pytest.approx(values.std(ddof=1), rel=0.15)  # 3 × 5 %


def test_copies_of_rows_in_groups_do_not_make_the_line_surer():
    chances, codes = stated(100, 4)
    one = reliability(chances, codes).line
    evaluation = Evaluation.of(
        np.repeat(codes, 3), np.repeat(chances, 3, 0), groups=np.repeat(np.arange(100), 3)
    )
    assert tuple(module.reliability(evaluation).line) == pytest.approx(tuple(one))


def test_probabilities_that_separate_the_classes_have_no_line():
    chances = np.repeat([[0.9, 0.1], [0.2, 0.8]], 30, axis=0)
    assert reliability(chances, np.repeat([0, 1], 30)).line is None
