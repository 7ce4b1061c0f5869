"""Predictions of numbers have intervals, which are those of the estimator."""

import io
import json

import numpy as np
import pandas as pd
import pytest

import decoupled_descent as dd
from decoupled_descent.app.cli.interval_columns import ENDS, LEVEL
from tests.app.cli.conftest import table


@pytest.fixture
def model(run, tmp_path):
    def train(*options, copies=1):
        frame = pd.concat([table(120)[["a", "b", "town", "price"]]] * copies)
        frame.to_csv(tmp_path / "t.csv", index=False)
        given = ("train", tmp_path / "t.csv", "--target", "price", "--fast", *options)
        assert run(*given, "--out", tmp_path / "o")[0] == 0
        return tmp_path / "o"

    return train


@pytest.mark.parametrize("options", [(), ("--log-target",)])
def test_intervals_are_those_of_the_estimator(run, tmp_path, model, options):
    folder = model(*options)
    frame = table(300, seed=8)
    frame.to_csv(tmp_path / "new.csv", index=False)
    found = pd.read_csv(io.StringIO(run("predict", folder, tmp_path / "new.csv")[1]))
    assert list(found.columns) == ["prediction", "lower_90", "upper_90"] == ["prediction", *ENDS]
    saved = dd.load_model(folder)
    wanted = saved.on_matrix.predict_interval(saved.features(frame), LEVEL)
    np.testing.assert_allclose(found[list(ENDS)], wanted, atol=0.01)
    assert (found["lower_90"] < found["prediction"]).all()
    inside = frame["price"].between(found["lower_90"], found["upper_90"]).mean()
    assert abs(inside - LEVEL) < 4 * np.sqrt(LEVEL * (1 - LEVEL) * (1 / 300 + 1 / 120))
    content = json.loads(run("predict", folder, tmp_path / "new.csv", "--json")[1])
    assert content["probabilities"] is None
    np.testing.assert_allclose(content["intervals"]["lower_90"], found["lower_90"])


def test_intervals_of_training_rows_go_with_their_predictions(run, tmp_path, model):
    folder = model()
    found = pd.read_csv(io.StringIO(run("predict", folder, tmp_path / "t.csv")[1]))
    kept = pd.read_csv(folder / "left_out.csv")
    np.testing.assert_allclose(found["prediction"], kept["prediction"], atol=0.01)
    assert (found["lower_90"] < found["prediction"]).all()
    inside = kept["true price"].between(found["lower_90"], found["upper_90"]).mean()
    assert abs(inside - LEVEL) < 0.06


def test_no_intervals_where_errors_are_not_trusted(run, tmp_path, model):
    folder = model("--features", "rbf", copies=2)
    status, out, err = run("predict", folder, tmp_path / "t.csv")
    assert status == 0
    assert out.splitlines()[0] == "prediction"
    assert "no lower and upper ends" in err
