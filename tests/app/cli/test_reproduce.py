"""``decoupled reproduce``: options reach the experiment, JSON and words; bad input."""

import json
from dataclasses import replace

from decoupled_descent.app import reproduce
from decoupled_descent.app.cli.reproduce import FIGURES


def summary_of(folder, figure):
    return json.loads((folder / figure / "summary.json").read_text())


def test_options(run, tiny):
    small = replace(reproduce.EXPERIMENTS["xor"], quick={"steps": 3})
    reproduce.EXPERIMENTS["xor"] = small  # the fixture restores it
    options = ("--quick", "--replications", 3, "--seed", 5, "--jobs", 1)
    status, out, _ = run("reproduce", "xor", *options, "--out", tiny)
    assert status == 0
    assert out.startswith("xor: ")
    for name in ("xor.png", "xor.svg", "summary.json"):
        assert f"{tiny / 'xor' / name}\n" in out
        assert (tiny / "xor" / name).exists()
    settings = summary_of(tiny, "xor")["settings"]
    expected = {"steps": 3, "replications": 3, "seed": 5}
    assert {name: settings[name] for name in expected} == expected


def test_data_are_read_from_the_folder_that_is_given(run, tiny, tmp_path):
    status, out, err = run("reproduce", "mnist", "--data", tmp_path, "--out", tiny)
    assert (status, out) == (2, "")
    assert str(tmp_path) in err
    assert not tiny.exists()


def test_all_names_what_is_left_out_and_the_gallery(run, tiny, monkeypatch):
    two = {name: reproduce.EXPERIMENTS[name] for name in ("xor", "mnist")}
    monkeypatch.setattr(reproduce, "EXPERIMENTS", two)
    status, out, err = run("reproduce", "all", "--jobs", 1, "--out", tiny, "--json")
    assert status == 0
    assert err.startswith("left out mnist: ")
    content = json.loads(out)  # JSON has no NaN
    assert [one["figure"] for one in content["figures"]] == ["xor"]
    assert list(content["skipped"]) == ["mnist"]
    status, out, _ = run("reproduce", "all", "--jobs", 1, "--out", tiny)
    assert status == 0
    assert out.endswith(f"gallery: {tiny / 'index.html'}\n")


def test_unknown_figures_make_no_folder(run, tmp_path):
    status, out, err = run("reproduce", "spiral", "--out", tmp_path / "out")
    assert (status, out) == (2, "")
    assert "spiral" in err
    assert not list(tmp_path.iterdir())


def test_the_figures_are_those_that_exist():
    assert tuple(reproduce.EXPERIMENTS) == FIGURES
