"""``--plain COLUMN``: values that were recognised as something else are taken as they are."""

import json

import numpy as np
import pandas as pd
import pytest

import decoupled_descent as dd


@pytest.fixture
def coded():
    """A column with -999, digits with leading zeros, and pairs; all of them decide the target."""
    rng = np.random.default_rng(0)
    level = rng.normal(0, 5, 160).round(1)
    level[:40] = -999
    weight = rng.integers(0, 300, 160)
    pair = rng.choice(["1/2", "2/1", "3/4"], 160)
    score = (level == -999) * 2.0 + weight / 100 + (pair == "2/1") + rng.normal(0, 0.3, 160)
    frame = pd.DataFrame({"the level": level, "weight": [f"{one:05d}" for one in weight]})
    return frame.assign(pair=pair, y=score.round(3))


def test_the_notes_name_the_option_and_the_option_undoes_it(run, tmp_path, coded):
    path, out = tmp_path / "coded.csv", tmp_path / "out"
    coded.to_csv(path, index=False)
    common = ("train", path, "--target", "y", "--out", out, "--features", "linear", "--fast")
    before = json.loads(run(*common, "--json")[1])
    notes = "\n".join(before["notes"])
    for words in (
        "-999 in 40 rows was taken as a missing value",
        "(--plain 'the level' if it is a number)",
        "(--plain weight if they are numbers)",
        "(--plain pair if they are names)",
    ):
        assert words in notes
    plain = ("--plain", "the level", "--plain", "weight", "--plain", "pair")
    after = json.loads(run(*common, *plain, "--json")[1])
    notes = "\n".join(after["notes"])
    assert "-999" not in notes
    assert "--plain" not in notes
    assert after["features"] == 5  # two numbers, and three texts
    assert after["estimated_score"] > before["estimated_score"] + 0.1  # the weight is a number now
    said = tmp_path / "said.csv"
    assert run("predict", out, path, "--out", said)[0] == 0
    predicted = pd.read_csv(said).iloc[:, 0].to_numpy()
    assert np.corrcoef(predicted, coded["y"])[0, 1] > 0.9
    assert run("export", out, "--out", tmp_path / "service")[0] == 0  # which compares predictions


def test_a_wrong_name_is_one_line(run, tmp_path, coded):
    coded.to_csv(tmp_path / "coded.csv", index=False)
    arguments = ("train", tmp_path / "coded.csv", "--target", "y", "--out", tmp_path / "out")
    status, _, error = run(*arguments, "--plain", "leve")
    assert status == 2
    assert "--plain 'leve' is not a column; did you mean 'the level'?" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_estimators_have_the_same_option(coded):
    X, y = coded.drop(columns="y"), coded["y"]
    usual = dd.DecoupledRegressor(features="linear").fit(X, y)
    plain = dd.DecoupledRegressor(features="linear", plain_columns=list(X)).fit(X, y)
    kinds = [list(one.columns_.summary()["used as"]) for one in (usual, plain)]
    assert kinds == [["number", "category", "pair"], ["number", "number", "category"]]
    assert plain.estimated_r2_ > usual.estimated_r2_ + 0.1
    with pytest.raises(ValueError, match="plain_columns has 'other'; columns are"):
        dd.DecoupledRegressor(plain_columns="other").fit(X, y)
