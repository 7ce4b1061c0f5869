"""Raw tables in Python: the decisions of the command line, among scikit-learn's tools."""

import json
import pickle

import numpy as np
import pandas as pd
import polars
import pytest
from sklearn.base import clone
from sklearn.feature_selection import RFECV, SelectFromModel
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import decoupled_descent as dd
from decoupled_descent.app.cli.tables import prepare
from decoupled_descent.tables.columns.rules import Columns
from decoupled_descent.tables.estimators.raw_inputs import time_columns
from decoupled_descent.tables.estimators.saving import load_model, save_model

RNG = np.random.default_rng(3)
N = 120


def raw():
    """Text, dates, truth values, gaps, nullable types, and one column of mixed values."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 9, N),
            "town": rng.choice(["Ulm", "Bonn", "Kiel"], N),
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, N), "D"),
            "smoker": rng.random(N) < 0.4,
            "children": pd.array(rng.integers(0, 4, N), dtype="Int64"),
            "mixed": rng.choice(np.array([1, "2", 3.5, "4"], dtype=object), N),
            "grade": pd.Categorical(rng.choice(["low", "high"], N)),
        }
    )
    frame.loc[::7, "age"] = np.nan
    frame.loc[::9, "children"] = pd.NA
    frame.loc[::11, "town"] = None
    frame.loc[::13, "mixed"] = "?"
    signal = frame["age"].fillna(40) / 9 + 2.0 * (frame["town"] == "Ulm") + rng.normal(size=N)
    return frame, signal


FRAME, SIGNAL = raw()
Y = np.where(SIGNAL.gt(SIGNAL.median()), "yes", "no")


def cheap(**options):
    return dd.DecoupledClassifier(features="linear", ridge=1.0, **options)


def test_decisions_are_those_of_the_command_line(tmp_path):
    path = tmp_path / "table.csv"
    FRAME.assign(y=Y).to_csv(path, index=False)
    prepared = prepare(path, "y", None)
    model = cheap().fit(FRAME, Y)
    assert model.columns_.columns == prepared.columns.columns
    again = cheap().fit(prepared.X, prepared.y)
    np.testing.assert_array_equal(model.corrected_proba_, again.corrected_proba_)
    assert model.n_features_in_ == FRAME.shape[1] < prepared.X.shape[1]
    assert list(model.feature_names_in_) == list(FRAME.columns)
    assert model.columns_.summary().loc["age", "used as"] == "number"


def test_tables_of_polars_are_those_of_pandas():
    frame = FRAME.drop(columns="mixed")
    model, other = cheap().fit(frame, Y), cheap().fit(polars.from_pandas(frame), polars.Series(Y))
    assert model.columns_.names == other.columns_.names
    new = polars.from_pandas(frame[:9])
    np.testing.assert_array_equal(other.predict_proba(new), model.predict_proba(frame[:9]))


def test_among_the_tools_of_scikit_learn():
    assert cross_val_score(cheap(), FRAME, Y, cv=3).mean() > 0.6
    search = GridSearchCV(cheap(), {"ridge": [0.1, 10.0]}, cv=3).fit(FRAME, Y)
    assert search.predict(FRAME).shape == (N,)
    model = make_pipeline("passthrough", cheap()).fit(FRAME, Y)
    shuffled = permutation_importance(model, FRAME, Y, n_repeats=3, random_state=0)
    matter = dict(zip(FRAME.columns, shuffled.importances_mean, strict=True))
    assert min(matter["age"], matter["town"]) > max(matter["smoker"], matter["grade"])


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_outputs_of_transformers(kind):
    pipeline = make_pipeline(StandardScaler(), cheap()).set_output(transform=kind)
    X = RNG.normal(size=(60, 3))
    frame = pd.DataFrame(X, columns=list("abc"))
    pipeline.fit(frame, X[:, 0] > 0)
    assert [*pipeline[-1].columns_.names] == list("abc")
    assert pipeline.score(frame, X[:, 0] > 0) > 0.9


def test_arrays_with_gaps():
    X = RNG.normal(size=(80, 3))
    y = X @ [1.0, 2.0, 0.0]
    gaps = X.copy()
    gaps[::4, 2] = np.nan
    model = dd.DecoupledRegressor(features="linear", ridge=1.0).fit(gaps, y)
    assert model.columns_.names == ["x0", "x1", "x2", "x2_missing"]
    assert model.n_features_in_ == 3
    filled = np.where(np.isnan(gaps), np.nanmedian(gaps, 0), gaps)
    by_hand = np.column_stack([filled, np.isnan(gaps[:, 2])])
    other = dd.DecoupledRegressor(features="linear", ridge=1.0).fit(by_hand, y)
    np.testing.assert_array_equal(model.predict(gaps), other.predict(by_hand))


def test_gaps_that_only_new_rows_have_are_filled_with_medians():
    X = RNG.normal(size=(80, 3))
    model = dd.DecoupledRegressor(features="linear", ridge=1.0).fit(X, X[:, 0])
    assert model.columns_ is None
    new = X[:5].copy()
    new[2, 1] = np.nan
    filled = new.copy()
    filled[2, 1] = np.median(X[:, 1])
    np.testing.assert_array_equal(model.predict(new), model.predict(filled))
    new[2, 1] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        model.predict(new)


def test_a_fit_to_numbers_forgets_the_rules_of_a_table():
    model = cheap().fit(FRAME, Y)
    X = RNG.normal(size=(60, 3))
    model.fit(X, X[:, 0] > 0)
    assert model.columns_ is None
    assert model.n_features_in_ == 3
    assert model.predict(X).shape == (60,)


def test_values_that_cannot_be_read_count_as_missing_with_a_warning():
    frame = FRAME.astype({"age": object})
    model = cheap().fit(FRAME, Y)
    frame.loc[4, "age"] = "forty"
    with pytest.warns(UserWarning, match="'age': 1 value is not a number and counts as missing"):
        proba = model.predict_proba(frame)
    frame.loc[4, "age"] = None
    np.testing.assert_array_equal(proba, model.predict_proba(frame))


def test_learning_curve_and_sets():
    model = cheap().fit(FRAME, Y)
    assert model.learning_curve(FRAME, Y, repeats=1).expected > 0
    assert model.predict_set(FRAME).shape == (N, 2)
    assert model.decision_function(FRAME).shape == (N,)
    interval = dd.DecoupledRegressor(features="linear", ridge=1.0).fit(FRAME, SIGNAL)
    assert interval.predict_interval(FRAME[:4]).shape == (4, 2)


def test_saved_with_the_model(tmp_path):
    model = cheap().fit(FRAME, Y)
    path = dd.save_model(model, tmp_path / "model.safetensors", target="y")
    loaded = dd.load_model(path)
    np.testing.assert_array_equal(loaded.predict(FRAME), model.predict(FRAME))
    shuffled = FRAME[list(FRAME.columns)[::-1]].assign(other=1)
    np.testing.assert_array_equal(loaded.predict(shuffled), model.predict(FRAME))
    again = loaded.estimator
    np.testing.assert_array_equal(again.predict_proba(FRAME), model.predict_proba(FRAME))
    assert again.columns_ == model.columns_
    assert again.n_features_in_ == FRAME.shape[1]
    assert list(again.feature_names_in_) == list(FRAME.columns)
    with pytest.raises(ValueError, match="leave out columns="):
        dd.save_model(model, path, Columns.learn(FRAME))
    json.dumps(model.columns_.to_dict())


def test_gaps_are_filled_by_loaded_models_too(tmp_path):
    X = RNG.normal(size=(50, 2))
    model = dd.DecoupledRegressor(features="linear", ridge=1.0).fit(X, X[:, 0])
    loaded = dd.load_model(dd.save_model(model, tmp_path / "model.safetensors")).estimator
    new = [[0.5, np.nan]]
    np.testing.assert_array_equal(loaded.predict(new), model.predict(new))


def test_times_of_the_rows():
    columns = Columns.learn(FRAME.assign(date_of_birth=FRAME["seen"], year=2000 + FRAME.index % 7))
    assert time_columns(columns) == {
        "seen": columns.names.index("seen"),
        "year": columns.names.index("year"),
    }
    model = cheap().fit(FRAME, Y)
    assert set(model._times) == {"seen"}


def test_times_of_a_matrix_are_an_option(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    X[:, 2] = np.arange(120)
    y = X[:, 0] + 6 * (X[:, 2] > 60) * (X[:, 1] > 0) + 0.3 * rng.normal(size=120)

    def drifts(**options):
        model = dd.DecoupledRegressor(features="linear", ridge=1.0, **options).fit(X, y)
        return model, [one.status for one in model.diagnostics_.findings if one.name == "drift"]

    model, told = drifts(time_columns={"sold": 2}, plain_columns=["a"])
    assert told == ["caution"]
    assert drifts(time_columns={})[1] == []
    save_model(model, tmp_path / "model.safetensors")
    loaded = load_model(tmp_path / "model.safetensors").estimator
    assert loaded.time_columns is None  # only a training needs it
    assert list(loaded.plain_columns) == ["a"]


def a_table(n=90):
    rng = np.random.default_rng(0)
    columns = {"a": rng.normal(size=n), "b": rng.normal(size=n), "town": rng.choice([*"xyz"], n)}
    frame = pd.DataFrame(columns | {"site": np.arange(n) // 3})
    return frame, pd.Series(2 * frame["a"] + (frame["town"] == "x") + rng.normal(size=n), name="y")


def test_labels_by_name_and_lazy_tables():
    frame, y = a_table()
    whole = frame.assign(y=y)
    model = dd.DecoupledRegressor(features="linear")
    expected = model.fit(frame, y, groups="site").predict(frame)
    lazy = polars.from_pandas(whole).lazy()
    for table in (whole, polars.from_pandas(whole), lazy):
        assert (model.fit(table, "y", groups="site").predict(table) == expected).all()
    with pytest.raises(ValueError, match="y='z' names no column of X; columns are"):
        model.fit(whole, "z")


def test_another_order_of_columns_has_a_remedy():
    frame, y = a_table()
    model = dd.DecoupledRegressor(features="linear").fit(frame, y)
    for other in (frame[frame.columns[::-1]], frame.assign(more=1)):
        with pytest.raises(
            ValueError, match=r"names should match(.|\n)*Pass X\[model.feature_names"
        ):
            model.predict(other)
        assert (model.predict(other[model.feature_names_in_]) == model.predict(frame)).all()
    with pytest.raises(ValueError, match="yet now missing") as error:
        model.predict(frame[["a", "b"]])
    assert "Pass X[" not in str(error.value)


def test_importances_for_selectors():
    frame, y = a_table()
    model = dd.DecoupledRegressor(features="linear").fit(frame, y)
    found = model.feature_importances_
    rises = {one.column: one.rise for one in dd.analyses.importance(model, frame)}
    assert found.tolist() == [max(0.0, rises.get(name, 0.0)) for name in frame]
    assert found is model.feature_importances_
    names = model.get_feature_names_out().tolist()
    assert names[:2] == ["a", "b"]
    assert "town=x" in names
    numbers = frame[["a", "b", "site"]]
    assert SelectFromModel(clone(model)).fit(numbers, y).get_support().tolist() == [
        True,
        False,
        False,
    ]
    chosen = RFECV(clone(model), cv=3).fit(numbers.to_numpy(), y).support_
    assert chosen[0]
    with pytest.raises(AttributeError, match="needs the rows of fit"):
        _ = pickle.loads(pickle.dumps(model)).feature_importances_
    assert "_rows" not in vars(clone(model))
