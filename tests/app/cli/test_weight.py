"""The command with weights of the rows."""

import json

import numpy as np
import pandas as pd
import pytest

import decoupled_descent as dd


def survey(n=300):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=n).round(3), "b": rng.normal(size=n).round(3)})
    frame["wt"], frame["stratum"] = rng.uniform(0.2, 4, n).round(2), rng.integers(1, 5, n)
    frame["y"] = (2 * frame["a"] + rng.normal(size=n)).round(3)
    return frame


def test_a_survey_with_and_without_its_weights(run, tmp_path):
    frame = survey()
    frame.to_csv(tmp_path / "s.csv", index=False)
    given = ("train", tmp_path / "s.csv", "--target", "y", "--features", "linear", "--ridge", "1")
    given = (*given, "--drop", "stratum", "--fast", "--out", tmp_path / "o", "--json")
    plain = json.loads(run(*given)[1])
    assert plain["verdict"] == "caution"
    (doubt,) = [one for one in plain["findings"] if one["name"] == "another kind of model"]
    assert "train with --weight wt" in doubt["reason"]
    weighted = json.loads(run(*given, "--weight", "wt")[1])
    assert weighted["features"] == plain["features"] - 1
    model = dd.DecoupledRegressor(features="linear", ridge=1.0, random_state=0)
    model.fit(frame[["a", "b"]].to_numpy(), frame["y"], sample_weight=frame["wt"])
    assert weighted["estimated_test_error"] == pytest.approx(model.estimated_test_error_)
    status, _, err = run(*given, "--weight", "wg")
    assert status == 2
    assert "--weight 'wg' is not a column; columns are" in err
