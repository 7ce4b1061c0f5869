"""``decoupled train`` and ``decoupled diagnose``: files, words, JSON, and what is replaced."""

import contextlib
import csv
import html
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.cli import results
from decoupled_descent.estimators.base import CLIP
from decoupled_descent.estimators.saving import load_model
from decoupled_descent.report.text import together
from decoupled_descent.tables.columns import Columns
from tests.cli.conftest import FAST, spoilt, table

FILES = {"model.safetensors", "report.html", "history.csv", "figure.png", "figure.svg"}


@pytest.fixture
def shop(tmp_path):
    path = tmp_path / "shop [x].csv"
    spoilt().drop(columns=["grade", "price"]).to_csv(path, index=False)
    return path


def test_words_and_files(run, tmp_path, shop):
    out = tmp_path / "new" / "my model"
    status, text, err = run("train", shop, "--target", "answer", "--out", out, *FAST)
    assert (status, err) == (0, "")
    assert {path.name for path in out.iterdir()} == FILES
    assert os.listdir(out.parent) == ["my model"]
    model = load_model(out)
    estimator = model.estimator
    lines = [line.strip() for line in text.splitlines()]
    assert lines[0] == "shop [x].csv: answer: classification, 59 rows, 7 features"
    for words in (
        "• 1 row without a value of 'answer' was left out: 8",
        "• 'answer' has 2 different values: taken as classes",
        "'a': 6 missing values replaced by the median",
        "• dropped, numbering the rows: 'id'",
        together([estimator.estimated_test_error_], estimator.estimated_test_error_stderr_)[0],
        f"{100 * estimator.estimated_accuracy_:.1f}",
        "95 % interval",
        f"{estimator.diagnostics_.verdict}",
        f"decoupled predict '{out}' new.csv",
        f"open '{out}/report.html'",
        f"Saved in {out}: figure.png",
    ):
        assert words in text, words
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines())
    for found in estimator.diagnostics_.findings:
        assert (f"{found.name}:" in text) == (found.status != "ok")
    still = estimator.best_iter_ == estimator.n_iter_ - 1
    assert ("The error was still falling: try --max-iter 12." in text) == still


def test_what_to_do_next_depends_on_the_verdict():
    model = dd.DecoupledRegressor(lr=0.5, damping=0.9, ridge=1.0, max_iter=3)
    model.fit(table()[["a", "b"]].to_numpy(), table()["price"])
    kinds = {"ok": "Predict", "caution": "Quote", "alarm": "Do not quote"}
    for status, start in kinds.items():
        finding = dd.Finding("x", 1.0, "caution from 0.5", status, "why", "use a smaller rate")
        diagnosis = dd.Diagnosis((finding,)).to_dict()
        model.best_iter_ = 1
        steps = results.next_steps(Path("d.csv"), Path("o p"), model, diagnosis)
        assert steps[0].startswith(start)
        assert steps[-1] == (
            "Predict new rows: `decoupled predict 'o p' new.csv --out predictions.csv`"
        )
        assert ("use a smaller rate" in " ".join(steps)) == (status != "ok")


@pytest.mark.parametrize("name", ["d.csv", "d.csv.gz", "my.table.TSV.GZ", "1.5.parquet"])
def test_new_rows_are_asked_for_in_the_same_kind_of_file(name):
    model = dd.DecoupledRegressor(lr=0.5, damping=0.9, ridge=1.0, max_iter=3)
    model.fit(table()[["a", "b"]].to_numpy(), table()["price"])
    diagnosis = dd.Diagnosis(()).to_dict()
    step = results.next_steps(Path(name), Path("o"), model, diagnosis)[-1]
    suffix = {"d.csv": ".csv", "d.csv.gz": ".csv.gz", "1.5.parquet": ".parquet"}.get(
        name, ".TSV.GZ"
    )
    assert f" new{suffix} " in step


