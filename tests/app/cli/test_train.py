"""``decoupled train``: words, JSON, options, warnings and interruptions."""

import contextlib
import html
import json
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import decoupled_descent as dd
from decoupled_descent.app.cli import results
from decoupled_descent.app.cli.tables import TrainingTable
from decoupled_descent.app.cli.train import SEARCHING, STAGES, announce
from decoupled_descent.app.files import opening
from decoupled_descent.app.report.text import together
from decoupled_descent.checks import Target
from decoupled_descent.tables.columns.rules import Columns
from decoupled_descent.tables.estimators.saving import load_model
from decoupled_descent.tables.search import ridge_fits
from tests.app.cli.conftest import FAST, SAID, table

FILES = {"model.safetensors", "report.html", "left_out.csv", "model-card.md"}


def test_words_and_files(run, tmp_path, shop):
    out = tmp_path / "new" / "my model"
    status, text, err = run("train", shop, "--target", "answer", "--out", out, *FAST)
    assert (status, err) == (0, SAID)
    assert {path.name for path in out.iterdir()} == FILES
    assert os.listdir(out.parent) == ["my model"]
    model = load_model(out)
    estimator = model.estimator
    lines = [line.strip() for line in text.splitlines()]
    assert lines[0] == "shop [x].csv: answer: classification, 59 rows, 7 features"
    for words in (
        "• 1 row without a value of 'answer' was left out: 8",
        "• 'answer' has 2 different values, so this is a classification",
        "'a': 6 missing values replaced by the median",
        "• dropped, row numbers: 'id'",
        together([estimator.estimated_test_error_], estimator.estimated_test_error_stderr_)[0],
        f"{100 * estimator.estimated_accuracy_:.1f}",
        "95\u00a0% interval",
        f"{estimator.diagnostics_.verdict}",
        f"decoupled predict '{out}' new.csv",
        f"open '{out}/report.html'",
        f"Saved in {out}: left_out.csv",
    ):
        assert words in text, words
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines())
    for found in estimator.diagnostics_.findings:
        assert (f"{found.name}:" in text) == (found.status != "ok")


def test_many_notes_are_cut(run, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 20)), columns=[f"x{k:02}" for k in range(20)])
    frame["y"] = frame["x00"] > 0
    frame.iloc[3, :20] = np.nan
    frame.to_csv(tmp_path / "wide.csv", index=False)
    arguments = ("--target", "y", "--out", tmp_path / "o", *FAST)
    status, text, err = run("train", tmp_path / "wide.csv", *arguments)
    assert (status, err) == (0, SAID)
    assert "• and 10 more: see report.html" in text
    assert "'x09'" in text
    assert "'x10'" not in text
    assert "'x19'" in html.unescape((tmp_path / "o" / "report.html").read_text(encoding="utf-8"))


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
    assert (status, err) == (0, SAID)
    found = json.loads(text)
    estimator = load_model(out).estimator
    assert (found["task"], found["loss"], found["rows"], found["features"]) == (task, loss, 60, 5)
    assert found["estimated_test_error"] == estimator.estimated_test_error_
    low, high = found["estimated_test_error_interval"]
    assert 0 <= low < found["estimated_test_error"] < high
    score = estimator.estimated_accuracy_ if "log" in loss else estimator.estimated_r2_
    assert found["estimated_score"] == score
    assert found["score"] == ("accuracy" if "log" in loss else "R²")
    assert found["verdict"] == estimator.diagnostics_.verdict
    assert found["made_with"] == estimator.metadata_
    assert {Path(path) for path in found["files"].values()} == {out / name for name in FILES}
    assert found["classes"] == (
        None if task == "regression" else [str(one) for one in estimator.classes_.tolist()]
    )
    recognised = [note for note in found["notes"] if "so this is a" in note]
    assert bool(recognised) == (not options)
    if target == "grade" and not options:
        assert "--task regression" in recognised[0]


