"""Models on disk: the same predictions, and one clear line for every file that is not one."""

import dataclasses
import functools
import json
import os

import numpy as np
import pandas as pd
import polars
import pytest
import scipy.sparse
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

import decoupled_descent as dd
from decoupled_descent.tables.columns.rules import Columns
from decoupled_descent.tables.estimators.saving import load_model, save_model
from decoupled_descent.tensor_file import (
    CHECKSUM,
    DESCRIPTION,
    content_checksum,
    is_model,
)
from tests.tables.estimators.problems import binary

FAST = {"features": "linear", "ridge": 1.0}


def drawn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)) * [1, 10, 0.1, 1] + [0, 5, 0, 2]
    signal = X[:, 0] + X[:, 1] / 10 - 0.5 + 0.5 * rng.normal(size=60)
    return X, signal, rng.normal(size=(33, 4)) * 3


X, SIGNAL, NEW = drawn()
CODES = np.digitize(SIGNAL, [-0.7, 0.7])


@functools.cache
def classifier(kind="text", **options):
    labels = {
        "text": np.array(["low", "mid", "high"], dtype=object)[CODES],
        "unicode": np.array(["ä", "öö", "\N{SNOWMAN}"])[CODES],
        "whole": CODES.astype(np.int64) * 5 - 3,
        "small": CODES.astype(np.uint8),
        "float": CODES * 2.0 - 1,
        "truth": CODES > 0,
        "two": np.array(["no", "yes"], dtype=object)[(CODES > 0).astype(int)],
    }[kind]
    return dd.DecoupledClassifier(**FAST | options).fit(X, labels)


@functools.cache
def regressor(**options):
    return dd.DecoupledRegressor(**FAST | options).fit(X, 1000 * SIGNAL + 7)


def round_trip(model, folder, **options):
    return load_model(save_model(model, folder / "model.safetensors", **options))


@pytest.mark.parametrize("kind", ["text", "unicode", "whole", "small", "float", "truth", "two"])
def test_classifiers_predict_the_same_bits(tmp_path, kind):
    model = classifier(kind)
    loaded = round_trip(model, tmp_path, target="y")
    assert (loaded.task, loaded.target, loaded.columns) == ("classification", "y", None)
    again = loaded.estimator
    np.testing.assert_array_equal(again.predict_proba(NEW), model.predict_proba(NEW))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    labels = loaded.predict(NEW)
    assert labels.tolist() == model.predict(NEW).tolist()
    assert again.classes_.dtype == model.classes_.dtype
    assert [type(one) for one in again.classes_.tolist()] == [
        type(one) for one in model.classes_.tolist()
    ]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"features": "rbf(1)"},
        {"features": "auto", "ridge": "auto"},
        {"stack": False},
        {"members": ("random forest",)},
    ],
)
def test_regressors_predict_the_same_bits(tmp_path, options):
    model = regressor(**options)
    loaded = round_trip(model, tmp_path)
    np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))
    loaded.estimator.fit(X[:40], SIGNAL[:40])  # as trainable as the original


