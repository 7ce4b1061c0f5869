"""``decoupled compare``: in words, as JSON, and one line for results that cannot be compared."""

import json

import pandas as pd
import pytest

from tests.app.cli.conftest import FAST, table


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Two tables, and results on them with different columns, targets and groups."""
    from decoupled_descent.app.cli import command

    folder = tmp_path_factory.mktemp("results")
    frame = table(90).drop(columns=["grade"])
    frame.to_csv(folder / "one.csv", index=False)
    frame.assign(a=-frame["a"]).to_csv(folder / "two.csv", index=False)
    trainings = {
        "all": ("one.csv", "--target", "answer", "--drop", "price"),
        "less": ("one.csv", "--target", "answer", "--drop", "price", "--drop", "b"),
        "elsewhere": ("two.csv", "--target", "answer", "--drop", "price"),
        "price": ("one.csv", "--target", "price", "--drop", "answer"),
        "leaking": (
            "one.csv",
            "--target",
            "answer",
            "--features",
            "laplace1(0.01)",
            "--ridge",
            "1e-9",
        ),
    }
    for name, (file, *options) in trainings.items():
        given = [str(folder / file), *options, *FAST, "--out", str(folder / name)]
        command.app(["train", *given, "--fast"], standalone_mode=False)
    return folder


def test_in_words_and_as_json(run, results):
    status, out, err = run("compare", results / "all", results / "less")
    assert (status, err) == (0, "")
    assert "A is better than B: its log loss is lower" in out
    assert "answer: 90 rows" in out
    content = json.loads(run("compare", results / "less", results / "all", "--json")[1])
    loss = content["measures"]["log loss"]
    assert loss["better"] == str(results / "all")
    assert 0 < loss["interval"][0] < loss["difference"] < loss["interval"][1]
    assert loss["difference"] == pytest.approx(loss["means"][0] - loss["means"][1])
    assert content["measures"]["accuracy"]["difference"] < 0
    price = json.loads(run("compare", results / "price", results / "price", "--json")[1])
    assert [*price["measures"]] == ["mean squared error", "absolute error"]
    assert price["summary"].startswith("No difference")


@pytest.mark.parametrize(
    ("other", "reason"),
    [("elsewhere", "different files"), ("price", "same target"), ("nowhere", "does not exist")],
)
def test_other_rows_are_refused(refused, results, other, reason):
    assert reason in refused("compare", results / "all", results / other)


def test_left_out_rows_must_be_there_and_as_written(refused, results, tmp_path):
    (tmp_path / "copy").mkdir()
    copy = tmp_path / "copy"
    for name in ("model.safetensors", "left_out.csv"):
        (copy / name).write_bytes((results / "all" / name).read_bytes())
    text = (copy / "left_out.csv").read_text()
    (copy / "left_out.csv").write_text(text.replace("yes", "no"))
    assert "was edited" in refused("compare", results / "all", copy)
    (copy / "left_out.csv").unlink()
    assert "has no left_out.csv" in refused("compare", results / "all", copy, "--json")


def test_estimates_that_are_not_to_be_trusted_are_named(run, tmp_path):
    frame = pd.concat([table(120)[["a", "b", "town", "price"]]] * 2)
    frame.to_csv(tmp_path / "twice.csv", index=False)
    for name in ("rbf", "linear"):
        given = (tmp_path / "twice.csv", "--target", "price", "--fast", "--features", name)
        assert run("train", *given, "--out", tmp_path / name)[0] == 0
    status, out, _ = run("compare", tmp_path / "rbf", tmp_path / "linear")
    assert status == 0
    assert "Do not rely on this: the verdict on A is “do not trust” (" in out
    assert "duplicate rows" in out


def test_one_number_for_one_thing(run, tmp_path):
    """The headline, JSON, the comparison with others and ``compare`` state the same numbers."""
    frame = table(150)[["a", "b", "town", "answer", "price"]]
    for target, name, metric in (
        ("answer", "log loss", "accuracy"),
        ("price", "mean squared error", ""),
    ):
        frame.drop(columns="price" if target == "answer" else "answer").to_csv(
            tmp_path / "t.csv", index=False
        )
        stated = {}
        for folder, options in (("one", ()), ("two", ("--features", "linear"))):
            given = ("train", tmp_path / "t.csv", "--target", target, "--out", tmp_path / folder)
            status, text, err = run(*given, "--fast", "--json", *options)
            assert status == 0, err
            stated[folder] = json.loads(text)
        compared = json.loads(run("compare", tmp_path / "one", tmp_path / "two", "--json")[1])
        means = compared["measures"][name]["means"]
        assert means == [stated[k]["estimated_test_error"] for k in ("one", "two")]
        gap = compared["measures"][name]["difference"]
        assert gap == pytest.approx(means[0] - means[1])
        if metric:
            shares = compared["measures"][metric]["means"]
            assert shares == [stated[k]["estimated_score"] for k in ("one", "two")]
        else:
            root = stated["one"]["measures"]["RMSE"]["estimate"]
            assert root == pytest.approx(means[0] ** 0.5)