def test_counts_with_a_rare_one_are_quantities(run, tmp_path):
    frame = table()[["a", "b"]].assign(visits=[*range(3)] * 19 + [1, 2, 15])
    frame.to_csv(tmp_path / "data.csv", index=False)
    arguments = ("train", tmp_path / "data.csv", "--target", "visits", "--out", tmp_path / "o")
    status, text, _ = run(*arguments, *FAST)
    assert status == 0
    assert "• 'visits' has 4 different numbers: taken as a quantity\n" in text
    status, _, err = run(*arguments, "--task", "classification")
    assert status == 2
    assert err.endswith("join or delete the class, or use --task regression\n")


def test_many_notes_are_cut_and_kinks_are_no_news(run, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 20)), columns=[f"x{k:02}" for k in range(20)])
    frame["y"] = frame["x00"] > 0
    frame.iloc[3, :20] = np.nan
    frame.to_csv(tmp_path / "wide.csv", index=False)
    arguments = ("--target", "y", "--out", tmp_path / "o", "--activation", "relu", *FAST)
    status, text, err = run("train", tmp_path / "wide.csv", *arguments)
    assert (status, err) == (0, "")
    assert "• and 9 more: see report.html" in text
    assert "'x10'" in text
    assert "'x11'" not in text
    assert "'x19'" in html.unescape((tmp_path / "o" / "report.html").read_text(encoding="utf-8"))
    assert "kinks" not in text


