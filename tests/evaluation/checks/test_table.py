"""Checks of a table against naive computations, and on tables of given laws."""

import numpy as np
import pytest
from scipy.stats import f_oneway

from decoupled_descent.evaluation.checks import table as module
from decoupled_descent.evaluation.checks.table import (
    SIGNIFICANT,
    Table,
    explained_shares,
    intraclass_correlation,
)
from decoupled_descent.evaluation.checks.table_checks import PERFECT


def naive_share(x, y):
    """Each row by the others with its value, or by the means at the next smaller and larger one."""
    error = 0.0
    different = sorted(set(x))
    for i, value in enumerate(x):
        others = [y[j] for j in range(len(x)) if j != i and x[j] == value]
        if not others:
            k = different.index(value)
            near = [different[j] for j in (k - 1, k + 1) if 0 <= j < len(different)]
            others = [np.mean([y[j] for j in range(len(x)) if x[j] == one], 0) for one in near]
        error += np.square(y[i] - np.mean(others, 0)).sum()
    return 1 - error / np.square(y - y.mean(0)).sum()


@pytest.mark.parametrize("outputs", [1, 3])
def test_explained_shares_one_row_at_a_time(outputs, monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.normal(size=(40, outputs))
    values = np.stack([rng.normal(size=40), rng.integers(6, size=40), y[:, 0] ** 3], 1)
    expected = [naive_share(column.tolist(), y) for column in values.T]
    np.testing.assert_allclose(explained_shares(values, y), expected, atol=1e-10)
    monkeypatch.setattr(module, "NUMBERS", 50)  # one column at a time
    np.testing.assert_allclose(explained_shares(values, y), expected, atol=1e-10)


def test_constant_columns_and_targets_explain_nothing():
    y = np.random.default_rng(0).normal(size=(30, 1))
    assert explained_shares(np.ones((30, 2)), y).tolist() == [0.0, 0.0]
    assert explained_shares(y, np.ones((30, 1))).tolist() == [0.0]


def test_correlation_against_one_way_analysis_of_variance():
    rng = np.random.default_rng(1)
    groups = rng.integers(12, size=200)
    y = rng.normal(size=200) + 0.5 * rng.normal(size=12)[groups]
    correlation, p_value = intraclass_correlation(y[:, None], groups)
    expected = f_oneway(*(y[groups == k] for k in range(12)))
    assert p_value == pytest.approx(expected.pvalue, rel=1e-9)
    m = 200 / 12
    assert correlation == pytest.approx((expected.statistic - 1) / (expected.statistic - 1 + m))


def test_random_groups_are_seldom_significant():
    """At most about 1 % of them are."""
    rng = np.random.default_rng(2)
    count = 0
    for _ in range(300):
        y = np.eye(3)[rng.integers(3, size=150)]
        count += intraclass_correlation(y, rng.integers(25, size=150)).p_value < SIGNIFICANT
    assert count <= 10  # 3 expected


def test_a_leak_is_visible_in_a_sample_of_the_rows(monkeypatch):
    rng = np.random.default_rng(5)
    values = rng.normal(size=(800, 3))
    monkeypatch.setattr(module, "MOST_ROWS", 200)
    leaks = module.leaks(Table(["a", "b", "c"], values, 2 * values[:, [1]]), PERFECT)
    assert leaks.names == ["b"]
    assert leaks.largest > PERFECT
