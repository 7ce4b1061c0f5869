"""The folder that ``decoupled train`` writes: files that agree, replaced only as a whole."""

import html
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import decoupled_descent as dd
from decoupled_descent.app.cli import folder
from decoupled_descent.app.report.text import together
from decoupled_descent.tables.columns.rules import Columns
from decoupled_descent.tables.estimators.saving import load_model
from tests.app.cli.conftest import FAST, SAID, spoilt
from tests.app.report.examples import classification

FILES = {"model.safetensors", "report.html", "left_out.csv", "model-card.md"}


def test_the_files_agree(run, tmp_path, shop):
    out = tmp_path / "out"
    assert run("train", shop, "--target", "answer", "--out", out, *FAST)[0] == 0
    frame = spoilt().drop(columns=["grade", "price"]).dropna(subset="answer")
    columns = Columns.learn(frame.drop(columns="answer").set_axis(frame.index + 1))
    model = load_model(out)
    assert model.columns == columns
    assert model.estimator.decision_rule_.positive == 1  # "yes", the class to find by its name
    assert (model.target, model.task) == ("answer", "classification")
    options = {"features": "linear", "ridge": 1.0, "random_state": 0}
    fitted = dd.DecoupledClassifier(**options).fit(columns.apply(frame), frame["answer"])
    np.testing.assert_array_equal(model.predict(frame), fitted.predict(columns.apply(frame)))
    assert model.estimator.estimated_test_error_ == fitted.estimated_test_error_
    page = html.unescape((out / "report.html").read_text(encoding="utf-8"))
    assert "shop [x].csv: answer" in page
    assert together([fitted.estimated_test_error_], fitted.estimated_test_error_stderr_)[0] in page
    assert "6 missing values replaced" in page
    assert "<script" not in page


def test_an_earlier_training_is_replaced_and_other_files_stay(run, tmp_path, shop):
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    (out / "sub").mkdir()
    arguments = ("train", shop, "--target", "answer", "--out", out, *FAST)
    status, text, _ = run(*arguments)
    assert status == 0
    assert "replacing" not in text
    before = (out / "model.safetensors").read_bytes()
    status, text, _ = run(*arguments, "--seed", "1")
    assert "(replacing those of an earlier training)" in text
    assert (out / "model.safetensors").read_bytes() != before
    assert {path.name for path in out.iterdir()} == {*FILES, "notes.txt", "sub"}
    assert (out / "notes.txt").read_text() == "mine"


def test_a_failure_while_writing_leaves_the_earlier_results(run, tmp_path, shop, monkeypatch):
    out = tmp_path / "out"
    arguments = ("train", shop, "--target", "answer", "--out", out, *FAST)
    run(*arguments)
    before = {path.name: path.read_bytes() for path in out.iterdir()}

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder, "save_model", full)
    for target in (out, tmp_path / "fresh"):
        status, text, err = run(*arguments[:4], "--out", target, *FAST, "--seed", "1")
        assert (status, text) == (2, "")
        assert err == f"{SAID}error: --out {target}: cannot write there (No space left on device)\n"
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", shop.name]


def test_the_table_that_is_read_is_not_overwritten(run, tmp_path, shop):
    out = tmp_path / "out"
    run("train", shop, "--target", "answer", "--out", out, *FAST)
    before = shop.read_bytes()
    (out / "left_out.csv").write_bytes(before)
    status, _, err = run("train", out / "left_out.csv", "--target", "answer", "--out", out, *FAST)
    assert status == 2
    assert "left_out.csv in it is the table to read; choose another folder" in err
    assert (out / "left_out.csv").read_bytes() == before


def test_two_trainings_into_one_folder_do_not_mix(tmp_path):
    """Several at once, again and again: the report is always that of the model."""
    X = np.random.default_rng(0).normal(size=(40, 2))
    columns = Columns.learn(pd.DataFrame(X, columns=["a", "b"]))
    made = []
    for seed in range(3):
        y = np.random.default_rng(seed).normal(size=40)
        options = {"features": "linear", "ridge": 1.0}
        model = dd.DecoupledRegressor(**options).fit(X, y)
        made.append((model, replace(classification(), title=f"seed {seed}")))
    out = tmp_path / "out"
    for _ in range(2):
        with ThreadPoolExecutor(3) as pool:
            each = [pool.submit(folder.write, out, m, columns, "y", r) for m, r in made]
            [one.result() for one in each]
        title = re.search("<title>seed (.)", (out / "report.html").read_text(encoding="utf-8"))[1]
        saved = load_model(out).estimator
        assert saved.estimated_test_error_ == made[int(title)][0].estimated_test_error_
    assert {path.name for path in out.iterdir()} == FILES


def test_another_folder_is_asked_for_when_the_disk_is_full(run, tmp_path, shop, monkeypatch):
    saved, answers = folder.save_model, iter([str(tmp_path / "full"), str(tmp_path / "free")])

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    def write(out, *rest):
        monkeypatch.setattr(folder, "save_model", saved if out.name == "free" else full)
        return written(out, *rest)

    written = folder.write
    monkeypatch.setattr(folder, "write", write)
    monkeypatch.setattr(folder.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(folder.sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(folder.typer, "prompt", lambda *_, **__: next(answers))
    status, text, err = run("train", shop, "--target", "answer", "--out", tmp_path / "o", *FAST)
    assert status == 0
    assert err.count("The model is trained and in memory.") == 2
    assert f"Saved in {tmp_path / 'free'}" in text
    assert load_model(tmp_path / "free").target == "answer"


@pytest.mark.parametrize("rescued", [True, False])
def test_a_full_disk_does_not_cost_a_training_in_a_pipe(run, tmp_path, shop, monkeypatch, rescued):
    elsewhere, saved = tmp_path / "elsewhere", folder.save_model
    elsewhere.mkdir()

    def save(model, path, *rest, **options):
        if not (rescued and path.is_relative_to(elsewhere)):
            raise OSError(28, "No space left on device")
        return saved(model, path, *rest, **options)

    monkeypatch.setattr(folder, "save_model", save)
    monkeypatch.setattr(folder.tempfile, "tempdir", str(elsewhere))
    status, text, err = run("train", shop, "--target", "answer", "--out", tmp_path / "o", *FAST)
    assert (status, text) == (2, "")
    line = err.splitlines()[-1]
    assert line.startswith(f"error: --out {tmp_path / 'o'}: cannot write there (No space left")
    assert not (tmp_path / "o").exists()
    if rescued:
        (rescue,) = elsewhere.iterdir()
        assert f"the results are in {rescue}: move them" in line
        assert {path.name for path in rescue.iterdir()} == FILES
        assert load_model(rescue).target == "answer"
    else:
        assert not list(elsewhere.iterdir())
