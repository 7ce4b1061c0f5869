"""``decoupled reproduce``: options reach the experiment, JSON and words; bad input."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from decoupled_descent.app import reproduce
from decoupled_descent.app.cli.reproduce import FIGURES


@pytest.fixture
def asked(monkeypatch):
    """Stand-ins for the computation of figures; what they were asked for."""
    calls = []

    def one(name, folder, **options):
        calls.append((name, folder, options))
        return SimpleNamespace(
            experiment=SimpleNamespace(name=name),
            summary={"figure": name, "findings": {"gap": float("nan")}},
            files=[Path(folder) / f"{name}.png"],
        )

    def every(folder, report, **options):
        done = [one("xor", folder, **options)]
        report(done[0])
        return done, {"mnist": "no data"}

    monkeypatch.setattr(reproduce, "reproduce", one)
    monkeypatch.setattr(reproduce, "reproduce_all", every)
    monkeypatch.setattr(reproduce, "find_data", lambda figure, data: None)
    return calls


def test_options(run, asked, tmp_path):
    options = ("--quick", "--replications", 3, "--seed", 5, "--jobs", 2, "--data", tmp_path)
    status, out, err = run("reproduce", "xor", *options, "--out", tmp_path / "out")
    assert (status, err) == (0, "")
    assert out == f"xor: {{'gap': nan}}\n{tmp_path / 'out' / 'xor.png'}\n\n"
    expected = {"quick": True, "replications": 3, "seed": 5, "jobs": 2, "data": tmp_path}
    assert asked == [("xor", tmp_path / "out", expected)]


def test_all_in_json_has_no_words_and_no_nan(run, asked, tmp_path):
    status, out, err = run("reproduce", "all", "--out", tmp_path, "--json")
    assert (status, err) == (0, "left out mnist: no data\n")
    assert json.loads(out) == {
        "figures": [
            {"figure": "xor", "findings": {"gap": None}, "files": [str(tmp_path / "xor.png")]}
        ],
        "skipped": {"mnist": "no data"},
    }


def test_all_names_the_gallery(run, asked, tmp_path):
    status, out, _ = run("reproduce", "all", "--out", tmp_path)
    assert status == 0
    assert out.endswith(f"gallery: {tmp_path / 'index.html'}\n")


def test_unknown_figures_make_no_folder(run, tmp_path):
    status, out, err = run("reproduce", "spiral", "--out", tmp_path / "out")
    assert (status, out) == (2, "")
    assert "spiral" in err
    assert not list(tmp_path.iterdir())


def test_the_figures_are_those_that_exist():
    assert tuple(reproduce.EXPERIMENTS) == FIGURES