@pytest.mark.parametrize(
    "options",
    [
        ("--features", "rbf", "--ridge", "2"),
        ("--seed", "7", "--features", "linear", "--time-limit", "100"),
    ],
)
def test_options_reach_the_estimator(run, tmp_path, options):
    data = tmp_path / "data.csv"
    table()[["a", "b", "answer"]].to_csv(data, index=False)
    given = ("train", data, "--target", "answer", "--out", tmp_path / "o", *options)
    assert run(*given, "--fast")[0] == 0
    settings = load_model(tmp_path / "o").estimator.get_params()
    for name, value in zip(options[::2], options[1::2], strict=True):
        found = settings[name.removeprefix("--").replace("-", "_").replace("seed", "random_state")]
        assert str(found) == value or float(found) == float(value)


def test_the_seed_repeats(run, tmp_path):
    data = tmp_path / "data.csv"
    table()[["a", "b", "price"]].to_csv(data, index=False)
    found = {}
    for name, seed in (("one", 3), ("two", 3), ("three", 4)):
        out = tmp_path / name
        given = ("--features", "rbf", "--fast", "--seed", seed)
        run("train", data, "--target", "price", "--out", out, *given)
        found[name] = dd.load_model(out).estimator.estimated_test_error_
    assert found["one"] == found["two"] != found["three"]


NOTHING = "nothing was written"


def test_interruption_while_the_table_is_read(run, tmp_path, shop, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(opening, "read_table", interrupted)
    found = run("train", shop, "--target", "answer", "--out", tmp_path / "out")
    assert found == (130, "", f"interrupted; {NOTHING}\n")
    assert not (tmp_path / "out").exists()


def test_interruption_of_the_report_keeps_the_model(run, tmp_path, shop, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(results, "importance", interrupted)
    out = tmp_path / "out"
    status, text, err = run("train", shop, "--target", "answer", "--out", out, "--ridge", "1")
    assert status == 130
    assert f"interrupted; the model is complete, but not the report, in {out}" in err
    missing = "Missing: which columns matter, whether more rows would help."
    assert f"Interrupted: the model is complete, but this report is not. {missing}" in text
    assert "✓ trust" not in text
    assert "Better than guessing?" in text  # was made before
    assert load_model(out).estimator.stop_reason_ != "interrupted"
    page = (out / "report.html").read_text(encoding="utf-8")
    assert missing in page
    assert "These numbers can be trusted" not in page
    assert "Which columns matter?" not in page


def test_interruption_keeps_an_earlier_model(run, tmp_path, shop, monkeypatch):
    out = tmp_path / "out"
    arguments = ("train", shop, "--target", "answer", "--out", out)
    assert run(*arguments)[0] == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    whole, calls = ridge_fits.fit, []

    def interrupted(*some, **options):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return whole(*some, **options)

    monkeypatch.setattr(ridge_fits, "fit", interrupted)
    status, text, err = run(*arguments, "--json")
    assert status == 130
    found = json.loads(text)
    assert found["interrupted"]
    assert found["verdict"] != "trust"
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert load_model(tmp_path / "out-interrupted").estimator.stop_reason_ == "interrupted"
    assert "interrupted; the results so far are in" in err
    calls[:] = [1] * 3  # before anything is trained
    status, text, err = run(*arguments)
    assert (status, text, err) == (130, "", f"{SEARCHING}\ninterrupted; {NOTHING}\n")


def test_the_end_by_a_signal_leaves_nothing(tmp_path):
    data = tmp_path / "data.csv"
    table(3000).drop(columns=["grade", "price"]).to_csv(data, index=False)
    command = Path(sys.executable).with_name("decoupled")
    arguments = [command, "train", data, "--target", "answer", "--out", tmp_path / "o"]
    running = subprocess.Popen(arguments, stderr=subprocess.PIPE)
    time.sleep(3)
    running.terminate()
    running.communicate(timeout=60)
    assert running.returncode in (143, -15)  # -15: before the command began
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]


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
    assert drawn.count(b"\x1b[?25l") == 1  # one bar
    assert any(stage.encode() in drawn for stage in STAGES)
    assert b"\x1b" not in text
    first = subprocess.run(
        f"'{command}' predict '{tmp_path / 'o'}' '{data}' | head -n 1",
        shell=True, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert first.stdout == "prediction,probability_no,probability_yes\n"
    assert "Traceback" not in first.stderr


def prices(rows=120, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"area": rng.uniform(30, 200, rows).round(1), "rooms": rng.integers(1, 7, rows)}
    )
    noise = 0.4 * rng.normal(size=rows)
    frame["price"] = np.exp(7 + 0.02 * frame["area"] + 0.1 * frame["rooms"] + noise).round(2)
    return frame


def test_the_logarithm_of_the_target(run, tmp_path):
    """Following the advice on few rows behind the error helps with what it is about."""
    data = tmp_path / "houses.csv"
    prices().to_csv(data, index=False)
    found = {}
    for option in ((), ("--log-target",)):
        _, text, _ = run(
            "train", data, "--target", "price", "--out", tmp_path / "o", "--json", *option
        )
        found[bool(option)] = json.loads(text)
    (few,) = [one for one in found[False]["findings"] if one["name"] == "rows behind the error"]
    assert "--log-target" in few["advice"]
    (more,) = [one for one in found[True]["findings"] if one["name"] == "rows behind the error"]
    assert "--log-target" not in more["advice"]
    assert any("the model fits log('price')" in note for note in found[True]["notes"])
    model = load_model(tmp_path / "o")
    fresh = prices(2000, 1)
    actual = np.square(model.predict(fresh) - fresh["price"])
    noise = np.hypot(found[True]["estimated_test_error_stderr"], actual.std() / 2000**0.5)
    assert abs(actual.mean() - found[True]["estimated_test_error"]) < 3 * noise
    status, text, err = run("predict", tmp_path / "o", data)
    assert status == 0
    assert "typical error (RMSE)" in err
    numbers = [number for line in text.split()[1:] for number in line.split(",")]
    assert all(re.fullmatch(r"\d+(\.\d{1,2})?", number) for number in numbers)


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        ({"price": "dear"}, (), "--log-target is for regression, but 'price' has classes"),
        ({"price": 0.0}, (), "--log-target: 'price' is 0 in row 4, which has no logarithm"),
    ],
)
def test_targets_without_a_logarithm(run, tmp_path, change, options, words):
    frame = prices(40)
    for name, value in change.items():
        frame[name] = np.where(np.arange(40) == 3, value, frame[name] if value == 0 else "cheap")
    frame = pd.concat([frame, frame])
    frame.to_csv(tmp_path / "d.csv", index=False)
    arguments = ("train", tmp_path / "d.csv", "--target", "price", "--log-target")
    status, text, err = run(*arguments, "--out", tmp_path / "o", *options)
    assert (status, text, err.count("\n")) == (2, "", 1)
    assert words in err


