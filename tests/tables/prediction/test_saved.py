"""Model files, read for predictions without PyTorch: the numbers of the estimator."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.tables.columns.rules import Columns
from decoupled_descent.tables.estimators.saving import load_model, save_model
from decoupled_descent.tables.prediction.saved import read_model
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
    read, usual, X = read_model(saved), load_model(saved), rows_of(saved)
    if read.task == "classification":
        expected = usual.on_matrix.predict_proba(X)
        assert read.classes.tolist() == usual.estimator.classes_.tolist()
        assert (read.classes[read.decide(expected)] == usual.on_matrix.predict(X)).all()
    else:
        expected = usual.on_matrix.predict(X)[:, None]
        for level in (0.9, 0.999):  # 90 rows cannot give 99.9 %: the ends are infinite
            ends, same = usual.on_matrix.predict_interval(X, level), read.intervals(X, level)
            np.testing.assert_allclose(same, ends, rtol=1e-12, atol=1e-12)
        assert np.isinf(same[:, 1]).all()
    np.testing.assert_allclose(read.outputs(X), expected, rtol=1e-12, atol=1e-12)


def test_the_estimates_are_those_of_the_estimator(saved):
    read, usual = read_model(saved), load_model(saved)
    for name, found in (
        ("estimated_test_error_", read.error),
        ("estimated_accuracy_" if usual.task == "classification" else "estimated_r2_", read.score),
    ):
        parts = [getattr(usual.estimator, name + end) for end in ("", "stderr_", "interval_")]
        assert found == tuple(parts)
    assert (read.task, read.target) == (usual.task, usual.target)
    assert read.verdict == usual.metadata["verdict"]
    assert read.columns.to_dict() == usual.columns.to_dict()


def test_files_are_refused_in_the_words_of_load_model(saved, tmp_path):
    damaged, edited = tmp_path / "damaged.safetensors", tmp_path / "edited.safetensors"
    content = bytearray(saved.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(bytes(content))
    edited.write_bytes(saved.read_bytes())

    def change(content, tensors):
        content["mixture"]["members"][0]["share"] += 0.5

    resigned(edited, change)
    for path in (damaged, edited, tmp_path / "absent.safetensors"):
        with pytest.raises((ValueError, OSError)) as expected:
            load_model(path)
        with pytest.raises(expected.type) as found:
            read_model(path)
        assert str(found.value) == str(expected.value)


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