def test_everything_known_of_the_training_is_kept(tmp_path):
    model = dd.DecoupledClassifier(features="linear").fit(X, CODES > 0)
    loaded = round_trip(model, tmp_path)
    again = loaded.estimator
    for name in (
        *("estimated_test_error_", "estimated_test_error_stderr_", "estimated_accuracy_"),
        *("estimated_accuracy_stderr_", "best_iter_", "n_iter_", "stop_reason_", "candidates_"),
        *("diagnostics_", "n_features_in_"),
    ):
        assert getattr(again, name) == getattr(model, name), name
    assert len(again.candidates_) > 1
    for name in ("train_error_curve_", "train_error_stderr_curve_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    assert again.get_params() == model.get_params()
    assert again.plot_training().axes
    assert loaded.metadata["library"] == dd.__version__
    assert loaded.metadata["verdict"] == model.diagnostics_.verdict
    assert loaded.metadata["chosen"]["ridge"] == model.algorithm_.ridge
    r2 = round_trip(regressor(), tmp_path).estimator
    assert r2.estimated_r2_ == regressor().estimated_r2_


def test_constant_columns_and_names(tmp_path):
    table = pd.DataFrame(X, columns=list("abcd")).assign(same=3.0)
    options = FAST | {"random_state": None}
    model = dd.DecoupledClassifier(**options).fit(table, CODES > 0)
    loaded = round_trip(model, tmp_path).estimator
    assert loaded.get_params() == model.get_params()
    assert loaded.feature_names_in_.tolist() == [*"abcd", "same"]
    np.testing.assert_array_equal(loaded.predict_proba(table), model.predict_proba(table))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(table[["b", "a", "c", "d", "same"]])
    loaded.fit(table, CODES > 0)


def test_with_columns_a_table_is_predicted(tmp_path):
    table = pd.DataFrame(X[:, :2], columns=["a", "b"]).assign(
        town=np.where(X[:, 2] > 0, "Ulm", "Bonn"), id=range(60)
    )
    columns = Columns.learn(table)
    model = dd.DecoupledRegressor(**FAST).fit(columns.apply(table), SIGNAL)
    loaded = round_trip(model, tmp_path, columns=columns, target="price")
    assert loaded.columns == columns
    shuffled = table[["town", "b", "a"]].assign(new="?")
    matrix = columns.apply(table)
    np.testing.assert_array_equal(loaded.predict(shuffled), model.predict(matrix))
    ends = model.predict_interval(matrix, 0.8)
    np.testing.assert_array_equal(loaded.predict_interval(shuffled, 0.8), ends)
    with pytest.raises(ValueError, match="lacks 'b'"):
        loaded.predict(table.drop(columns="b"))
    with pytest.raises(ValueError, match="predict_proba is for classification, but this is a regr"):
        loaded.predict_proba(table)
    with pytest.raises(dataclasses.FrozenInstanceError):
        loaded.target = "other"


def test_tables_of_polars(tmp_path):
    table = pd.DataFrame({"a": X[:, 0], "town": np.where(CODES > 1, "Ulm", "Bonn")})
    columns = Columns.learn(table)
    model = dd.DecoupledClassifier(**FAST).fit(columns.apply(table), CODES > 0)
    loaded = round_trip(model, tmp_path, columns=columns, target="y")
    frame = polars.DataFrame({name: table[name].tolist() for name in table.columns})
    np.testing.assert_array_equal(loaded.predict(frame), loaded.predict(table))
    expected = model.predict_proba(columns.apply(table))
    np.testing.assert_array_equal(loaded.predict_proba(frame), expected)
    with pytest.raises(ValueError, match=r"predict_interval is for regression.*use predict_proba"):
        loaded.predict_interval(frame)
    with pytest.raises(ValueError, match=r"pandas\.DataFrame is needed, not builtins\.list"):
        loaded.predict([[1.0, "Ulm"]])


def test_a_folder_and_strange_names(tmp_path):
    folder = tmp_path / "runs [v1] ü"
    folder.mkdir()
    path = save_model(regressor(), str(folder / "model.safetensors"))
    assert os.listdir(folder) == ["model.safetensors"]
    save_model(classifier(), path)  # replaces it
    assert load_model(folder).task == load_model(str(path)).task == "classification"
    assert is_model(path)
    assert not is_model(folder)


def test_what_cannot_be_saved(tmp_path):
    for bad in (dd.DecoupledClassifier(), nn.Linear(1, 1), None):
        with pytest.raises(ValueError, match="must be a fitted classifier or regressor"):
            save_model(bad, tmp_path / "a")
    mixed = classifier("text")
    before = mixed.classes_
    try:
        mixed.classes_ = np.array([1, "b", 2.5], dtype=object)
        with pytest.raises(ValueError, match=r"\[1, 'b', 2.5\].*cannot be saved; use whole"):
            save_model(mixed, tmp_path / "a")
    finally:
        mixed.classes_ = before
    with pytest.raises(OSError, match=r"cannot be written \(No such file"):
        save_model(regressor(), tmp_path / "absent" / "a")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="cannot be written"):
        save_model(regressor(), tmp_path / "folder")
    assert os.listdir(tmp_path) == ["folder"]
    assert not os.listdir(tmp_path / "folder")


