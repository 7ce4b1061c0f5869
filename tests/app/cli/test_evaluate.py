"""``decoupled evaluate``: files of predictions, as words, as JSON, and one line for bad ones."""

import json

import numpy as np
import pandas as pd
import pytest

import decoupled_descent as dd


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    first, second = (
        1 / (1 + np.exp(-2 * (2 * y - 1) - noise * rng.normal(size=120))) for noise in (1, 4)
    )
    columns = {"patient": np.arange(120) // 3, "ill": np.where(y, "yes", "no")}
    return pd.DataFrame({**columns, "first": first.round(4), "second": second.round(4)})


def test_several_models(run, frame, tmp_path):
    path = tmp_path / "predictions.csv"
    frame.to_csv(path, index=False)
    given = ("evaluate", path, "--target", "ill", "--group", "patient")
    status, out, err = run(*given)
    assert (status, err) == (0, "")
    assert "The best is first" in out
    assert "first − second" in out
    content = json.loads(run(*given, "--json")[1])
    models = {name: frame[name].to_numpy() for name in ("first", "second")}
    found = dd.evaluate(predictions=models, y=frame["ill"], groups=frame["patient"])
    assert content["error"] == pytest.approx(found.error)
    assert content["interval"] == pytest.approx(found.interval)
    assert set(content["models"]) == {"first", "second"}
    assert content["pairs"][0]["models"] == ["first", "second"]


def test_predictions_are_trusted_on_your_word_alone(run, frame, tmp_path):
    path = tmp_path / "predictions.csv"
    frame.to_csv(path, index=False)
    given = ("evaluate", path, "--target", "ill", "--group", "patient")
    out = run(*given)[1]
    assert "pass --out-of-fold" in " ".join(out.split())
    assert "caution" in out.lower()
    assert json.loads(run(*given, "--out-of-fold", "--json")[1])["diagnosis"]["verdict"] == "trust"


def test_columns_of_classes_belong_to_one_model(run, frame, tmp_path):
    path = tmp_path / "predictions.csv"
    both = frame.assign(**{"m=yes": frame["first"], "m=no": 1 - frame["first"]})
    both[["ill", "m=no", "m=yes"]].to_csv(path, index=False)
    content = json.loads(run("evaluate", path, "--target", "ill", "--json")[1])
    found = dd.evaluate(predictions=frame["first"], y=frame["ill"])
    assert content["best"] == "m"
    assert content["error"] == pytest.approx(found.error, rel=1e-6)


def test_numbers_with_weights(run, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 2)), columns=["price", "model"])
    table["w"] = rng.uniform(1, 2, 60)
    path = tmp_path / "p.csv"
    table.to_csv(path, index=False)
    options = ("--target", "price", "--weight", "w")
    assert "mean squared error" in run("evaluate", path, *options)[1]
    content = json.loads(run("evaluate", path, *options, "--json")[1])
    squares = (table["price"] - table["model"]) ** 2
    assert content["error"] == pytest.approx(np.average(squares, weights=table["w"]))


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda one: one, ("--target", "sick"), "there is no column 'sick'"),
        (lambda one: one[["ill"]], ("--target", "ill"), "no columns of predictions"),
        (lambda one: one.assign(first=2.0), ("--target", "ill"), "remove others"),
        (
            lambda one: one.assign(w="1 kg"),
            ("--target", "ill", "--weight", "w"),
            "column 'w' holds weights",
        ),
        (
            lambda one: one.assign(first=one["first"].where(one.index > 0)),
            ("--target", "ill"),
            "missing values",
        ),
    ],
)
def test_bad_files_get_one_line(run, frame, tmp_path, change, options, message):
    path = tmp_path / "predictions.csv"
    change(frame).to_csv(path, index=False)
    status, _, err = run("evaluate", path, *options)
    assert status == 2
    assert message in " ".join(err.split())
    assert run("evaluate", tmp_path / "none.csv", "--target", "y")[0] == 2
