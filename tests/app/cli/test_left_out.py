"""Rows that were trained on are recognised, and predicted as if they were new."""

import json

import numpy as np
import pandas as pd
import pytest

from decoupled_descent.app.cli import left_out
from tests.app.cli.conftest import table

FRAME = table(120).drop(columns=["grade", "price"])


@pytest.fixture
def trained_here(run, tmp_path):
    FRAME.to_csv(tmp_path / "train.csv", index=False)
    arguments = ("train", tmp_path / "train.csv", "--target", "answer", "--out", tmp_path / "o")
    return json.loads(run(*arguments, "--json")[1])


def test_the_training_table_gets_honest_predictions(run, tmp_path, trained_here):
    found = json.loads(run("predict", tmp_path / "o", tmp_path / "train.csv", "--json")[1])
    assert any("120 of the 120 rows are training rows" in note for note in found["notes"])
    counted = found["actual"]["score"]  # the estimate averages decisions over half-samples
    assert abs(counted - trained_here["estimated_score"]) < trained_here["estimated_score_stderr"]
    kept = pd.read_csv(tmp_path / "o" / "left_out.csv")
    assert found["predictions"] == kept["prediction"].tolist()
    np.testing.assert_allclose(found["probabilities"]["yes"], kept["probability_yes"])
    FRAME.sample(frac=1, random_state=1).to_csv(tmp_path / "again.csv", index=False)
    shuffled = json.loads(run("predict", tmp_path / "o", tmp_path / "again.csv", "--json")[1])
    assert shuffled["actual"]["score"] == pytest.approx(counted)


def test_training_rows_among_new_ones_are_recognised(tmp_path):
    """Rows without a target stand in the same file, or new ones below them."""
    X = np.random.default_rng(1).normal(size=(60, 3))
    lines = [f"{key:016x},{k},1,{k}.5" for k, key in enumerate(left_out.fingerprints(X[:40]))]
    names = "fingerprint,row,true y,prediction"
    (tmp_path / "left_out.csv").write_text("\n".join([names, *lines]))
    found = left_out.predictions_of_training_rows(tmp_path, X[::-1])
    np.testing.assert_array_equal(found[:20, 0], np.full(20, np.nan))
    np.testing.assert_array_equal(found[20:, 0], np.arange(39, -1, -1) + 0.5)
    assert left_out.predictions_of_training_rows(tmp_path, X[40:]) is None
    doubled = [names, *lines, *lines]  # equal rows are common: they can be a coincidence
    (tmp_path / "left_out.csv").write_text("\n".join(doubled))
    assert left_out.predictions_of_training_rows(tmp_path, X) is None
    assert left_out.predictions_of_training_rows(tmp_path, X[:40]) is not None


def test_new_rows_and_other_files_are_predicted_as_ever(run, tmp_path, trained_here):
    table(40, seed=5)[["a", "b", "town"]].to_csv(tmp_path / "new.csv", index=False)
    found = json.loads(run("predict", tmp_path / "o", tmp_path / "new.csv", "--json")[1])
    assert not any("trained on" in note for note in found["notes"])
    key = pd.read_csv(tmp_path / "o" / "left_out.csv")["fingerprint"]
    head = "fingerprint,row,prediction\n"
    others = ["", "hello", "fingerprint,row\n", f"{head}x,1,boo\n", "\0", "\n\n", f"{head}\n\n"]
    others += [f"{head}x,1,{'9' * 200_000}\n"]  # longer than a field may be
    others += [f"{head}" + "".join(f"{k},1\n" for k in key)]
    others += [f"{head}" + "".join(f"{k},1,2,{'3,' * (n % 3)}4\n" for n, k in enumerate(key))]
    for content in others:
        (tmp_path / "o" / "left_out.csv").write_text(content)
        status, text, _ = run("predict", tmp_path / "o", tmp_path / "train.csv", "--json")
        assert status == 0
        assert not any("are training rows" in note for note in json.loads(text)["notes"])
    (tmp_path / "o" / "left_out.csv").unlink()
    assert run("predict", tmp_path / "o", tmp_path / "train.csv", "--json")[0] == 0


def test_fingerprints_tell_rows_apart():
    X = np.random.default_rng(0).normal(size=(50, 3))
    keys = left_out.fingerprints(X)
    assert len(set(keys.tolist())) == 50
    np.testing.assert_array_equal(left_out.fingerprints(X[::-1]), keys[::-1])
    zeros = [left_out.fingerprints(np.array([[zero, 1.0]])) for zero in (0.0, -0.0)]
    np.testing.assert_array_equal(*zeros)


def test_the_table_is_the_same_in_parts(run, tmp_path, trained_here, monkeypatch):
    monkeypatch.setattr(left_out, "ROWS", 50)
    arguments = ("train", tmp_path / "train.csv", "--target", "answer", "--out", tmp_path / "parts")
    assert run(*arguments)[0] == 0
    texts = [(tmp_path / name / "left_out.csv").read_text() for name in ("o", "parts")]
    assert texts[0] == texts[1]
    assert texts[0].count("\n") == 121


@pytest.mark.parametrize("kind", ["edited", "of another training"])
def test_predictions_of_another_training_are_not_used(run, tmp_path, trained_here, kind):
    path = tmp_path / "o" / "left_out.csv"
    text = path.read_text()
    if kind == "edited":
        path.write_text(text.replace("0.", "0.9", 1))
    else:  # as after a crash between two renames
        FRAME.assign(a=-FRAME["a"]).to_csv(tmp_path / "b.csv", index=False)
        arguments = ("train", tmp_path / "b.csv", "--target", "answer", "--out", tmp_path / "b")
        run(*arguments, "--json", "--features", "linear", "--ridge", "1")
        path.write_text((tmp_path / "b" / "left_out.csv").read_text())
    found = json.loads(run("predict", tmp_path / "o", tmp_path / "train.csv", "--json")[1])
    assert left_out.FOREIGN in found["notes"]
    assert not any("are training rows" in note for note in found["notes"])
