"""Results of statsmodels, if it is installed."""

import numpy as np
import pytest

import decoupled_descent as dd
from tests.evaluation.families.problems import classes, numbers

sm = pytest.importorskip("statsmodels.api")
X, y = numbers(80)
A, label = classes(80)
A = A[:, :2]


def test_least_squares():
    results = sm.OLS(y, sm.add_constant(X)).fit()
    literal = np.square(results.get_influence().resid_press).mean()
    assert dd.evaluate(results).error == pytest.approx(literal)
    weights = np.linspace(0.5, 2, 80)
    results = sm.WLS(y, sm.add_constant(X), weights=weights).fit()
    formula, every = (dd.evaluate(results, None, None, weights, refits=m) for m in (0, 80))
    assert formula.error == pytest.approx(every.error)


@pytest.mark.parametrize(
    "family", [sm.families.Poisson(), sm.families.Gamma(sm.families.links.Log())]
)
def test_generalised(family):
    results = sm.GLM(np.exp(0.3 * y), sm.add_constant(X), family=family).fit()
    formula, every = (dd.evaluate(results, refits=m) for m in (0, 80))
    assert abs(formula.error - every.error) < 0.1 * every.stderr


def test_classes():
    for results in (
        sm.Logit(label, A).fit(disp=0),
        sm.GLM(label, A, family=sm.families.Binomial()).fit(),
    ):
        formula, every = (dd.evaluate(results, refits=m) for m in (0, 80))
        assert formula.loss == "log_loss"
        assert abs(formula.error - every.error) < 0.3 * every.stderr
