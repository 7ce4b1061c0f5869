"""The command with rows in the order of time."""

import json

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def sales(tmp_path):
    rng = np.random.default_rng(0)
    n = 120
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n)})
    frame["sold"] = pd.date_range("2024-01-01", periods=n).strftime("%d.%m.%Y")
    frame["price"] = (frame["a"] + np.linspace(0, 5, n) ** 1.5 + rng.normal(size=n)).round(3)
    frame.to_csv(tmp_path / "sales.csv", index=False)
    return tmp_path / "sales.csv"


LINEAR = ("--features", "linear", "--ridge", "1")


def test_the_estimate_is_for_later_rows(run, sales, tmp_path):
    given = ("train", sales, "--target", "price", "--out", tmp_path / "out", *LINEAR)
    status, text, err = run(*given, "--time", "sold", "--json")
    assert status == 0, err
    result = json.loads(text)
    times = result["over_time"]
    assert [one["rows"] for one in times["pieces"]] == [12] * 5
    assert times["error"] == pytest.approx(result["estimated_test_error"] ** 0.5)
    assert not any("--time" in step for step in result["next_steps"])
    assert "drift" not in [one["name"] for one in result["findings"]]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "How does the error change with time?" in page
    assert "rows after the last one" in page
    status, text, _ = run(*given, "--time", "sold")
    assert "Expected on rows after the last one" in text
    assert "other rows" not in text  # all measures are of later rows
    names = ("typical error", "median absolute error", "R²")
    assert all(f"  {name}" in text for name in names)


def test_without_it_there_is_a_question(run, sales, tmp_path):
    given = ("train", sales, "--target", "price", "--out", tmp_path / "out", *LINEAR)
    status, text, _ = run(*given)
    assert status == 0
    assert "Then train with --time sold" in " ".join(text.split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--time", "sol"), "--time 'sol' is not a column; did you mean 'sold'"),
        (("--time", "price"), "--time 'price' is the target"),
        (("--time", "word"), "--time 'word': time has text such as"),
        (("--time", "gap"), "--time 'gap': time has 1 missing value(s)"),
    ],
)
def test_bad_times(options, words, run, sales, tmp_path):
    frame = pd.read_csv(sales).assign(word=[*"abcdef"] * 20, gap=[np.nan, *range(119)])
    frame.to_csv(sales, index=False)
    out = tmp_path / "out"
    status, _, err = run("train", sales, "--target", "price", "--out", out, *LINEAR, *options)
    assert status == 2
    assert words in err
    assert not out.exists()
