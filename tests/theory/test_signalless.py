"""The closed form without a signal, against the paper's recursion and state evolution."""

import math

import numpy as np
import pytest

import decoupled_descent as dd
from tests.oracles import state_evolution as oracle

SETTINGS = [(1.0, 1.0, 0.05), (0.25, 0.95, 0.0625), (4.0, 0.9, 0.05), (2.0, 0.8, 0.3)]


@pytest.mark.parametrize(("ratio", "damping", "lr"), SETTINGS)
def test_closed_form_is_the_recursion(ratio, damping, lr):
    steps = 60
    result = dd.theory.signalless_overlap(steps, lr, damping, ratio, overlap=1.7).numpy()
    omega, _ = oracle.linear_closed_form(ratio, 1.7, damping, lr, steps)
    np.testing.assert_allclose(result, omega[1 : steps + 1, 1 : steps + 1], rtol=1e-11)
    # and the sum of binomials, in exact integers
    t, s, c = 40, 23, lr**2 * ratio
    terms = [
        math.comb(t, k) * math.comb(s, k) * damping ** (t + s - 2 * k) * c**k for k in range(s + 1)
    ]
    np.testing.assert_allclose(result[t, s], 1.7 * math.fsum(terms), rtol=1e-12)


@pytest.mark.parametrize(("ratio", "damping", "lr"), SETTINGS)
def test_closed_form_is_state_evolution(ratio, damping, lr):
    algorithm = dd.DecoupledDescent(lr, damping)
    objective = dd.Objective(dd.heads.Linear(), "squared")
    theory = dd.StateEvolution(dd.mixtures.signalless(10), objective, algorithm, ratio)
    expected = dd.theory.signalless_overlap(30, lr, damping, ratio)
    np.testing.assert_allclose(theory.run(30).test_error, expected.diagonal() / 2, rtol=1e-12)


@pytest.mark.parametrize("ratio", [0.25, 1.0, 4.0])
def test_the_border_is_where_growth_begins(ratio):
    eta = 0.1
    for c2, grows in ((0.9, False), (1.1, True)):
        lr = eta * math.sqrt(c2 / ratio)
        assert (dd.theory.signalless_growth(lr, 1 - eta, ratio) > 1) is grows
        omega = dd.theory.signalless_overlap(400, lr, 1 - eta, ratio).diagonal()
        assert bool(omega[-1] > omega[200]) is grows
        rate = float(omega[-1] / omega[-2])
        predicted = dd.theory.signalless_growth(lr, 1 - eta, ratio)
        np.testing.assert_allclose(rate, predicted * (399 / 400) ** 0.5, rtol=1e-3)
