"""Predictions: of models of all kinds, and without formulas for spreadsheets."""

import io
import json

import numpy as np
import pandas as pd

import decoupled_descent as dd
from decoupled_descent.tables.estimators.saving import save_model
from tests.app.cli.conftest import table

NEW = table(40, seed=1)


def saved(tmp_path, frame, name="new.csv", **options):
    path = tmp_path / name
    frame.to_csv(path, index=False, **options)
    return path


def test_a_model_trained_in_python(run, tmp_path):
    X = NEW[["a", "b"]].to_numpy()
    options = {"features": "linear", "ridge": 1.0}
    bare = dd.DecoupledClassifier(**options).fit(X, NEW["answer"])
    path = save_model(bare, tmp_path / "bare.safetensors")
    np.save(tmp_path / "new.npy", X)
    found = pd.read_csv(io.StringIO(run("predict", path, tmp_path / "new.npy")[1]))
    assert found["prediction"].tolist() == bare.predict(X).tolist()
    named = dd.DecoupledClassifier(**options).fit(NEW[["a", "b"]], NEW["answer"])
    path = save_model(named, tmp_path / "named.safetensors", target="answer")
    data = saved(tmp_path, NEW[["town", "b", "answer", "a"]])
    found = json.loads(run("predict", path, data, "--json")[1])
    assert found["predictions"] == named.predict(NEW[["a", "b"]]).tolist()
    assert found["actual"]["score"] == named.score(NEW[["a", "b"]], NEW["answer"])
    for frame, words in (
        (NEW[["a", "answer"]], "lacks 'b'"),
        (NEW[["a", "b"]].assign(b="x"), "column 'b', row 1: 'x' is not a number"),
    ):
        status, _, err = run("predict", path, saved(tmp_path, frame))
        assert status == 2
        assert words in err
    gaps = saved(tmp_path, NEW[["a", "b"]].assign(b=np.nan))
    found = json.loads(run("predict", path, gaps, "--json")[1])
    filled = NEW[["a"]].assign(b=NEW["b"].median())
    assert found["predictions"] == named.predict(filled).tolist()
    np.save(tmp_path / "wide.npy", np.c_[X, X])
    status, _, err = run("predict", tmp_path / "bare.safetensors", tmp_path / "wide.npy")
    assert status == 2
    assert "the table has 4 columns, and the model was trained with 2" in err


def test_true_and_false(run, tmp_path):
    frame = NEW[["a", "b"]].assign(answer=np.where(NEW["answer"] == "yes", "true", "false"))
    data = saved(tmp_path, frame)
    run("train", data, "--target", "answer", "--out", tmp_path / "o", "--ridge", "1")
    found = json.loads(run("predict", tmp_path / "o", data, "--json")[1])
    assert set(found["predictions"]) == {"true", "false"}  # as they were written
    assert (found["actual"]["rows"], found["actual"]["remark"]) == (40, "")


def test_texts_that_a_spreadsheet_would_run(run, tmp_path):
    names = {"yes": "=HYPERLINK(1)", "no": "-"}
    data = saved(tmp_path, NEW[["a", "b"]].assign(answer=NEW["answer"].map(names)))
    run("train", data, "--target", "answer", "--out", tmp_path / "o", "--ridge", "1")
    status, text, err = run("predict", tmp_path / "o", data)
    assert status == 0
    shown = pd.read_csv(io.StringIO(text))["prediction"]
    assert set(shown) == {"'=HYPERLINK(1)", "-"}
    assert f"note: {(shown != '-').sum()} texts look like formulas" in err
    found = json.loads(run("predict", tmp_path / "o", data, "--json")[1])
    assert set(found["predictions"]) == {"=HYPERLINK(1)", "-"}


def test_names_of_columns_are_no_formulas_either(run, tmp_path):
    """An identifier is carried into the predictions with its name."""
    frame = NEW[["a", "b", "answer"]].assign(**{"=cmd()": [f"\uff1d{k}" for k in range(len(NEW))]})
    data = saved(tmp_path, frame)
    options = ("--target", "answer", "--id", "=cmd()", "--out", tmp_path / "o", "--ridge", "1")
    assert run("train", data, *options)[0] == 0
    status, text, err = run("predict", tmp_path / "o", data)
    assert status == 0
    assert text.startswith("'=cmd(),prediction")
    assert pd.read_csv(io.StringIO(text))["'=cmd()"].str.startswith("'\uff1d").all()
    assert f"note: {len(NEW) + 1} texts look like formulas" in err
