"""``decoupled train --resume``: what was done is not done again, and the model is the same."""

import json

import pytest

from decoupled_descent.tables.search import ridge_fits
from tests.app.cli.conftest import FAST, table

LINEAR = ("--features", "linear")


@pytest.fixture
def shop(tmp_path):
    path = tmp_path / "shop.csv"
    table().to_csv(path, index=False)
    return path


def train(run, shop, out, *options):
    return run("train", shop, "--target", "answer", "--out", out, *LINEAR, *options)


def model(folder):
    """All that a model file says; the order of its header is chance."""
    content = (folder / "model.safetensors").read_bytes()
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def saves(folder):
    return sorted((folder / "checkpoints").glob("*/checkpoint.safetensors"))


def cut_short(monkeypatch, count):
    """End the process in a fit, as SIGTERM does."""
    whole, made = ridge_fits.fit, []

    def fit(*arguments, **options):
        made.append(None)
        if len(made) > count:
            raise SystemExit(143)
        return whole(*arguments, **options)

    monkeypatch.setattr(ridge_fits, "fit", fit)


def test_a_training_that_was_cut_short(run, shop, tmp_path, monkeypatch):
    assert train(run, shop, tmp_path / "whole")[0] == 0
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        cut_short(patch, 3)
        status, _, err = train(run, shop, out, "--resume")
    assert status == 143
    assert f"interrupted; the progress is saved in {out}/checkpoints; the same command" in err
    first = {path: path.stat().st_mtime_ns for path in saves(out)}
    assert len(first) == 3
    with monkeypatch.context() as patch:
        cut_short(patch, 5)
        assert train(run, shop, out, "--resume")[0] == 143
    assert len(saves(out)) == 5
    assert {path: path.stat().st_mtime_ns for path in first} == first  # not trained again
    assert train(run, shop, out, "--resume")[0] == 0
    assert model(out) == model(tmp_path / "whole")
    assert not (out / "checkpoints").exists()


def test_the_folder_is_gone_afterwards(run, shop, tmp_path):
    arguments = ("train", shop, "--target", "answer", *FAST)
    assert run(*arguments, "--out", tmp_path / "a", "--resume")[0] == 0
    assert run(*arguments, "--out", tmp_path / "b")[0] == 0
    assert model(tmp_path / "a") == model(tmp_path / "b")
    assert not (tmp_path / "a" / "checkpoints").exists()


def test_a_damaged_file_is_named(run, shop, tmp_path, monkeypatch):
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        cut_short(patch, 2)
        train(run, shop, out, "--resume")
    for path in saves(out):
        path.write_bytes(path.read_bytes()[:500])
    status, _, err = train(run, shop, out, "--resume")
    assert status == 2
    assert "checkpoint.safetensors is damaged or no checkpoint" in err
    assert "delete it to start anew" in err


def test_nothing_is_kept_unasked(run, shop, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        cut_short(patch, 2)
        status, _, err = train(run, shop, tmp_path / "out")
    assert status == 143
    assert "progress is saved" not in err
    assert not (tmp_path / "out").exists()
