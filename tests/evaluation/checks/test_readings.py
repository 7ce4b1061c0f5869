"""Few rows are not trusted, and the order of a sorted table raises no alarm."""

import numpy as np
import pytest

import decoupled_descent as dd
from tests.evaluation.checks.problems import find, grouped_patients, value


def smooth(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, 2 * np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)


def test_a_table_sorted_by_a_number_is_not_asked_for_groups():
    """Neighbours are alike in the target, and so in the columns: their order says no more."""
    X, y = smooth(200)
    for order in (np.arange(200), np.argsort(y)):
        model = dd.DecoupledRegressor(features="rbf", ridge=0.1).fit(X[order], y[order])
        found = {one.name: one.status for one in model.diagnostics_.findings}
        assert found.get("rows that belong together", "not asked") == (
            "ok" if order[0] == 0 and order[1] == 1 else "not asked"
        )


def test_patients_of_a_table_sorted_by_label_are_a_caution():
    X, y, _ = grouped_patients(0)
    order = np.argsort(y, kind="stable")
    model = dd.DecoupledClassifier(features="rbf(0.5)", ridge=0.3).fit(X[order], y[order])
    found = find(model.diagnostics_, "rows that belong together")
    assert found.value > 1
    assert found.status == "caution"
    assert "sorted by its target" in found.reason


@pytest.mark.parametrize("n", [2, 3, 5, 14, 20, 37, 40])
def test_few_squared_errors_are_not_trusted(n):
    """The standard error of n squared normal errors, of kurtosis 15, is known to ½√(14/n)."""
    model = dd.DecoupledRegressor(features="linear", ridge=1.0).fit(*smooth(n))
    found = find(model.diagnostics_, "few rows")
    assert found.value == pytest.approx(0.5 * (14 / n) ** 0.5)
    assert found.status == ("alarm" if n <= 14 else "caution" if n < 39 else "ok")


def test_few_groups_are_few_rows_and_several_outputs_say_more():
    X, y = smooth(60)
    model = dd.DecoupledRegressor(features="linear", ridge=1.0)
    model.fit(X, y, groups=np.arange(60) // 5)
    assert value(model.diagnostics_, "few rows") == pytest.approx(0.5 * (14 / 12) ** 0.5)
    assert "12 groups" in find(model.diagnostics_, "few rows").reason
    model.fit(X, np.stack([y, -X[:, 2]], 1))
    assert value(model.diagnostics_, "few rows") == pytest.approx(0.5 * (8 / 60) ** 0.5)


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_few_rows_of_classes_are_not_trusted(n):
    model = dd.DecoupledClassifier(features="linear", ridge=1.0)
    model.fit(smooth(n)[0], np.arange(n) % 2)
    assert model.diagnostics_.verdict != "trust"