def test_the_files_agree(run, tmp_path, shop):
    out = tmp_path / "out"
    assert run("train", shop, "--target", "answer", "--out", out, *FAST)[0] == 0
    frame = spoilt().drop(columns=["grade", "price"]).dropna(subset="answer")
    columns = Columns.learn(frame.drop(columns="answer").set_axis(frame.index + 1))
    model = load_model(out)
    assert model.columns == columns
    assert (model.target, model.task) == ("answer", "classification")
    options = {"lr": 1.0, "damping": 0.9, "ridge": 1.0, "max_iter": 6, "random_state": 0}
    fitted = dd.DecoupledClassifier(**options).fit(columns.apply(frame), frame["answer"])
    np.testing.assert_array_equal(model.predict(frame), fitted.predict(columns.apply(frame)))
    assert model.estimator.estimated_test_error_ == fitted.estimated_test_error_
    with (out / "history.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["step", "train_error", "stderr"]
    assert [int(row[0]) for row in rows[1:]] == list(range(fitted.n_iter_))
    assert [float(row[1]) for row in rows[1:]] == fitted.train_error_curve_.tolist()
    assert [float(row[2]) for row in rows[1:]] == fitted.train_error_stderr_curve_.tolist()
    assert (out / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (out / "figure.svg").read_bytes()
    page = html.unescape((out / "report.html").read_text(encoding="utf-8"))
    assert "shop [x].csv: answer" in page
    assert together([fitted.estimated_test_error_], fitted.estimated_test_error_stderr_)[0] in page
    assert "6 missing values replaced" in page
    assert "<script" not in page


@pytest.mark.parametrize(
    ("target", "options", "task", "loss"),
    [
        ("answer", (), "classification", "log loss"),
        ("grade", (), "classification", "log loss"),
        ("grade", ("--task", "regression"), "regression", "mean squared error"),
        ("price", (), "regression", "mean squared error"),
    ],
)
def test_json(run, tmp_path, target, options, task, loss):
    data, out = tmp_path / "data.parquet", tmp_path / "out"
    others = [name for name in ("answer", "grade", "price") if name != target]
    table().drop(columns=others).to_parquet(data)
    status, text, err = run(
        "train", data, "--target", target, "--out", out, *FAST, *options, "--json"
    )
    assert (status, err) == (0, "")
    found = json.loads(text)
    estimator = load_model(out).estimator
    assert (found["task"], found["loss"], found["rows"], found["features"]) == (task, loss, 60, 5)
    assert found["estimated_test_error"] == estimator.estimated_test_error_
    low, high = found["estimated_test_error_interval"]
    assert high - found["estimated_test_error"] == pytest.approx(
        NormalDist().inv_cdf(0.975) * estimator.estimated_test_error_stderr_
    )
    assert 0 <= low < found["estimated_test_error"]
    score = estimator.estimated_accuracy_ if "log" in loss else estimator.estimated_r2_
    assert found["estimated_score"] == score
    assert found["score"] == ("accuracy" if "log" in loss else "R²")
    assert found["verdict"] == estimator.diagnostics_.verdict
    assert {Path(path) for path in found["files"].values()} == {out / name for name in FILES}
    assert found["classes"] == (
        None if task == "regression" else [str(one) for one in estimator.classes_.tolist()]
    )
    recognised = [note for note in found["notes"] if "taken as" in note]
    assert bool(recognised) == (not options)
    if target == "grade" and not options:
        assert "--task regression" in recognised[0]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz", "npz", "npy", "parquet"])
def test_kinds_of_files(run, tmp_path, suffix):
    frame, data = table()[["a", "b", "grade"]], tmp_path / f"data.{suffix}"
    target = "grade"
    if suffix.startswith("np"):
        target = "y" if suffix == "npz" else "x2"
        X = frame[["a", "b"]].to_numpy()
        save = {
            "npz": lambda: np.savez(data, X=X, y=frame["grade"].to_numpy()),
            "npy": lambda: np.save(data, frame.to_numpy()),
        }
        save[suffix]()
    elif suffix == "parquet":
        frame.to_parquet(data)
    else:
        frame.to_csv(data, index=False, sep="\t" if suffix == "tsv" else ",")
    status, text, _ = run("train", data, "--target", target, "--out", tmp_path / "o", *FAST)
    assert status == 0
    assert "classification, 60 rows, 2 features" in text


def test_semicolons_bom_and_decimal_comma(run, tmp_path):
    data = tmp_path / "excel.csv"
    table().to_csv(data, index=False, sep=";", decimal=",", encoding="utf-8-sig")
    status, text, err = run("train", data, "--target", "a", "--out", tmp_path / "o", *FAST)
    assert (status, err) == (0, "")
    assert "the comma is the decimal mark" in text
    assert "a: regression, 60 rows" in text


@pytest.mark.parametrize(
    "options",
    [
        ("--hidden", "3"),
        ("--hidden", "4,3"),
        ("--hidden", "4 3", "--activation", "softplus"),
        ("--method", "decoupled", "--lr", "0.5", "--max-iter", "4"),
        ("--method", "gradient", "--lr", "0.5", "--max-iter", "4"),
        ("--ridge", "inf", "--damping", "1", "--lr", "0.1", "--max-iter", "4"),
        ("--seed", "7", "--lr", "auto", "--max-iter", "1"),
    ],
)
def test_options_reach_the_estimator(run, tmp_path, options):
    data = tmp_path / "data.csv"
    table()[["a", "b", "answer"]].to_csv(data, index=False)
    status, text, _ = run(
        "train", data, "--target", "answer", "--out", tmp_path / "o", *options, "--json"
    )
    assert status == 0
    settings = load_model(tmp_path / "o").estimator.get_params()
    for name, value in zip(options[::2], options[1::2], strict=True):
        found = settings[name.removeprefix("--").replace("-", "_").replace("seed", "random_state")]
        if name == "--hidden":
            assert found == tuple(map(int, re.findall(r"\d+", value)))
        else:
            assert str(found) == value or float(found) == float(value)
    verdict = json.loads(text)["verdict"]
    if "gradient" in options:
        assert verdict == "do not trust"
        assert "those-rows.csv" in json.loads(text)["next_steps"][0]


def test_the_seed_repeats(run, tmp_path):
    data = tmp_path / "data.csv"
    table()[["a", "b", "price"]].to_csv(data, index=False)
    found = {}
    for name, seed in (("one", 3), ("two", 3), ("three", 4)):
        out = tmp_path / name
        run("train", data, "--target", "price", "--out", out, *FAST, "--seed", seed)
        found[name] = dd.load_model(out).estimator.theta_.tolist()
    assert found["one"] == found["two"] != found["three"]


def test_an_earlier_training_is_replaced_and_other_files_stay(run, tmp_path, shop):
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    (out / "sub").mkdir()
    arguments = ("train", shop, "--target", "answer", "--out", out, *FAST)
    status, text, _ = run(*arguments)
    assert status == 0
    assert "in place of" not in text
    before = (out / "model.safetensors").read_bytes()
    status, text, _ = run(*arguments, "--seed", "1")
    assert "in place of an earlier training's" in text
    assert (out / "model.safetensors").read_bytes() != before
    assert {path.name for path in out.iterdir()} == {*FILES, "notes.txt", "sub"}
    assert (out / "notes.txt").read_text() == "mine"


def test_a_failure_while_writing_leaves_the_earlier_results(run, tmp_path, shop, monkeypatch):
    out = tmp_path / "out"
    arguments = ("train", shop, "--target", "answer", "--out", out, *FAST)
    run(*arguments)
    before = {path.name: path.read_bytes() for path in out.iterdir()}

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(results, "save_model", full)
    for place in (out, tmp_path / "fresh"):
        status, text, err = run(*arguments[:4], "--out", place, *FAST, "--seed", "1")
        assert (status, text) == (2, "")
        assert err == f"error: --out {place}: cannot write there (No space left on device)\n"
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", shop.name]


def test_interruption_saves_what_was_reached(run, tmp_path, shop, monkeypatch):
    calls = []

    def interrupted(self, state, rows, objective):
        calls.append(state.step)
        if state.step == 3:
            raise KeyboardInterrupt
        return step(self, state, rows, objective)

    step = dd.OrthogonalDecoupledDescent.step
    monkeypatch.setattr(dd.OrthogonalDecoupledDescent, "step", interrupted)
    status, text, _ = run(
        "train", shop, "--target", "answer", "--out", tmp_path / "out", *FAST, "--max-iter", "50"
    )
    assert status == 130
    assert calls == [0, 1, 2, 3]
    assert load_model(tmp_path / "out").estimator.stop_reason_ == "interrupted"
    assert "Saved in" in text


def test_fractions_as_classes(run, tmp_path):
    frame = table()[["a", "b"]].assign(half=np.where(table()["answer"] == "yes", 0.5, 1.0))
    frame.to_csv(tmp_path / "data.csv", index=False)
    out = tmp_path / "out"
    arguments = ("train", tmp_path / "data.csv", "--target", "half", "--out", out, *FAST)
    assert run(*arguments)[0] == 0
    assert load_model(out).estimator.classes_.tolist() == ["0.5", "1"]
    status, text, _ = run("predict", out, tmp_path / "data.csv", "--json")
    found = json.loads(text)
    assert (status, found["actual"]["rows"], found["actual"]["remark"]) == (0, 60, "")
    truth = [str(label).removesuffix(".0") for label in frame["half"]]
    right = np.mean([one == other for one, other in zip(found["predictions"], truth, strict=True)])
    assert found["actual"]["score"] == pytest.approx(right)


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
    expected = dd.diagnose(torch.tensor(scaled).float(), codes.long(), task="classification")
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


@pytest.mark.parametrize("command", ["train", "predict", "diagnose"])
def test_help(run, command):
    status, out, _ = run(command, "--help")
    assert status == 0
    assert "DATA" in out
    assert "--json" in out


def test_the_installed_command_on_a_terminal_and_in_a_pipe(tmp_path):
    data = tmp_path / "data.csv"
    table()[["a", "b", "answer"]].to_csv(data, index=False)
    command = Path(sys.executable).with_name("decoupled")
    arguments = [command, "train", data, "--target", "answer", "--out", tmp_path / "o", *FAST]
    ours, theirs = pty.openpty()
    done = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    drawn = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while chunk := os.read(ours, 1 << 16):
            drawn += chunk
    os.close(ours)
    text, _ = done.communicate()
    assert done.returncode == 0
    assert b"lowest train error" in drawn
    assert b"6/6" in drawn
    assert b"\x1b" not in text
    first = subprocess.run(
        f"'{command}' predict '{tmp_path / 'o'}' '{data}' | head -n 1",
        shell=True, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert first.stdout == "prediction,probability_no,probability_yes\n"
    assert "Traceback" not in first.stderr
