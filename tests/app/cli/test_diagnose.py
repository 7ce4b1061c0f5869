"""``decoupled diagnose``: the diagnosis of the scaled table, in words and as JSON."""

import json

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.tables.columns.rules import Columns
from decoupled_descent.tables.prediction.predictor import CLIP
from tests.app.cli.conftest import spoilt, table

FILES = {"model.safetensors", "report.html"}


def test_diagnosis_before_training(run, tmp_path, shop):
    status, text, err = run("diagnose", shop, "--target", "answer")
    assert (status, err) == (0, "")
    assert "classification of 'answer', 59 rows, 7 features" in text
    status, answer, _ = run("diagnose", shop, "--target", "answer", "--json")
    found = json.loads(answer)
    frame = spoilt().drop(columns=["grade", "price"]).dropna(subset="answer")
    X = Columns.learn(frame.drop(columns="answer").set_axis(frame.index + 1)).apply(frame)
    scaled = np.clip((X - X.mean(0)) / X.std(0), -CLIP, CLIP) / np.sqrt(X.shape[1])
    codes = torch.tensor((frame["answer"] == "yes").to_numpy())
    expected = dd.diagnose(
        torch.tensor(scaled).float(),
        codes.long(),
        task="classification",
        algorithm=dd.DecoupledNewton(1.0),
    )
    assert found["verdict"] == expected.verdict
    values = {one["name"]: one["value"] for one in found["findings"]}
    assert values == pytest.approx({one.name: one.value for one in expected.findings})
    sign = {"trust": "✓", "caution": "!", "do not trust": "✕"}[expected.verdict]
    assert f"Verdict: {sign} {expected.verdict}" in text
    assert all(f"{name}: " in text for name in values)


def test_diagnosis_of_a_quantity(run, tmp_path):
    table(200)[["a", "b", "price"]].to_csv(tmp_path / "data.csv", index=False)
    status, text, _ = run("diagnose", tmp_path / "data.csv", "--target", "price", "--json")
    found = json.loads(text)
    assert (status, found["task"], found["rows"]) == (0, "regression", 200)
    assert "smallest class" not in {one["name"] for one in found["findings"]}
    status, text, _ = run(
        "diagnose", tmp_path / "data.csv", "--target", "price", "--task", "classification"
    )
    assert status == 2
