"""Networks trained by descents: seeds, warm starts, scaled columns."""

import numpy as np
import pytest

import decoupled_descent as dd
from tests.tables.estimators.problems import binary, own_head
from tests.tables.estimators.test_scikit_learn import FRESH, X3, Y3, X, Y, cheap


def test_the_same_seed_gives_the_same_bits():
    one, other = (
        dd.DecoupledClassifier(method="orthogonal", max_iter=20, random_state=3).fit(X, Y)
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.theta_, other.theta_)
    np.testing.assert_array_equal(one.train_error_curve_, other.train_error_curve_)
    np.testing.assert_array_equal(one.predict_proba(FRESH), other.predict_proba(FRESH))
    np.testing.assert_array_equal(one.fit(X, Y).theta_, other.theta_)


def test_other_seeds_start_elsewhere():
    seeds = (0, 1, np.random.RandomState(2), None, None)
    models = [cheap(random_state=seed, max_iter=2).fit(X, Y) for seed in seeds]
    assert len({float(model.theta_[0, 0]) for model in models}) == 5


@pytest.mark.parametrize(
    "options", [{}, {"method": "decoupled", "ridge": "auto"}, {"hidden": (4, 3)}], ids=str
)
def test_a_warm_start_on_the_same_rows_goes_on(options):
    options |= {"early_stopping": False, "max_iter": 12}
    model = cheap(**options, warm_start=True).fit(X, Y)
    model.fit(X, Y)
    complete = cheap(**options | {"max_iter": 23}).fit(X, Y)
    np.testing.assert_array_equal(model.train_error_curve_, complete.train_error_curve_)
    assert model.best_iter_ == complete.best_iter_
    assert complete.best_iter_ >= 11  # so that the best iterate is in the second part
    np.testing.assert_array_equal(model.theta_, complete.theta_)
    np.testing.assert_array_equal(model.predict_proba(FRESH), complete.predict_proba(FRESH))
    assert model.estimated_test_error_ == pytest.approx(complete.estimated_test_error_, rel=1e-6)


def test_a_warm_start_goes_on_with_the_winner():
    model = dd.DecoupledClassifier(method="orthogonal", warm_start=True, max_iter=10).fit(X, Y)
    winner, reached = model.algorithm_, model.train_error_curve_[-1]
    model.fit(X, Y)
    assert model.algorithm_ == winner
    assert model.train_error_curve_[9] == reached
    assert len(model.train_error_curve_) == model.n_iter_ == 19


@pytest.mark.parametrize("rows", ["fewer", "shuffled", "other columns", "other classes"])
def test_a_warm_start_on_other_rows_starts_anew(rows):
    order = np.random.default_rng(0).permutation(len(X))
    other = {
        "fewer": (X[:80], Y[:80]),
        "shuffled": (X[order], Y[order]),
        "other columns": (X[:, :5], Y),
        "other classes": (X3, Y3),
    }[rows]
    model = cheap(warm_start=True).fit(X, Y)
    with pytest.warns(UserWarning, match="not those of the last fit: training starts") as caught:
        model.fit(*other)
    assert caught[0].filename == __file__
    anew = cheap().fit(*other)
    np.testing.assert_array_equal(model.theta_, anew.theta_)
    assert model.estimated_test_error_ == anew.estimated_test_error_


def test_without_a_warm_start_nothing_is_remembered():
    model = cheap().fit(X3, Y3).fit(X[:80], Y[:80])
    np.testing.assert_array_equal(model.theta_, cheap().fit(X[:80], Y[:80]).theta_)


@pytest.mark.parametrize("change", [{"lr": 0.5}, {"ridge": 10.0}, {"damping": 0.9}], ids=str)
def test_a_warm_start_heeds_new_options(change):
    model = cheap(warm_start=True).fit(X, Y).set_params(**change).fit(X, Y)
    ((name, value),) = change.items()
    assert getattr(model.algorithm_, name) == value


@pytest.mark.parametrize(
    "change",
    [{"hidden": 4}, {"activation": "gelu"}, {"head": own_head()}],
    ids=lambda c: next(iter(c)),
)
def test_a_warm_start_needs_the_same_head(change):
    model = cheap(warm_start=True).fit(X, Y)
    with pytest.raises(ValueError, match="not those of the model to continue; use warm_start=F"):
        model.set_params(**change).fit(X, Y)
    model.set_params(hidden=(8,), activation="tanh", head=None).fit(X, Y)  # what "auto" stands for
    assert model.n_iter_ == 59


def test_a_warm_start_does_not_forget_the_best_iterate():
    rows, labels = binary(d=30, strength=0.5)
    model = cheap(max_iter=200, random_state=5, warm_start=True).fit(rows, labels)
    assert model.stop_reason_ == "rising"
    before = model.train_error_curve_.min()
    assert model.fit(rows, labels).estimated_test_error_ <= before * (1 + 1e-6)


def test_columns_are_scaled_to_variance_1_over_d_without_constants_and_outliers():
    rows = np.column_stack([X, np.full(len(X), 7.0)])
    rows[0, 0] = 1e6
    model = cheap().fit(rows, Y)
    varying = rows[:, :-1]
    expected = (
        np.clip((varying - varying.mean(0)) / varying.std(0), -5, 5) / varying.shape[1] ** 0.5
    )
    np.testing.assert_allclose(model.model_.scaling.apply(rows)[:, :-1], expected, atol=1e-14)
    assert not model.model_.scaling.apply(rows)[:, -1].any()
    with pytest.raises(ValueError, match="every column of X is constant"):
        cheap().fit(np.ones((20, 3)), Y[:20])
