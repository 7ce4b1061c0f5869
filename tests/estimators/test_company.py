"""Estimators among scikit-learn's tools: seeds, warm starts, copies, frames, pipelines."""

import pickle
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import decoupled_descent as dd
from tests.estimators.problems import CHEAP, binary, features, own_head, several

X, Y = binary()
X3, Y3 = several()
FRESH = features(40, 6, seed=99)


def cheap(**options):
    return dd.DecoupledClassifier(**(CHEAP | options))


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


def test_the_global_generators_are_left_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    cheap().fit(X, Y)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    "options", [{}, {"method": "decoupled", "ridge": "auto"}, {"hidden": (4, 3)}], ids=str
)
def test_a_warm_start_on_the_same_rows_goes_on(options):
    options |= {"early_stopping": False, "max_iter": 12}
    model = cheap(**options, warm_start=True).fit(X, Y)
    model.fit(X, Y)
    whole = cheap(**options | {"max_iter": 23}).fit(X, Y)
    np.testing.assert_array_equal(model.train_error_curve_, whole.train_error_curve_)
    assert model.best_iter_ == whole.best_iter_
    assert whole.best_iter_ >= 11  # so that the best iterate is in the second part
    np.testing.assert_array_equal(model.theta_, whole.theta_)
    np.testing.assert_array_equal(model.predict_proba(FRESH), whole.predict_proba(FRESH))
    assert model.estimated_test_error_ == pytest.approx(whole.estimated_test_error_, rel=1e-6)


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


def test_pipelines_grids_and_cross_validation():
    pipeline = make_pipeline(StandardScaler(), cheap())
    scores = cross_val_score(pipeline, X, Y, cv=3)
    assert scores.min() > 0.6
    grid = {"decoupledclassifier__hidden": [2, (4, 3)], "decoupledclassifier__ridge": [1.0, 10.0]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, Y)
    assert len(search.cv_results_["params"]) == 4
    assert search.best_estimator_[-1].ridge == search.best_params_["decoupledclassifier__ridge"]
    assert search.predict(X).shape == (120,)


def test_clone_copies_options_and_nothing_else():
    model = cheap(head=own_head(), random_state=4).fit(X, Y)
    twin = clone(model)
    assert not hasattr(twin, "theta_")
    assert twin.head is not model.head
    torch.testing.assert_close(twin.head.state_dict(), model.head.state_dict())
    np.testing.assert_array_equal(twin.fit(X, Y).theta_, model.theta_)


def test_copies_through_other_processes_predict_the_same():
    model = cheap(warm_start=True, head=own_head()).fit(X, Y)
    twin = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(twin.predict_proba(FRESH), model.predict_proba(FRESH))
    np.testing.assert_array_equal(twin.fit(X, Y).theta_, model.fit(X, Y).theta_)


def test_frames_of_pandas():
    names = [f"column {k}" for k in range(6)]
    frame = pd.DataFrame(X, columns=names)
    model = cheap().fit(frame, pd.Series(np.where(Y, "yes", "no")))
    assert list(model.feature_names_in_) == names
    fresh = pd.DataFrame(FRESH, columns=names)
    proba = cheap().fit(X, Y).predict_proba(FRESH)
    np.testing.assert_allclose(model.predict_proba(fresh), proba, rtol=1e-6)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(fresh[names[::-1]])


def test_frames_of_polars():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({f"column {k}": X[:, k] for k in range(6)})
    model = cheap().fit(frame, polars.Series(Y))
    assert list(model.feature_names_in_) == frame.columns
    np.testing.assert_array_equal(model.predict(frame), cheap().fit(X, Y).predict(X))


def test_names_come_through_a_pipeline_that_keeps_them():
    pipeline = make_pipeline(StandardScaler(), cheap()).set_output(transform="pandas")
    pipeline.fit(pd.DataFrame(X, columns=list("abcdef")), Y)
    assert list(pipeline[-1].feature_names_in_) == list("abcdef")


