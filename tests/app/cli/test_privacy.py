"""``--no-rows``: no value of a training row is in any file."""

import json
import re
import struct

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

import decoupled_descent as dd
from decoupled_descent.app.cli import privacy
from tests.app.cli.conftest import FAST, table

ROWS = 60


def private(seed=0):
    """Numbers with many digits, names, and dates; an even number of rows, so that no median is one.

    Prices have one outlier, which the report would name.
    """
    rng = np.random.default_rng(seed)
    frame = table(ROWS)
    frame["a"] += rng.uniform(0, 1e-3, ROWS)
    frame["b"] += rng.uniform(0, 1e-3, ROWS)
    frame["price"] += rng.uniform(0, 1, ROWS)
    frame.loc[7, "price"] = 54321.9876
    frame["cost"] = [f"${value:,.2f}" for value in rng.uniform(1e4, 9e4, ROWS)]
    frame.insert(0, "patient", [f"Smith{k * 7919:06d}" for k in range(ROWS)])
    return frame


def numbers_in(folder):
    """All numbers of the model's tensors, and of all texts."""
    values = [value.ravel() for value in load_file(folder / "model.safetensors").values()]
    texts = [path.read_text("utf-8", "replace") for path in folder.iterdir()]
    found = re.findall(r"-?\d+\.\d+(?:e-?\d+)?", " ".join(texts).replace(",", ""))
    return np.concatenate([*values, np.array(found, dtype=float)]).astype(float)


@pytest.mark.parametrize("target", ["answer", "grade", "price"])
def test_no_value_of_a_row_is_in_any_file(run, tmp_path, target):
    frame = private()
    others = [name for name in ("answer", "grade", "price") if name != target]
    frame.drop(columns=others).to_csv(tmp_path / "t.csv", index=False)
    given = ("train", tmp_path / "t.csv", "--target", target, "--id", "patient")
    out = tmp_path / "out"
    assert run(*given, "--out", out)[0] == 0
    held = numbers_in(out)
    cost = frame["cost"].str.replace("[$,]", "", regex=True).astype(float)
    columns = [frame["a"], frame["b"], cost, *([frame["price"]] if target == "price" else [])]
    inputs = np.concatenate([*columns])
    scaled = np.concatenate([(one - one.mean()) / one.std(ddof=0) for one in columns])
    values = np.concatenate([inputs, scaled])

    def shared(held):
        ordered = np.sort(held)
        places = np.searchsorted(ordered, values)
        gaps = [np.abs(ordered[(places + k).clip(0, len(held) - 1)] - values) for k in (-1, 0)]
        return int((np.minimum(*gaps) < 1e-9 * np.abs(values)).sum())

    assert (out / "left_out.csv").exists()
    assert "Smith" in (out / "report.html").read_text()
    assert shared(held) > ROWS  # as landmarks, for example
    status, text, _ = run(*given, "--out", out, "--no-rows")
    assert status == 0
    assert "the files hold no rows of the table" in text
    assert not (out / "left_out.csv").exists()
    assert shared(numbers_in(out)) == 0
    bits = [struct.pack(kind, value) for value in inputs for kind in ("<d", "<f")]
    for path in out.iterdir():
        content = path.read_bytes()
        assert b"Smith" not in content
        assert not [one for one in bits if one in content]


def test_predictions_and_intervals_of_a_model_without_rows(run, refused, tmp_path):
    table(ROWS)[["a", "b", "town", "price"]].to_csv(tmp_path / "t.csv", index=False)
    given = ("train", tmp_path / "t.csv", "--target", "price", "--no-rows", "--fast")
    assert run(*given, "--out", tmp_path / "o")[0] == 0
    saved = dd.load_model(tmp_path / "o")
    frame = table(20, seed=3)
    ends = saved.on_matrix.predict_interval(saved.features(frame), 0.9)
    widths = np.diff(ends, axis=1)
    np.testing.assert_allclose(widths, np.full_like(widths, widths[0]), rtol=1e-9)
    assert (np.abs(ends.mean(1) - saved.predict(frame)) < 1e-9 * widths[0]).all()
    residuals = load_file(tmp_path / "o" / "model.safetensors")["jackknife.residuals"][:, 0]
    assert (np.diff(residuals) >= 0).all()
    new = json.loads(run("predict", tmp_path / "o", tmp_path / "t.csv", "--json")[1])
    assert not any("training rows" in note for note in new["notes"])
    assert "--no-rows" in refused("compare", tmp_path / "o", tmp_path / "o")


def test_kernels_are_refused_and_linear_models_are_not(run, refused, tmp_path):
    table(ROWS)[["a", "b", "answer"]].to_csv(tmp_path / "t.csv", index=False)
    given = ("train", tmp_path / "t.csv", "--target", "answer", "--no-rows", "--out")
    assert "keeps training rows" in refused(*given, tmp_path / "o", "--features", "rbf")
    assert run(*given, tmp_path / "o", *FAST)[0] == 0
    assert not (tmp_path / "o" / "left_out.csv").exists()


def test_a_training_ends_with_what_its_files_hold(run, tmp_path):
    table(ROWS)[["a", "b", "answer"]].to_csv(tmp_path / "t.csv", index=False)
    given = ("train", tmp_path / "t.csv", "--target", "answer", *FAST)
    text = run(*given, "--out", tmp_path / "o")[1]
    assert text.rstrip().endswith(privacy.HELD.replace("`", ""))
    assert len(pd.read_csv(tmp_path / "o" / "left_out.csv")) == ROWS
