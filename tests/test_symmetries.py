"""What must not matter does not: order, units and names of rows, columns, classes and runs."""

import numpy as np
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import decoupled_descent as dd

FEW = settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
SEEDS = st.integers(0, 10**6)
#: Powers of two change no digit of a number.
FACTORS = st.integers(-300, 300).map(lambda power: 2.0**power)
UNITS = st.integers(-200, 200).map(lambda power: 2.0**power)
#: One candidate: the correction for a choice among several draws rows at random.
NEWTON = {"features": "rbf", "ridge": 0.5}


def table(seed, n=36, d=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * [1.0, 3.0, 0.1, 10.0] + [0.0, 5.0, 0.0, -20.0]
    signal = X[:, 0] + (X[:, 1] - 5) / 3 + 0.7 * rng.normal(size=n)
    return rng, X, signal


def classified(X, y, **rows):
    return dd.DecoupledClassifier(**NEWTON).fit(X, y, **rows)


def regressed(X, y, **rows):
    return dd.DecoupledRegressor(**NEWTON).fit(X, y, **rows)


def said(model):
    """The estimates and what the model says of its rows as if they were new."""
    name = "corrected_proba_" if hasattr(model, "classes_") else "corrected_prediction_"
    estimates = [model.estimated_test_error_, model.estimated_test_error_stderr_]
    return np.array(estimates), getattr(model, name)


# Estimators


@FEW
@given(seed=SEEDS)
def test_order_of_rows(seed):
    rng, X, signal = table(seed)
    order = rng.permutation(len(X))
    for fit, y in ((regressed, signal), (classified, signal > 0)):
        (found, rows), (again, others) = (
            said(fit(*part)) for part in ((X, y), (X[order], y[order]))
        )
        np.testing.assert_allclose(again, found, rtol=1e-4)
        np.testing.assert_allclose(others, rows[order], rtol=1e-4, atol=1e-4)


@FEW
@given(seed=SEEDS, factors=st.lists(FACTORS, min_size=4, max_size=4), unit=UNITS)
def test_units_of_columns_and_of_the_target(seed, factors, unit):
    _, X, signal = table(seed)
    found, rows = said(regressed(X, signal))
    again, others = said(regressed(X * factors, signal * unit))
    np.testing.assert_allclose(again / unit**2, found, rtol=1e-6)
    np.testing.assert_allclose(others / unit, rows, rtol=1e-6, atol=1e-6)
    found, rows = said(classified(X, signal > 0))
    again, others = said(classified(X * factors, signal > 0))
    np.testing.assert_allclose(again, found, rtol=1e-6)
    np.testing.assert_allclose(others, rows, rtol=1e-6, atol=1e-6)


@FEW
@given(seed=SEEDS)
def test_order_of_columns_and_their_signs(seed):
    rng, X, signal = table(seed)
    order, signs = rng.permutation(X.shape[1]), rng.choice([-1.0, 1.0], X.shape[1])
    for fit, y in ((regressed, signal), (classified, signal > 0)):
        found, rows = said(fit(X, y))
        again, others = said(fit((X * signs)[:, order], y))
        np.testing.assert_allclose(again, found, rtol=1e-6)
        np.testing.assert_allclose(others, rows, rtol=1e-6, atol=1e-6)


@FEW
@given(seed=SEEDS, names=st.permutations(["a", "b", "c"]))
def test_names_of_classes(seed, names):
    """Two classes and three: other names are another order of the columns of probabilities."""
    _, X, signal = table(seed)
    for codes in ((signal > 0) * 1, np.digitize(signal, [-0.7, 0.7])):
        model, other = classified(X, codes), classified(X, np.array(names)[codes])
        places = np.searchsorted(other.classes_, np.array(names)[model.classes_])
        np.testing.assert_allclose(said(other)[0], said(model)[0], rtol=1e-5)
        np.testing.assert_allclose(said(other)[1][:, places], said(model)[1], atol=1e-5)
        np.testing.assert_allclose(
            other.predict_proba(X + 1)[:, places], model.predict_proba(X + 1), atol=1e-5
        )


@FEW
@given(seed=SEEDS)
def test_the_target_may_be_moved_and_turned(seed):
    _, X, signal = table(seed)
    found, rows = said(regressed(X, signal))
    again, others = said(regressed(X, 100 - signal))
    np.testing.assert_allclose(again, found, rtol=1e-6)
    np.testing.assert_allclose(100 - others, rows, rtol=1e-6, atol=1e-6)


@FEW
@given(seed=SEEDS)
def test_weight_two_is_the_row_twice_and_weight_zero_none(seed):
    """Copies of a row are one group: they leave together, as the weight of a row does."""
    rng, X, signal = table(seed)
    weights = rng.integers(0, 3, len(X))
    weights[:4] = 1
    copies = np.repeat(np.arange(len(X)), weights)
    new = table(seed + 1)[1]
    once = regressed(X, signal, sample_weight=weights)
    twice = regressed(X[copies], signal[copies], groups=copies)
    np.testing.assert_allclose(once.predict(new), twice.predict(new), rtol=1e-5, atol=1e-6)
    y = np.arange(len(X)) % 2  # both classes among the rows that count
    once = classified(X, y, sample_weight=weights)
    twice = classified(X[copies], y[copies], groups=copies)
    np.testing.assert_allclose(once.predict_proba(new), twice.predict_proba(new), atol=1e-5)


# Sweeps


@FEW
@given(seed=SEEDS, order=st.permutations(range(4)))
def test_a_sweep_is_its_runs_in_any_order(seed, order):
    X, y = dd.mixtures.xor(dimension=10, snr=4.0).sample(30, seed=seed, dtype=torch.float64)
    objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
    algorithms = [
        dd.DecoupledDescent(0.02), dd.GradientDescent(0.02),
        dd.OrthogonalDecoupledDescent(0.02, 0.9, 1.0), dd.DecoupledDescent(0.01, 0.9),
    ]  # fmt: skip
    rows = torch.randperm(30, generator=torch.Generator().manual_seed(seed))
    swept = dd.sweep(X, y, objective, algorithms, 8, seed=1)
    again = dd.sweep(X[rows], y[rows], objective, [algorithms[k] for k in order], 8, seed=1)
    for place, k in enumerate(order):
        torch.testing.assert_close(
            again.runs[place].train_error, swept.runs[k].train_error, rtol=1e-9, atol=1e-12
        )


# State evolution


@FEW
@given(seed=SEEDS, ratio=st.sampled_from([0.5, 1.0, 3.0]))
def test_state_evolution_knows_angles_only(seed, ratio):
    """Rotating means and start together changes nothing."""
    rng = np.random.default_rng(seed)
    means = torch.from_numpy(3 * rng.normal(size=(2, 6)))
    theta = torch.from_numpy(rng.normal(size=(2, 6)))
    turn = torch.from_numpy(np.linalg.qr(rng.normal(size=(6, 6)))[0])
    objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")

    def evolved(means, theta):
        mixture = dd.GaussianMixture(means, torch.tensor([0.3, 0.7]), [0.0, 1.0])
        algorithm = dd.DecoupledDescent(0.1, 0.95)
        return dd.StateEvolution(mixture, objective, algorithm, ratio).run(5, theta=theta)

    found, turned = evolved(means, theta), evolved(means @ turn, theta @ turn)
    np.testing.assert_allclose(turned.test_error, found.test_error, rtol=1e-6)
    np.testing.assert_allclose(turned.overlap, found.overlap, rtol=1e-6, atol=1e-9)


@FEW
@given(seed=SEEDS)
def test_state_evolution_of_exchanged_labels(seed):
    """Exchanging 0 and 1 turns the sign of the head's only weight."""
    rng = np.random.default_rng(seed)
    means = torch.from_numpy(3 * rng.normal(size=(2, 6)))
    theta = torch.from_numpy(rng.normal(size=(2, 6)))
    errors = []
    for sign, labels in ((1.0, [0.0, 1.0]), (-1.0, [1.0, 0.0])):
        objective = dd.Objective(dd.heads.Product(a=sign), "logistic")
        mixture = dd.GaussianMixture(means, torch.tensor([0.5, 0.5]), labels)
        evolution = dd.StateEvolution(mixture, objective, dd.DecoupledDescent(0.1))
        errors.append(evolution.run(5, theta=theta).test_error)
    np.testing.assert_allclose(*errors, rtol=1e-9)
