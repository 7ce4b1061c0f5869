"""``decoupled probe``: embeddings and labels from several kinds of files."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import decoupled_descent as dd


def clusters(n=120, d=30, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    return (rng.normal(size=(3, d))[y] + 2 * rng.normal(size=(n, d))).astype(np.float32), y


def test_a_file_with_both(run, tmp_path):
    (X, new), (y, truth) = (np.split(part, [120]) for part in clusters(3120))
    np.savez(tmp_path / "clip.npz", image_embeds=X, labels=y, ids=np.arange(120.0))
    status, text, err = run("probe", tmp_path / "clip.npz")
    assert (status, err) == (0, "")
    assert "clip.npz: classification, 120 rows, 30 dimensions" in text
    assert "Better than guessing? yes" in text
    assert "a linear model" not in text
    assert "Verdict" in text
    found = json.loads(run("probe", tmp_path / "clip.npz", "--json")[1])
    model = dd.DecoupledClassifier(features="linear").fit(X.astype(float), y)
    assert found["estimated_score"] == pytest.approx(model.estimated_accuracy_)
    noise = found["estimated_score_stderr"]
    assert abs(model.score(new, truth) - found["estimated_score"]) < 3 * noise


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".npz"])
def test_labels_in_a_file_of_their_own(run, tmp_path, suffix):
    X, y = clusters()
    np.save(tmp_path / "emb.npy", X)
    names = np.array(["cat", "dog", "eel"])[y]
    path = tmp_path / f"labels{suffix}"
    if suffix == ".npy":
        np.save(path, names)
    elif suffix == ".npz":
        np.savez(path, y=names)
    else:
        pd.DataFrame({"label": names}).to_csv(path, index=False)
    arguments = ("probe", tmp_path / "emb.npy", "--labels", path, "--json")
    found = json.loads(run(*arguments)[1])
    assert (found["rows"], found["dimensions"], found["task"]) == (120, 30, "classification")


def test_numbers_and_tables(run, tmp_path):
    X, _ = clusters()
    frame = pd.DataFrame(X).rename(columns=lambda k: f"e{k}")
    frame["target"] = np.array(["low", "high"])[(X[:, 0] > 0).astype(int)]
    frame.to_csv(tmp_path / "emb.csv", index=False)
    assert json.loads(run("probe", tmp_path / "emb.csv", "--json")[1])["dimensions"] == 30
    np.savez(tmp_path / "emb.npz", X=X, y=X[:, 0].astype(float))
    found = json.loads(run("probe", tmp_path / "emb.npz", "--json")[1])
    assert found["task"] == "regression"
    assert found["estimated_score"] > 0.9


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"X": np.ones((20, 2))}, "no labels found .it holds X .20, 2.*--labels FILE"),
        ({"y": np.arange(20)}, "no embeddings found"),
        ({"X": np.ones((20, 2)), "y": np.arange(19)}, "19 labels for 20 rows"),
        ({"X": np.full((20, 2), np.nan), "y": np.arange(20) % 2}, "must be finite numbers"),
        ({"X": np.ones((5, 2)), "y": np.arange(5) % 2}, "5 rows are too few"),
        ({"X": np.eye(20), "y": np.zeros(20)}, "in every row"),
    ],
)
def test_what_does_not_fit(run, tmp_path, arrays, words):
    np.savez(tmp_path / "e.npz", **arrays)
    status, out, err = run("probe", tmp_path / "e.npz")
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert re.search(words, err)
