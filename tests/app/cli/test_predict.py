"""``decoupled predict``: values, columns in any order, and where predictions go."""

import io
import sys

import numpy as np
import pandas as pd
import pytest

from decoupled_descent.app.cli import command
from decoupled_descent.app.cli.interval_columns import ENDS
from decoupled_descent.tables.estimators.saving import load_model
from tests.app.cli.conftest import FAST, SAID, table

NEW = table(40, seed=1)


def features(frame=NEW):
    return frame[["a", "b", "town"]]


def saved(tmp_path, frame, name="new.csv", **options):
    path = tmp_path / name
    frame.to_csv(path, index=False, **options)
    return path


@pytest.mark.parametrize("target", ["answer", "grade", "price"])
def test_predictions_are_the_models(run, tmp_path, trained, target):
    model = load_model(trained / target)
    expected = model.predict(features())
    status, text, err = run("predict", trained / target, saved(tmp_path, features()))
    assert (status, err) == (0, "")
    found = pd.read_csv(io.StringIO(text))
    expected = expected.round(2) if target == "price" else expected  # as in the table
    assert found["prediction"].tolist() == expected.tolist()
    if target == "price":
        assert list(found.columns) == ["prediction", *ENDS]
        return
    shares = model.estimator.predict_proba(model.features(features()))
    names = [f"probability_{label}" for label in model.estimator.classes_]
    assert list(found.columns) == ["prediction", *names]
    # sums of other copies of the rows are rounded differently: the library's depend on addresses
    np.testing.assert_allclose(found[names].to_numpy(), shares, rtol=1e-13)


def test_order_extra_columns_unknown_towns_and_missing_values(run, tmp_path, trained):
    straight = run("predict", trained / "price", saved(tmp_path, features()))[1]
    mixed = features()[["town", "b", "a"]].assign(spare=1, more="x")
    status, text, err = run("predict", trained / "price", saved(tmp_path, mixed))
    assert (status, text) == (0, straight)
    assert err == "note: columns that the model does not know are ignored: 'spare', 'more'\n"
    strange = features().assign(town="Atlantis")
    strange.loc[3, "a"] = np.nan
    status, text, err = run("predict", trained / "price", saved(tmp_path, strange))
    assert (status, len(text.splitlines())) == (0, 41)
    first, second = err.splitlines()
    assert first.startswith("note: 'a': 1 missing value replaced by the median, ")
    assert second == "note: 'town': 40 values not seen in training: 'Atlantis' (first in row 1)"
    assert np.isfinite(pd.read_csv(io.StringIO(text))["prediction"]).all()


def test_a_file_and_the_model_file_itself(run, tmp_path, trained):
    data, out = saved(tmp_path, features()), tmp_path / "out [1].csv"
    out.write_text("old")
    model = trained / "answer" / "model.safetensors"
    status, text, err = run("predict", model, data, "--out", out)
    assert (status, err, text) == (0, "", f"40 predictions: {out}\n")
    assert out.read_text() == run("predict", model, data)[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == [data.name, out.name]


def test_encodings_without_the_characters(tmp_path, trained, monkeypatch):
    data = saved(tmp_path, features())

    def encoded(*arguments):
        monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # typer replaces it
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="ascii") for _ in "oe")
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        status = command.answer([*map(str, arguments)])
        for stream in (out, err):
            stream.flush()
        return status, out.buffer.getvalue(), err.buffer.getvalue()

    status, _, printed = encoded("--help")
    assert (status, printed) == (0, b"")
    status, _, printed = encoded("predict", trained / "answer", data)
    assert (status, printed) == (0, b"")
    labels = np.where(NEW["answer"] == "yes", "schön", "übel")
    strange = saved(tmp_path, NEW[["a", "b"]].assign(answer=labels), "strange.csv")
    arguments = ("--target", "answer", "--out", tmp_path / "o", *FAST)
    status, text, printed = encoded("train", strange, *arguments)
    assert (status, printed.decode()) == (0, SAID)
    assert b"accuracy" in text
    status, text, printed = encoded("predict", tmp_path / "o", strange)
    assert (status, text) == (2, b"")
    assert b"encoding ascii, which lacks '" in printed
    assert b"use --out FILE" in printed
    assert encoded("predict", tmp_path / "o", strange, "--json")[0] == 0
