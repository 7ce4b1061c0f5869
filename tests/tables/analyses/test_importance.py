"""Importance: a column that matters, one that does not, and levels that are shuffled together."""

import numpy as np
import pandas as pd
import pytest

import decoupled_descent as dd
from decoupled_descent.tables.analyses.importance import MOST_COLUMNS, MOST_SCREENED, importance
from decoupled_descent.tables.analyses.left_out_models import LeftOutModels
from decoupled_descent.tables.analyses.table import AnalysedTable


def test_columns_are_ranked():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"noise": rng.normal(size=200), "signal": rng.normal(size=200)})
    frame["town"] = rng.choice(["a", "b", "c"], 200)
    y = (3 * frame["signal"] + (frame["town"] == "a")).to_numpy() + 0.1 * rng.normal(size=200)
    model = dd.DecoupledRegressor(features="linear", ridge=0.01).fit(frame, y)
    found = importance(model, frame)
    assert [one.column for one in found] == ["signal", "town", "noise"]
    assert found[0].rise > 10
    assert abs(found[2].rise) < 3 * found[2].stderr + 0.1
    labels = np.where(y > 0, "yes", "no")
    model = dd.DecoupledClassifier(features="linear", ridge=0.01).fit(frame, labels)
    assert importance(model, frame)[0].column == "signal"
    with pytest.raises(ValueError, match="X has 100 rows but the model was trained on 200"):
        importance(model, frame[:100])


def test_columns_of_wide_tables_are_screened():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(80, MOST_COLUMNS + 10))).rename(columns="x{}".format)
    y = 3 * frame["x5"].to_numpy() - 2 * frame["x66"].to_numpy() + 0.1 * rng.normal(size=80)
    model = dd.DecoupledRegressor(features="linear", stack=False).fit(frame, y)
    found = importance(model, frame)
    assert len(found) == MOST_COLUMNS
    assert [one.column for one in found[:2]] == ["x5", "x66"]


def test_far_too_many_columns_are_refused():
    X = np.random.default_rng(0).normal(size=(30, MOST_SCREENED + 1))
    model = dd.DecoupledRegressor(features="linear", ridge=1.0, stack=False).fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"X has 1,001 columns; importances are computed for"):
        importance(model, X)


def test_rows_are_predicted_by_models_without_them():
    """Noise that a flexible model fits seems to matter on its own rows, and does not on others."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(80, 4)), rng.normal(size=80)
    model = dd.DecoupledRegressor(features="rbf", ridge=1e-3, stack=False).fit(X, y)
    left_out = max(one.rise for one in importance(model, X))
    before = np.square(model.predict(X) - y).mean()
    shuffled = X.copy()
    shuffled[:, 0] = shuffled[rng.permutation(80), 0]
    own = np.square(model.predict(shuffled) - y).mean() / before - 1
    assert left_out < 0.1 * own


@pytest.mark.parametrize("classes", [False, True])
def test_all_members_of_the_mixture_are_asked(classes):
    """Steps that only trees see: the mixture without each row predicts it as the evaluation says.

    Shares of the mixture are those of the model here, and those without the fold of the row in the
    evaluation, so that both agree up to the choice of shares.
    """
    rng = np.random.default_rng(5)
    X = rng.normal(size=(240, 4))
    y = np.sign(X[:, 2]) * np.sign(X[:, 1] + 0.3) * 2 + 0.3 * rng.normal(size=240)
    y = y > 0 if classes else y
    kind = dd.DecoupledClassifier if classes else dd.DecoupledRegressor
    members = ["random forest", "quadratic discriminant"] if classes else ["random forest"]
    model = kind(features="linear", members=members).fit(X, y)
    assert sum(one.share for one in model.mixture_.others) > 0.5
    rows = np.arange(0, 240, 3)
    found = LeftOutModels(AnalysedTable.of(model, X), rows).predict(X[rows])
    expected = model.evaluation_.predictions[rows]
    fitted = model.predict_proba(X[rows]) if classes else model.predict(X[rows])
    miss = np.abs(found - expected).mean()
    assert miss < 0.1 * np.abs(fitted - expected).mean()
    ranked = [one.column for one in importance(model, X)]
    assert set(ranked[:2]) == {"column 1", "column 2"}


def test_weights_count():
    """Rows of weight zero are absent, and a column that matters for them alone does not matter."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(160, 2))
    weights = np.repeat([1.0, 0.0], 80)
    y = np.where(weights > 0, 3 * X[:, 0], 3 * X[:, 1]) + 0.1 * rng.normal(size=160)
    model = dd.DecoupledRegressor(features="linear", ridge=1.0).fit(X, y, sample_weight=weights)
    found = {one.column: one.rise for one in importance(model, X)}
    assert found["column 0"] > 10
    assert abs(found["column 1"]) < 0.5
