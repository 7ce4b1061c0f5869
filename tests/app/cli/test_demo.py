"""``decoupled demo``: its table, figure and JSON, independent replications, bad settings."""

import json
from pathlib import Path

import numpy as np
import pytest

import decoupled_descent as dd
from decoupled_descent.app.cli.demo import train_replications


def settings(n, d, steps, replications):
    common = {"n": n, "d": d, "snr": [4.0], "lr": 0.05, "test_rows": 2 * n}
    return common | {"steps": steps, "replications": replications}


TINY = ["demo", "--n", "30", "--dimension", "20", "--steps", "5", "--replications", "2"]


def test_demo_prints_a_table_and_saves_the_figure(run, tmp_path):
    status, out, err = run(*TINY, "--out", tmp_path / "new" / "runs [v1]")
    assert (status, err) == (0, "")
    figure = tmp_path / "new" / "runs [v1]" / "xor.png"
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert list(figure.parent.iterdir()) == [figure]
    for words in ("gradient descent", "decoupled descent", "train error", "test error", "gap"):
        assert words in out
    assert f"figure: {figure}" in out


def test_demo_in_json(run, tmp_path):
    status, out, _ = run(*TINY, "--out", tmp_path, "--json")
    result = json.loads(out)
    assert status == 0
    assert Path(result["figure"]).exists()
    curves = train_replications(settings(30, 20, 5, 2), 0)
    for name in ("gd", "dd"):
        train, test = (curves[f"snr=4/{name}/{kind}"][:, -1] for kind in ("train", "test"))
        middle = {"train": train, "test": test, "gap": abs(train - test)}
        for kind, values in middle.items():
            assert result["final"][name][kind] == pytest.approx(values.mean(), rel=1e-5)


def test_one_step_will_do(run, tmp_path):
    assert run(*TINY, "--steps", 1, "--replications", 1, "--out", tmp_path)[0] == 0


def test_replications_are_independent_of_their_number():
    whole = train_replications(settings(20, 10, 4, 3), 5)
    last = train_replications(settings(20, 10, 4, 1), 7)
    for name in ("gd", "dd"):
        train, test = (f"snr=4/{name}/{kind}" for kind in ("train", "test"))
        assert whole[train].shape == whole[test].shape == (3, 4)
        np.testing.assert_array_equal(whole[test][2], last[test][0])
        assert len(set(whole[train][:, 0])) == 3


def test_both_algorithms_start_from_the_same_point():
    curves = train_replications(settings(20, 10, 2, 2), 0)
    for kind in ("train", "test"):
        starts = [curves[f"snr=4/{name}/{kind}"][:, 0] for name in ("gd", "dd")]
        np.testing.assert_allclose(*starts, rtol=1e-6)


def test_runs_that_diverge_have_no_final_errors(run, tmp_path):
    out = run(*TINY, "--lr", "1e30", "--steps", "20", "--out", tmp_path, "--json")[1]
    assert json.loads(out)["final"]["gd"] == {"train": None, "test": None, "gap": None}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--dimension", "21"], "error: dimension=21 must be even: the means are pairs [v, ±v]"),
        (["--lr", "-0.1"], "error: lr=-0.1 must be a number of at least 0 and at most 3.4e+38"),
        (["--lr", "nan"], "error: lr=nan must be a number of at least 0 and at most 3.4e+38"),
        (["--lr", "1e39"], "error: lr=1e+39 must be a number of at least 0 and at most 3.4e+38"),
    ],
)
def test_bad_settings(run, tmp_path, arguments, line):
    status, out, err = run(*TINY, *arguments, "--out", tmp_path / "folder")
    assert (status, out, err) == (2, "", line + "\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_folder_that_cannot_be_written_to(run, tmp_path, below):
    taken = tmp_path / "a file [bold]"
    taken.write_text("kept")
    status, out, err = run(*TINY, "--out", taken / below)
    assert (status, out) == (2, "")
    assert err.startswith(f"error: --out {taken / below}: cannot write there (")
    assert err.count("\n") == 1
    assert taken.read_text() == "kept"


def test_options_out_of_range(run, tmp_path):
    status, out, err = run(*TINY, "--steps", "0", "--out", tmp_path / "folder")
    assert (status, out) == (2, "")
    assert "--steps" in err
    assert not list(tmp_path.iterdir())


def test_interruption_ends_the_command(run, tmp_path, monkeypatch):
    calls = []

    def interrupted(self, state, rows, objective):
        calls.append(state.step)
        if state.step == 2:
            raise KeyboardInterrupt
        return step(self, state, rows, objective)

    step = dd.GradientDescent.stacked_step
    monkeypatch.setattr(dd.GradientDescent, "stacked_step", interrupted)
    status, out, _ = run(*TINY, "--out", tmp_path)
    assert (status, out) == (130, "")
    assert calls == [0, 1, 2]
    assert not list(tmp_path.iterdir())