def refused(path, kind=ValueError):
    with pytest.raises(kind) as caught:
        load_model(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


@pytest.mark.parametrize("model", [classifier, regressor])
def test_any_changed_byte_is_noticed(tmp_path, model):
    path = save_model(model(), tmp_path / "model.safetensors")
    complete = path.read_bytes()
    places = np.random.default_rng(1).choice(len(complete), 250, replace=False)
    for place in {*range(16), *places.tolist(), len(complete) - 1}:
        spoilt = bytearray(complete)
        spoilt[place] ^= 1 << int(place) % 7
        path.write_bytes(spoilt)
        refused(path)


def test_truncated_and_extended_files(tmp_path):
    path = save_model(classifier(), tmp_path / "model.safetensors")
    complete = path.read_bytes()
    for length in (0, 1, 7, 8, 9, 100, len(complete) // 2, len(complete) - 1):
        path.write_bytes(complete[:length])
        refused(path)
    path.write_bytes(complete + b"\0")
    refused(path)


def test_files_of_other_programs(tmp_path):
    path = tmp_path / "model.safetensors"
    save_file({"theta": torch.zeros(2)}, path)
    assert "is not a model or checkpoint of decoupled-descent" in refused(path)
    save_file({"theta": torch.zeros(2)}, path, {"format": "pt"})
    assert "is not a model" in refused(path)
    for content in (b"a,b\n1,2\n", b"\x80\x04\x95", b"\xff" * 50, b"PK\x03\x04" + bytes(60)):
        path.write_bytes(content)
        assert "is not a model" in refused(path)
    save_file({}, path, {DESCRIPTION: "{}", CHECKSUM: "0"})
    assert "checksum" in refused(path)
    path.unlink()
    assert "does not exist" in refused(path, FileNotFoundError)


def resigned(path, change):
    """Change a model's content or tensors, with a checksum that fits again."""
    with safe_open(path, "pt") as file:
        content = json.loads(file.metadata()[DESCRIPTION])
    tensors = load_file(path)
    content = change(content, tensors) or content
    text = content if isinstance(content, str) else json.dumps(content)
    save_file(tensors, path, {DESCRIPTION: text, CHECKSUM: content_checksum(tensors, text)})


def put(*keys, value):
    def change(content, tensors):
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return change


def test_resigning_alone_changes_nothing(tmp_path):
    path = save_model(classifier(), tmp_path / "model.safetensors")
    resigned(path, lambda content, tensors: None)
    np.testing.assert_array_equal(load_model(path).predict(NEW), classifier().predict(NEW))


def test_classes_take_no_more_memory_than_their_texts(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 2))
    labels = np.where(X[:, 0] > 0, "yes", "no").astype("<U500")
    model = dd.DecoupledClassifier(**FAST).fit(X, labels)
    path = save_model(model, tmp_path / "model.safetensors")
    assert load_model(path).estimator.classes_.dtype == "<U3"
    resigned(path, put("classes", "dtype", value="<U9999999"))
    with pytest.raises(ValueError, match="wider than any of them"):
        load_model(path)


def test_arguments_of_save_model_in_the_wrong_order(tmp_path):
    with pytest.raises(ValueError, match=r"estimator='a.safetensors' must be a fitted"):
        save_model("a.safetensors", regressor())


def test_a_loaded_model_takes_sparse_rows_as_before(tmp_path):
    X, y = binary(80)
    X = scipy.sparse.csr_matrix(np.where(np.abs(X) > 0.5, X, 0.0))
    model = dd.DecoupledClassifier(features="linear", ridge=1.0).fit(X, y)
    again = dd.load_model(dd.save_model(model, tmp_path / "model.safetensors")).estimator
    assert again.model_.sparse
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    dense = dd.DecoupledClassifier(features="linear", ridge=1.0).fit(X.toarray(), y)
    again = dd.load_model(dd.save_model(dense, tmp_path / "dense.safetensors")).estimator
    np.testing.assert_allclose(again.predict_proba(X), dense.predict_proba(X.toarray()))
