"""Exported files predict as the model does, in a process without PyTorch and pandas."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.app.cli import command
from decoupled_descent.tables.prediction.predictor import Predictor
from tests.app.cli.conftest import table


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Models of two and of three classes, and of numbers, with all kinds of members."""
    folder = tmp_path_factory.mktemp("exported")
    for target in ("answer", "grade", "price"):
        frame = table(120)[["a", "b", "town", target]]
        frame.loc[[3, 9, 17, 40, 60, 80], "a"] = np.nan
        frame.to_csv(folder / f"{target}.csv", index=False)
        given = ["train", folder / f"{target}.csv", "--target", target, "--fast", "--out"]
        command.app([*map(str, given), str(folder / target)], standalone_mode=False)
        given = ["export", folder / target, "--out", folder / f"{target}-files"]
        command.app([*map(str, given)], standalone_mode=False)
    return folder


@pytest.mark.parametrize("target", ["answer", "grade", "price"])
def test_predictions_are_those_of_the_model(exported, target):
    frame = table(50, seed=6)[["a", "b", "town"]]
    frame.loc[5, "a"], frame.loc[6, "town"], frame.loc[7, "town"] = np.nan, "Rom", "ULM "
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    program = f"""
import json, sys
sys.path.insert(0, {str(exported / f"{target}-files")!r})
from predictor import Predictor
model = Predictor({str(exported / f"{target}-files" / "model.npz")!r})
rows = json.loads(sys.stdin.read())
shares = None if model.classes is None else model.predict_proba(rows)
print(json.dumps([model.predict(rows), shares]))
assert not {{"torch", "pandas", "sklearn", "scipy"}} & set(sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(rows), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    found, shares = json.loads(done.stdout)
    saved = dd.load_model(exported / target)
    if target == "price":
        np.testing.assert_allclose(found, saved.predict(frame), rtol=1e-5)
        return
    assert found == saved.predict(frame).tolist()
    wanted = saved.on_matrix.predict_proba(saved.features(frame))
    np.testing.assert_allclose([[*one.values()] for one in shares], wanted, atol=1e-5)


def assert_same(run, folder, frame):
    """The file predicts as the features of training do, with PyTorch."""
    assert run("export", folder / "o", "--out", folder / "e")[0] == 0
    rows = frame.to_dict("records")
    model = Predictor(folder / "e" / "model.npz")
    mixture = dd.load_model(folder / "o").estimator.mixture_
    X = torch.from_numpy(model.matrix(rows))
    expected = 0.0
    for one in mixture.members:
        kernel = getattr(one.features, "kernel_", one.features)
        inputs = X if kernel is one.features else one.features._expanded(X)
        phi = one.features.map_(kernel._raw(inputs))
        expected = expected + one.share * (phi @ one.theta.T + one.bias).numpy()
    assert not mixture.others
    np.testing.assert_allclose(model.mixture.predict(X.numpy()), expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    "features", ["rbf", "matern(2)", "laplace", "laplace1", "poly2", "arccos", "linear/ranks"]
)
def test_every_kernel(run, exported, tmp_path, features):
    given = ("train", exported / "price.csv", "--target", "price", "--fast", "--ridge", "0.1")
    assert run(*given, "--features", features, "--out", tmp_path / "o")[0] == 0
    assert_same(run, tmp_path, table(50, seed=6))


def test_the_web_service_of_the_page_answers(exported):
    """The block of the page, in a folder of exported files; its function is called."""
    page = Path(__file__).parents[2] / "docs" / "tables.md"
    (block,) = re.findall("```py\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    rows = [{"a": 0.1, "b": -0.2, "town": "Ulm"}, {"a": None, "b": 1.0, "town": "Bonn"}]
    program = f"{block}\nassert [r.path for r in app.routes if r.path == '/predict']\n"
    program += f"import json\nprint(json.dumps(predict({rows!r})))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True,
        cwd=exported / "answer-files",
    )  # fmt: skip
    assert set(json.loads(done.stdout)) <= {"yes", "no"}
    assert len(json.loads(done.stdout)) == 2


@pytest.mark.parametrize("features", ["linear/levels", "laplace1(1)/levels"])
def test_levels(run, tmp_path, features):
    rng = np.random.default_rng(0)
    frame = table(90)[["a", "price"]].assign(code=rng.integers(1, 5, 90))
    frame["price"] += 50.0 * (frame["code"] == 2)
    frame.to_csv(tmp_path / "t.csv", index=False)
    given = ("train", tmp_path / "t.csv", "--target", "price", "--fast", "--features", features)
    assert run(*given, "--out", tmp_path / "o")[0] == 0
    assert_same(run, tmp_path, frame)


def test_dates_money_units_sentences_and_pairs(run, tmp_path):
    """As the model does, in a process without pandas; what cannot be read is named."""
    rng, n = np.random.default_rng(0), 90
    days = pd.Timestamp("2023-03-01") + pd.to_timedelta(rng.integers(0, 900, n), "D")
    words = np.array(["slow", "fast", "red", "blue", "old", "new", "kind"])
    frame = pd.DataFrame(
        {
            "visit": days.strftime("%d.%m.%Y"),
            "seen": (days + pd.to_timedelta(rng.integers(0, 1440, n), "min")).astype(str),
            "cost": [f"${value:,.2f}" for value in rng.uniform(500, 5000, n)],
            "dose": [f"{value} mg" for value in rng.integers(1, 50, n)],
            "note": [f"it was {' '.join(rng.choice(words, 4))} today" for _ in range(n)],
            "pressure": [f"{a}/{b}" for a, b in rng.integers(60, 150, (n, 2))],
        }
    )
    frame.loc[[3, 8, 20], "cost"] = None
    frame.loc[[5, 9, 30], "visit"] = None
    signal = frame["dose"].str.removesuffix(" mg").astype(float) / 20
    target = np.where(signal + rng.normal(0, 0.3, n) > 1.2, "yes", "no")
    frame.assign(y=target).to_csv(tmp_path / "t.csv", index=False)
    given = ("train", tmp_path / "t.csv", "--target", "y", "--features", "linear", "--fast")
    assert run(*given, "--out", tmp_path / "o")[0] == 0
    saved = dd.load_model(tmp_path / "o")
    kinds = {one.kind for one in saved.columns.columns}
    assert {"date", "number", "text", "pair"} <= kinds
    assert run("export", tmp_path / "o", "--out", tmp_path / "e")[0] == 0
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    program = """
import json, sys
from predictor import Predictor
model = Predictor()
rows = json.loads(sys.stdin.read())
print(json.dumps(model.predict_proba(rows)))
assert not {"torch", "pandas", "sklearn", "scipy"} & set(sys.modules)
try:
    model.predict([rows[0] | {"cost": "a lot"}])
except ValueError as error:
    assert str(error) == "row 0, 'cost': 'a lot' is not like 1,234.5", error
"""
    done = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(rows), capture_output=True, text=True,
        check=True, cwd=tmp_path / "e",
    )  # fmt: skip
    found = [[*one.values()] for one in json.loads(done.stdout)]
    np.testing.assert_allclose(found, saved.predict_proba(frame), rtol=1e-9)
    inside = Predictor(tmp_path / "e" / "model.npz").matrix(rows)
    np.testing.assert_allclose(inside, saved.features(frame), rtol=1e-12, atol=1e-12)
