"""Estimators among scikit-learn's tools: seeds, copies, frames, pipelines."""

import pickle
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import decoupled_descent as dd
from tests.tables.estimators.problems import CHEAP, binary, features

X, Y = binary()
FRESH = features(40, 6, seed=99)


def cheap(**options):
    return dd.DecoupledClassifier(**(CHEAP | options))


def test_the_global_generators_are_left_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    cheap().fit(X, Y)
    assert torch.equal(torch.get_rng_state(), before)


def test_pipelines_grids_and_cross_validation():
    pipeline = make_pipeline(StandardScaler(), cheap())
    scores = cross_val_score(pipeline, X, Y, cv=3)
    assert scores.min() > 0.6
    grid = {"decoupledclassifier__stack": [True, False], "decoupledclassifier__ridge": [1.0, 10.0]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, Y)
    assert len(search.cv_results_["params"]) == 4
    assert search.best_estimator_[-1].ridge == search.best_params_["decoupledclassifier__ridge"]
    assert search.predict(X).shape == (120,)


def test_clone_copies_options_and_nothing_else():
    model = cheap(random_state=4).fit(X, Y)
    twin = clone(model)
    assert not hasattr(twin, "model_")
    np.testing.assert_array_equal(twin.fit(X, Y).predict_proba(X), model.predict_proba(X))


def test_copies_through_other_processes_predict_the_same():
    model = cheap().fit(X, Y)
    twin = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(twin.predict_proba(FRESH), model.predict_proba(FRESH))


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
    if hasattr(StandardScaler().fit(frame), "feature_names_in_"):  # old versions of scikit-learn
        assert list(model.feature_names_in_) == frame.columns  # do not know new ones of polars
    np.testing.assert_array_equal(model.predict(frame), cheap().fit(X, Y).predict(X))


def test_names_come_through_a_pipeline_that_keeps_them():
    pipeline = make_pipeline(StandardScaler(), cheap()).set_output(transform="pandas")
    pipeline.fit(pd.DataFrame(X, columns=list("abcdef")), Y)
    assert list(pipeline[-1].feature_names_in_) == list("abcdef")


def test_progress_is_drawn_on_request_only(capsys):
    cheap().fit(X, Y)
    assert capsys.readouterr() == ("", "")
    cheap(verbose=True).fit(X, Y)
    assert capsys.readouterr().err


def test_plot_training():
    model = cheap().fit(X, Y)
    (ax,) = model.plot_training().axes
    np.testing.assert_allclose(ax.lines[0].get_ydata(), model.train_error_curve_)
    assert ax.get_ylabel() == "log loss"
    assert ax.get_title() == "DecoupledClassifier"


class Recorded(dd.DecoupledClassifier):
    """Remembers what reached ``fit``, over all copies."""

    seen: ClassVar[list] = []

    def fit(self, X, y, sample_weight=None, groups=None):
        self.seen.append((sample_weight, groups))
        return super().fit(X, y, sample_weight, groups)


def newton(**options):
    Recorded.seen.clear()
    return Recorded(features="linear", ridge=1.0, **options)


#: Version 1.7 does not route weights to the score of a pipeline, whatever estimator is its last.
ROUTED = pytest.mark.skipif(sklearn.__version__.startswith("1.7."), reason="needs scikit-learn 1.8")
WEIGHTS, GROUPS = 1.0 + np.arange(120) % 3, np.arange(120) // 4


@pytest.mark.parametrize("piped", [False, pytest.param(True, marks=ROUTED)])
def test_weights_and_groups_are_routed(piped):
    """To ``fit`` as requested, and to the splitter; a group never stands on both sides."""
    with config_context(enable_metadata_routing=True):
        model = newton().set_fit_request(sample_weight=True, groups=True)
        model.set_score_request(sample_weight=piped)  # a pipeline wants one who takes it
        chain = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        result = cross_validate(
            chain if piped else model, X, Y, cv=GroupKFold(3), return_indices=True,
            params={"sample_weight": WEIGHTS, "groups": GROUPS}, error_score="raise",
        )  # fmt: skip
    assert result["test_score"].min() > 0.6
    for (weights, groups), rows in zip(Recorded.seen, result["indices"]["train"], strict=True):
        np.testing.assert_array_equal(weights, WEIGHTS[rows])
        np.testing.assert_array_equal(groups, GROUPS[rows])
    for train, test in zip(*result["indices"].values(), strict=True):
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