def test_progress_is_drawn_on_request_only(capsys):
    cheap().fit(X, Y)
    assert capsys.readouterr() == ("", "")
    cheap(verbose=True, max_iter=9).fit(X, Y)
    assert "9/9" in capsys.readouterr().err


def test_plot_training():
    model = cheap().fit(X, Y)
    (ax,) = model.plot_training().axes
    np.testing.assert_allclose(ax.lines[0].get_ydata(), model.train_error_curve_)
    assert ax.get_ylabel() == "log loss"
    assert ax.get_title() == "DecoupledClassifier, orthogonal"


class Recorded(dd.DecoupledClassifier):
    """Remembers what reached ``fit``, over all copies."""

    seen: ClassVar[list] = []

    def fit(self, X, y, sample_weight=None, groups=None):
        self.seen.append((sample_weight, groups))
        return super().fit(X, y, sample_weight, groups)


def newton(**options):
    Recorded.seen.clear()
    return Recorded(features="linear", ridge=1.0, **options)


WEIGHTS, GROUPS = 1.0 + np.arange(120) % 3, np.arange(120) // 4


@pytest.mark.parametrize("piped", [False, True])
def test_weights_and_groups_are_routed(piped):
    """To ``fit`` as requested, and to the splitter; a group never stands on both sides."""
    with config_context(enable_metadata_routing=True):
        model = newton().set_fit_request(sample_weight=True, groups=True)
        model.set_score_request(sample_weight=piped)  # a pipeline wants one who takes it
        chain = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        found = cross_validate(
            chain if piped else model, X, Y, cv=GroupKFold(3), return_indices=True,
            params={"sample_weight": WEIGHTS, "groups": GROUPS}, error_score="raise",
        )  # fmt: skip
    assert found["test_score"].min() > 0.6
    for (weights, groups), rows in zip(Recorded.seen, found["indices"]["train"], strict=True):
        np.testing.assert_array_equal(weights, WEIGHTS[rows])
        np.testing.assert_array_equal(groups, GROUPS[rows])
    for train, test in zip(*found["indices"].values(), strict=True):
        assert not set(GROUPS[train]) & set(GROUPS[test])


def test_what_is_not_requested_is_not_routed():
    with config_context(enable_metadata_routing=True):
        model = newton().set_fit_request(sample_weight=False, groups=True)
        model.set_score_request(sample_weight=True)
        grid = {"ridge": [0.3, 3.0]}
        search = GridSearchCV(model, grid, cv=GroupKFold(2), error_score="raise")
        search.fit(X, Y, sample_weight=WEIGHTS, groups=GROUPS)
        assert len(Recorded.seen) == 5  # two ridges, two folds, and the best once more
        assert all(weights is None and groups is not None for weights, groups in Recorded.seen)
        assert len(Recorded.seen[-1][1]) == 120
        assert search.best_estimator_.estimated_accuracy_ > 0.6
        undecided = make_pipeline(StandardScaler(), newton().set_fit_request(groups=True))
        with pytest.raises((ValueError, TypeError), match="sample_weight"):
            undecided.fit(X, Y, sample_weight=WEIGHTS, groups=GROUPS)


def test_groups_without_routing_go_to_the_splitter_alone():
    scores = cross_val_score(newton(), X, Y, groups=GROUPS, cv=GroupKFold(3))
    assert scores.shape == (3,)
    assert all(groups is None for _, groups in Recorded.seen)


def test_a_pipeline_passes_groups_by_name():
    chain = make_pipeline(StandardScaler(), dd.DecoupledRegressor(features="linear", ridge=1.0))
    target = X[:, 0] + np.repeat(np.random.default_rng(0).normal(size=30), 4)
    chain.fit(X, target, decoupledregressor__groups=GROUPS)
    alone = dd.DecoupledRegressor(features="linear", ridge=1.0).fit(X, target)
    assert chain[-1].estimated_test_error_stderr_ > alone.estimated_test_error_stderr_
