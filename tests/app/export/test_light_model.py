"""Models that predict without PyTorch: the same numbers, or the usual loader."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.app.export.light_model import load_light
from decoupled_descent.tables.columns.rules import Columns
from decoupled_descent.tables.estimators.saving import load_model, save_model
from tests.tables.estimators.test_saving import resigned

KINDS = {
    "classes": (dd.DecoupledClassifier, {}, 2),
    "many classes": (dd.DecoupledClassifier, {}, 4),
    "no signal": (dd.DecoupledClassifier, {}, 2),
    "numbers": (dd.DecoupledRegressor, {}, 0),
    "logarithms": (dd.DecoupledRegressor, {"log_target": True}, 0),
    "grouped": (dd.DecoupledRegressor, {"features": "linear"}, 0),
}


def table(rows=90):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(rows, 5))).rename(columns="c{}".format)
    frame["town"] = rng.choice([*"abc"], rows)
    return frame


def labels(frame, classes):
    signal = frame["c0"] + frame["c1"] * frame["c2"] + (frame["town"] == "a")
    if classes:
        return pd.qcut(signal, classes, labels=False).map("k{}".format).to_numpy()
    return np.exp(signal.to_numpy() / 2)


@pytest.fixture(scope="module", params=list(KINDS))
def saved(request, tmp_path_factory):
    """The file of a model that was trained with a table."""
    made, options, classes = KINDS[request.param]
    frame = table()
    columns = Columns.learn(frame)
    groups = np.arange(len(frame)) // 2 if request.param == "grouped" else None
    y = labels(frame, classes)
    y = y if request.param != "no signal" else np.random.default_rng(0).permutation(y)
    model = made(**options, random_state=0).fit(columns.apply(frame), y, groups=groups)
    if request.param == "no signal":
        assert "constant" in {one.model.kind for one in model.mixture_.others}
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    return save_model(model, path, columns, "y")


def rows_of(saved):
    """New rows, some far from those of the training, one with a missing number."""
    frame = table(40)
    X = load_model(saved).columns.apply(frame)
    X[:10, :5] *= 3
    X[3, 1] = np.nan
    return X


def test_the_predictions_are_those_of_the_estimator(saved):
    light, usual, X = load_light(saved), load_model(saved), rows_of(saved)
    assert light is not None
    if light.task == "classification":
        expected, found = (one.on_matrix.predict_proba(X) for one in (usual, light))
        assert light.estimator.classes_.tolist() == usual.estimator.classes_.tolist()
    else:
        expected, found = (one.on_matrix.predict(X) for one in (usual, light))
        ends, same = (one.on_matrix.predict_interval(X, 0.9) for one in (usual, light))
        np.testing.assert_allclose(same, ends, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)


def test_the_estimates_are_those_of_the_estimator(saved):
    light, usual = load_light(saved), load_model(saved)
    score = "estimated_accuracy_" if usual.task == "classification" else "estimated_r2_"
    for name in ("estimated_test_error_", "estimated_test_error_stderr_", score,
                 "estimated_test_error_interval_", f"{score}interval_", "n_features_in_",
                 "_error_name"):  # fmt: skip
        assert getattr(light.estimator, name) == getattr(usual.estimator, name)
    assert (light.task, light.target) == (usual.task, usual.target)
    assert light.metadata["verdict"] == usual.metadata["verdict"]
    assert light.columns.to_dict() == usual.columns.to_dict()


def test_intervals_that_too_few_rows_cannot_give(saved):
    """90 rows cannot give 99.9 %: the ends are infinite, of logarithms 0 and infinite."""
    light, usual, X = load_light(saved), load_model(saved), rows_of(saved)
    if light.task == "regression":
        found, expected = (one.on_matrix.predict_interval(X, 0.999) for one in (light, usual))
        np.testing.assert_array_equal(found, expected)
        assert np.isinf(found[:, 1]).all()


def test_other_files_are_left_to_the_usual_loader(saved, tmp_path):
    damaged = tmp_path / "damaged.safetensors"
    content = bytearray(saved.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(bytes(content))
    assert load_light(damaged) is None
    assert load_light(tmp_path / "absent.safetensors") is None
    edited = tmp_path / "edited.safetensors"
    edited.write_bytes(saved.read_bytes())

    def change(content, tensors):
        content["mixture"]["members"][0]["share"] += 0.5

    resigned(edited, change)
    assert load_light(edited) is None


def test_predicting_a_small_table_imports_neither_torch_nor_scikit_learn(tmp_path):
    frame = table()
    columns = Columns.learn(frame)
    model = dd.DecoupledClassifier(features="linear").fit(columns.apply(frame), labels(frame, 2))
    save_model(model, tmp_path / "m.safetensors", columns, "y")
    frame.to_csv(tmp_path / "t.csv", index=False)
    program = (
        "import sys\nfrom decoupled_descent.app.cli import main\n"
        f"sys.argv = ['decoupled', 'predict', {str(tmp_path / 'm.safetensors')!r}, "
        f"{str(tmp_path / 't.csv')!r}, '--json']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "slow = {'torch', 'sklearn', 'matplotlib'} & set(sys.modules)\n"
        "assert not slow, slow\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    found = json.loads(done.stdout)["probabilities"]["k1"]
    expected = model.predict_proba(columns.apply(frame))[:, 1]
    np.testing.assert_allclose(found, expected, atol=1e-10)
    assert torch.tensor(found).std() > 0
