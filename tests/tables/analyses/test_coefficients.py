"""Coefficients are the slopes of the predictions; a sparse model's columns are named."""

import html
import json

import numpy as np
import pandas as pd
import pytest

import decoupled_descent as dd
from tests.app.cli.conftest import table


@pytest.mark.parametrize("target", ["price", "answer"])
def test_coefficients_are_slopes_of_the_predictions(run, tmp_path, target):
    frame = table(120)[["a", "b", "town", target]]
    frame.to_csv(tmp_path / "t.csv", index=False)
    given = ("train", tmp_path / "t.csv", "--target", target, "--no-rows", "--ridge", "0.1")
    part = json.loads(run(*given, "--out", tmp_path / "o", "--json")[1])["coefficients"]
    assert part["share"] == pytest.approx(1)
    saved = dd.load_model(tmp_path / "o")
    (member,) = saved.estimator.model_.mixture.members
    scale = float(getattr(saved.estimator, "target_scale_", 1.0))

    def output(row):
        phi = member.features.transform(saved.features(row))
        return scale * (phi @ member.theta.T).numpy()[:, 0]

    slopes = {name: value for name, value, _ in part["effects"]}
    for name in ("a", "b"):
        low, high = (frame.assign(**{name: value}) for value in (0.0, 0.5))
        found = (output(high) - output(low)) / 0.5
        np.testing.assert_allclose(found, np.full(120, slopes[name]), rtol=1e-8)
    sizes = [abs(effect) for _, _, effect in part["effects"]]
    assert sizes == sorted(sizes, reverse=True)
    page = (tmp_path / "o" / "report.html").read_text()
    assert "Coefficients, in " in page


def test_selected_columns_of_a_wide_table(run, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 60))
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(60)])
    frame["y"] = 5 * X[:, 7] - 3 * X[:, 20] + 0.3 * rng.normal(size=80)
    frame.to_csv(tmp_path / "t.csv", index=False)
    given = ("train", tmp_path / "t.csv", "--target", "y", "--fast", "--out", tmp_path / "o")
    part = json.loads(run(*given, "--json")[1])["coefficients"]
    assert [name for name, _, _ in part["selected"][:2]] == ["x7", "x20"]
    assert part["selected"][0][1] == pytest.approx(5, abs=0.5)
    assert "stays selected" in (tmp_path / "o" / "report.html").read_text()


def test_many_classes_have_no_single_coefficient(run, tmp_path):
    table(60)[["a", "b", "grade"]].to_csv(tmp_path / "t.csv", index=False)
    given = ("train", tmp_path / "t.csv", "--target", "grade", "--fast", "--out", tmp_path / "o")
    assert json.loads(run(*given, "--json")[1])["coefficients"] is None


@pytest.mark.parametrize("classes", [2, 3])
def test_selected_columns_of_classes(run, tmp_path, classes):
    """60 rows and 500 columns, of which the first few matter."""
    rng = np.random.default_rng(1)
    y = np.arange(60) % classes
    X = rng.normal(size=(60, 500))
    X[:, :classes] += 3 * np.eye(classes)[y]
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(500)])
    frame.assign(y=[f"k{one}" for one in y]).to_csv(tmp_path / "t.csv", index=False)
    given = ("train", tmp_path / "t.csv", "--target", "y", "--fast", "--out", tmp_path / "o")
    part = json.loads(run(*given, "--json")[1])["coefficients"]
    first = part["selected"][:classes]
    assert {name for name, _, _ in first} == {f"x{k}" for k in range(classes)}
    assert all(0.8 <= stays <= 1.0 for _, _, stays in first)
    if classes > 2:
        assert part["effects"] == []
        assert all(value > 0 for _, value, _ in first)
    page = (tmp_path / "o" / "report.html").read_text()
    assert "stays selected" in page
    assert part["unit"] in html.unescape(page)