@pytest.mark.parametrize(
    ("low", "high"),
    [("01", "02"), ("FALSE", "TRUE"), ("0.50", "1.00"), ("2023-01-01", "2024-05-31")],
)
def test_predictions_are_written_like_the_classes(run, tmp_path, low, high):
    frame = table()[["a", "b", "answer"]]
    frame["answer"] = np.where(frame["answer"] == "yes", high, low)
    frame.insert(0, "key", [f"k{k}" for k in range(len(frame))])
    frame.to_csv(tmp_path / "d.csv", index=False)
    options = ("--target", "answer", "--out", tmp_path / "o", "--id", "key", *FAST)
    assert run("train", tmp_path / "d.csv", *options)[0] == 0
    lines = run("predict", tmp_path / "o", tmp_path / "d.csv")[1].splitlines()
    assert lines[0] == f"key,prediction,probability_{low},probability_{high}"
    assert {line.split(",")[1] for line in lines[1:]} == {low, high}
    assert lines[1].startswith("k0,")


@pytest.mark.parametrize(("rows", "kind"), [(10**6, Target.CLASSES), (60, Target.NUMBERS)])
def test_long_trainings_are_announced(capsys, rows, kind):
    X, y = np.broadcast_to(0.0, (rows, 50)), np.arange(rows) % 2
    announce(TrainingTable(X, y, Columns.learn(table()[["a"]]), kind, []), "newton")
    words = capsys.readouterr().err
    assert bool(
        re.search(r"training on 1,000,000 rows takes about [\d.]+ (minutes|hours)", words)
    ) == (rows > 60)
    assert bool(words) == (rows > 60)
