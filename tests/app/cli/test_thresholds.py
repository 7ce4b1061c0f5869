"""The class to find, and its threshold, from training to predictions."""

import io
import json

import numpy as np
import pandas as pd
import pytest

import decoupled_descent as dd
from tests.app.cli.conftest import table

LINEAR = ("--features", "linear", "--ridge", "1")


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "a.csv"
    table(120)[["a", "b", "town", "answer"]].to_csv(path, index=False)
    return path


def train(run, data, out, *options):
    given = ("train", data, "--target", "answer", "--out", out, *LINEAR, *options, "--json")
    status, text, err = run(*given)
    assert status == 0, err
    return json.loads(text)


def test_the_class_is_recognised_or_named(run, data, tmp_path):
    result = train(run, data, tmp_path / "o")
    assert result["class_to_find"] == "yes"
    assert any("'yes' is the class to find; --positive" in note for note in result["notes"])
    other = train(run, data, tmp_path / "p", "--positive", "no")
    assert other["class_to_find"] == "no"
    sensitivity, specificity = (result["measures"][k] for k in ("sensitivity", "specificity"))
    assert other["measures"]["sensitivity"] == specificity
    assert other["measures"]["specificity"] == sensitivity


def test_a_threshold_is_chosen_stored_and_used(run, data, tmp_path):
    out = tmp_path / "o"
    result = train(run, data, out, "--positive", "no", "--cost-ratio", "8")
    limit = result["threshold"]
    assert 0 < limit < 0.4
    assert any("rows are predicted as 'no' from a probability of" in one for one in result["notes"])
    saved = dd.load_model(out)
    assert saved.estimator.decision_rule_.threshold == limit
    assert (saved.predict(pd.read_csv(data)) == "no").sum() > 60

    def predicted(*options):
        status, text, err = run("predict", out, data, *options)
        assert status == 0, err
        return pd.read_csv(io.StringIO(text))

    for options, used in (
        ((), limit), (("--threshold", "0.7"), 0.7), (("--cost-ratio", "4"), 0.2),
    ):  # fmt: skip
        rows = predicted(*options)
        expected = np.where(rows["probability_no"] > used, "no", "yes")
        assert rows["prediction"].tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--threshold", "1.5"), "--threshold 1.5 must be between 0 and 1"),
        (("--cost-ratio", "-1"), "--cost-ratio -1 must be a positive number"),
        (("--threshold", "0.5", "--cost-ratio", "2"), "cannot be given together"),
    ],
)
def test_bad_thresholds(options, words, run, data, tmp_path):
    train(run, data, tmp_path / "o")
    status, _, err = run("predict", tmp_path / "o", data, *options)
    assert status == 2
    assert words in err


def test_bad_classes(run, data, tmp_path):
    given = ("train", data, "--target", "answer", "--out", tmp_path / "o", *LINEAR)
    for options, words in (
        (("--positive", "Yes"), "--positive 'Yes' is no class; did you mean 'yes'"),
        (("--cost-ratio", "0"), "--cost-ratio 0 must be a positive number"),
    ):
        status, _, err = run(*given, *options)
        assert status == 2
        assert words in err
    status, _, err = run(
        "train", data, "--target", "a", "--out", tmp_path / "o", *LINEAR, "--positive", "1"
    )
    assert status == 2
    assert "--positive is for two classes, but the target is a number" in err
