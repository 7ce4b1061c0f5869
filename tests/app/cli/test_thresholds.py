"""The class to find, and its threshold, from training to predictions."""

import importlib.util
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


def test_the_threshold_is_the_same_everywhere(run, data, tmp_path):
    """predict, load_model, the report, left_out.csv and the exported code decide alike."""
    out = tmp_path / "o"
    result = train(run, data, out, "--positive", "no", "--cost-ratio", "20")
    frame = pd.read_csv(data)
    new = frame.assign(a=frame["a"] + 0.01)  # no training rows
    new.drop(columns="answer").to_csv(tmp_path / "new.csv", index=False)
    said = pd.read_csv(io.StringIO(run("predict", out, tmp_path / "new.csv")[1]))["prediction"]
    loaded = dd.load_model(out).predict(new)
    assert loaded.tolist() == said.tolist()
    assert run("export", out, "--out", tmp_path / "e")[0] == 0
    code = tmp_path / "e" / "predictor.py"
    spec = importlib.util.spec_from_file_location("exported", code)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    exported = module.Predictor(tmp_path / "e" / "model.npz").predict(new.to_dict("records"))
    assert exported == said.tolist()
    assert (said == "no").sum() > (frame["answer"] == "no").sum()
    left_out = pd.read_csv(out / "left_out.csv")
    cases = left_out["true answer"] == "no"
    own = (left_out["prediction"] == "no")[cases].mean()
    assert result["measures"]["sensitivity"]["estimate"] == pytest.approx(own, abs=0.05)
    page = (out / "report.html").read_text()
    assert f"predictions with the threshold {result['threshold']:.3g}" in page
    assert "threshold 0.5." not in page
    assert "undefined" not in page


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
