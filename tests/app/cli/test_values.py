"""The command with values that lie."""

import json

import numpy as np
import pandas as pd

from tests.app.cli.conftest import FAST


def table(n=80):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(20, 60, n), "zip": rng.choice(["01067", "80331"], n)})
    frame["pressure"] = [f"{a}/{b}" for a, b in rng.integers(60, 140, (n, 2))]
    frame["y"] = np.where(frame["age"] + rng.normal(size=n) > 40, "yes", "no")
    frame.loc[::8, "age"] = -999
    return frame


def test_codes_names_and_pairs(run, tmp_path):
    data, out = tmp_path / "a.csv", tmp_path / "out"
    table().to_csv(data, index=False)
    status, text, err = run("train", data, "--target", "y", "--out", out, *FAST, "--json")
    assert status == 0, err
    notes = " ".join(json.loads(text)["notes"])
    assert "'age': -999 in 10 rows was taken as a missing value" in notes
    assert "'zip': text with 2 different values" in notes
    assert "turned into two columns" in notes
    table().assign(age=[-5, 1_000_000, *range(30, 108)]).to_csv(data, index=False)
    status, _, err = run("predict", out, data, "--out", tmp_path / "p.csv")
    status, text, _ = run("predict", out, data, "--json")
    assert status == 0
    assert "far outside the numbers of training" in " ".join(json.loads(text)["notes"])
