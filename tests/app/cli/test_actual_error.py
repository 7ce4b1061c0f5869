"""Actual errors: values, unknown classes, and when a difference is noticed."""

import json

import numpy as np
import pytest

from decoupled_descent.app.cli import actual_error
from decoupled_descent.app.report.text import together
from decoupled_descent.tables.estimators.saving import load_model
from decoupled_descent.tables.prediction.saved import read_model
from tests.app.cli.conftest import table

NEW = table(40, seed=1)


def saved(tmp_path, frame, name="new.csv", **options):
    path = tmp_path / name
    frame.to_csv(path, index=False, **options)
    return path


def test_actual_error_of_classes(run, tmp_path, trained):
    model = load_model(trained / "answer")
    labelled = NEW[["a", "b", "town", "answer"]].copy()
    labelled.loc[[0, 5], "answer"] = np.nan
    data = saved(tmp_path, labelled)
    found = json.loads(run("predict", trained / "answer", data, "--json")[1])
    shares = model.estimator.predict_proba(model.features(labelled))
    losses = [
        -np.log(shares[k, ["no", "yes"].index(label)])
        for k, label in enumerate(labelled["answer"])
        if isinstance(label, str)
    ]
    assert found["rows"] == len(found["predictions"]) == 40
    assert found["actual"]["rows"] == len(losses) == 38
    assert found["actual"]["error"] == pytest.approx(np.mean(losses))
    assert found["actual"]["stderr"] == pytest.approx(np.std(losses, ddof=1) / 38**0.5)
    assert found["estimated_test_error"] == model.estimator.estimated_test_error_
    assert found["verdict"] == model.estimator.diagnostics_.verdict
    np.testing.assert_allclose(found["probabilities"]["yes"], shares[:, 1])
    status, _, err = run("predict", trained / "answer", data)
    assert status == 0
    (shown,) = together([np.mean(losses)], found["actual"]["stderr"])
    assert f"log loss on these 38 rows   {shown}" in err
    assert "estimated at training" in err
    status, text, err = run("predict", trained / "answer", data, "--out", tmp_path / "o.csv")
    assert (status, err) == (0, "")
    assert "log loss on these 38 rows" in text
    right = 100 * found["actual"]["score"]
    assert f"  accuracy {right:.1f}\N{NO-BREAK SPACE}%, estimated at training " in text


def test_actual_error_of_quantities(run, tmp_path, trained):
    model = load_model(trained / "price")
    data = saved(tmp_path, NEW[["a", "b", "town", "price"]])
    found = json.loads(run("predict", trained / "price", data, "--json")[1])["actual"]
    misses = (model.predict(NEW) - NEW["price"]) ** 2
    assert found["error"] == pytest.approx(misses.mean())
    assert found["score"] == pytest.approx(model.estimator.score(model.features(NEW), NEW["price"]))
    assert f"  R² {found['score']:.3f}, estimated" in run("predict", trained / "price", data)[2]


def test_labels_of_other_kinds(run, tmp_path, trained):
    strange = NEW[["a", "b", "town", "answer"]].copy()
    strange.loc[:9, "answer"] = "maybe"
    found = json.loads(run("predict", trained / "answer", saved(tmp_path, strange), "--json")[1])
    assert found["actual"]["remark"].startswith("10 of the labels are classes that the model")
    assert found["actual"]["score"] <= 0.75
    assert (found["actual"]["rows"], found["actual"]["rows_in_error"]) == (40, 30)
    two = strange[["a", "b", "town"]][:3].assign(answer=["yes", "maybe", None])
    err = run("predict", trained / "answer", saved(tmp_path, two))[2]
    assert "note: 1 of the labels is a class that the model does not know" in err
    assert "log loss on this row " in err
    for bad, words in ((["maybe"] * 40, "none of the classes"), ([None] * 40, "has no values")):
        data = saved(tmp_path, NEW[["a", "b", "town"]].assign(answer=bad))
        status, text, err = run("predict", trained / "answer", data)
        assert (status, len(text.splitlines())) == (0, 41)
        assert err.startswith("note: no actual error: ")
        assert words in err
    data = saved(tmp_path, NEW[["a", "b", "town"]].assign(price="cheap"))
    status, text, err = run("predict", trained / "price", data)
    assert (status, len(text.splitlines())) == (0, 41)
    assert "holds text such as 'cheap'" in err
    floats = NEW[["a", "b", "town"]].assign(grade=NEW["grade"].astype(float))
    floats.loc[0, "grade"] = np.nan
    found = json.loads(run("predict", trained / "grade", saved(tmp_path, floats), "--json")[1])
    assert (found["actual"]["rows"], found["actual"]["remark"]) == (39, "")
    assert {type(one) for one in found["predictions"]} == {int}


def test_rows_of_another_kind_are_noticed(run, tmp_path, trained):
    far = NEW[["a", "b", "town"]].assign(price=NEW["price"] + 5000)
    err = run("predict", trained / "price", saved(tmp_path, far))[2]
    assert "The difference is significant" in err
    err = run("predict", trained / "price", saved(tmp_path, NEW))[2]
    assert "The difference is significant" not in err


@pytest.mark.parametrize("rows", [1, 2, 29])
def test_few_rows_tell_nothing(run, tmp_path, trained, rows):
    far = NEW[["a", "b", "town"]].assign(price=NEW["price"] + 5000)[:rows]
    err = run("predict", trained / "price", saved(tmp_path, far))[2]
    assert "The difference is significant" not in err
    assert err.count("95\u00a0% interval") == 2  # of the estimated error and score
    assert err.count("no interval") == 1
    assert f"{rows} row{'s are' if rows > 1 else ' is'} too few to test whether" in err


def test_false_alarms_are_rare(trained):
    """Skewed losses, such as squared errors, with the mean that was estimated."""
    model = read_model(trained / "price")
    error, *_ = actual_error.estimate(model)
    generator = np.random.default_rng(0)
    for rows in (30, 50, 200, 500):
        losses = error * generator.normal(size=(3000, rows)) ** 2
        means, errors = losses.mean(1), losses.std(1, ddof=1) / rows**0.5
        p_values = [
            actual_error.p_value(model, actual_error.ActualError(rows, rows, *pair, 0.0))
            for pair in zip(means, errors, strict=True)
        ]
        assert np.mean(np.array(p_values) < actual_error.UNLIKELY) < 0.01


def test_classes_are_found_however_a_file_was_typed(run, tmp_path):
    for classes in (["True", "False", "maybe"], ["01", "02", "x"], ["1.50", "2", "y"]):
        labels = NEW["grade"].map(dict(enumerate(classes, start=1)))
        data = saved(tmp_path, NEW[["a", "b"]].assign(answer=labels))
        arguments = ("--target", "answer", "--out", tmp_path / "o", "--ridge", "1")
        assert run("train", data, *arguments)[0] == 0
        whole = json.loads(run("predict", tmp_path / "o", data, "--json")[1])["actual"]
        assert (whole["rows_in_error"], whole["remark"]) == (40, "")
        some = (NEW["grade"] < 3).to_numpy()
        data = saved(tmp_path, NEW[["a", "b"]].assign(answer=labels)[some])
        found = json.loads(run("predict", tmp_path / "o", data, "--json")[1])
        assert (found["actual"]["rows_in_error"], found["actual"]["remark"]) == (some.sum(), "")
    assert actual_error.class_codes(["1", "01", "x"], ["01", "1", "x", 1, 1.0, "y"]).tolist() == [
        *(1, 0, 2, 0, 0, -1)
    ]
