"""The whole way: files, summary, gallery, what is left out, and the command."""

import html
import json
import re
import sys
from dataclasses import replace

import numpy as np
import pytest

from decoupled_descent.app import reproduce
from decoupled_descent.app.cli import command
from tests.app.conftest import TINY
from tests.app.reproduce.small_data import write_embeddings, write_mnist


@pytest.fixture
def data(tiny, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    write_mnist(tmp_path / "data", monkeypatch)
    write_embeddings(tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command in this process: exit status, standard output, standard error."""

    def invoke(*arguments):
        monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # typer replaces it
        status = command.answer(["reproduce", *map(str, arguments)])
        out, err = capsys.readouterr()
        return status, out, err

    return invoke


def check_files(done, folder, seed):
    """PNG, SVG and a summary in the schema that others rely on."""
    figure = done.experiment.name
    names = [f"{figure}.png", f"{figure}.svg", "summary.json"]
    assert [*done.files] == [folder / figure / name for name in names]
    png, svg, summary = done.files
    assert png.read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in svg.read_bytes()
    content = json.loads(summary.read_text())
    assert content == done.summary
    assert content["figure"] == figure
    assert content["settings"]["seed"] == seed
    assert content["settings"]["replications"] == 2
    assert re.search(r"\d\.\d", content["findings"])
    for curve in (curve for panel in content["panels"] for curve in panel["curves"]):
        if figure != "runtime":
            for kind in ("train", "test"):
                assert set(curve[kind]) == {"median", "q25", "q75", "min", "max"}
                assert len(curve[kind]["median"]) == 4
            assert curve["mean_absolute_gap"] >= 0
            theory = figure not in ("mnist", "cifar")
            assert len(curve["state_evolution"]) == (4 if theory else 0)
            own = theory and curve["algorithm"] == "gd"
            assert len(curve.get("state_evolution_train", [])) == (4 if own else 0)


def test_the_same_command_twice_writes_the_same(tiny):
    first = reproduce.reproduce("signalless", tiny, jobs=1)
    before = [file.read_bytes() for file in (first.files[0], first.files[2])]
    again = reproduce.reproduce("signalless", tiny, jobs=1)
    assert [file.read_bytes() for file in (again.files[0], again.files[2])] == before


def test_quick_settings_are_cheaper_and_shown():
    """Fewer runs, or smaller and shorter ones; nothing else is another experiment."""
    for experiment in reproduce.EXPERIMENTS.values():
        assert "replications" in experiment.quick
        assert set(experiment.quick) <= {"replications", "n", "d", "steps"}
        for name, value in experiment.quick.items():
            assert value < experiment.settings[name]


@pytest.mark.slow
def test_all_with_a_gallery(data, tiny):
    reported = []
    done, skipped = reproduce.reproduce_all(tiny, data=data, report=reported.append, jobs=1, seed=3)
    assert [one.experiment.name for one in done] == list(reproduce.EXPERIMENTS)
    assert reported == done
    assert skipped == {}
    page = (tiny / "index.html").read_text()
    for one in done:
        check_files(one, tiny, seed=3)
        assert f'<section id="{one.experiment.name}">' in page
        assert f"<p>{html.escape(one.summary['findings'])}</p>" in page
        for link in re.findall(rf'href="({one.experiment.name}/[^"]*)"', page):
            assert (tiny / link).exists()
    assert page.count("data:image/png;base64,iVBOR") == len(TINY)
    assert not re.search(r'(src|href)="(https?:|/)', page), "self-contained"
    assert '<meta name="viewport" content="width=device-width' in page
    assert sorted(path.name for path in tiny.iterdir()) == sorted([*TINY, "index.html"])


def test_command(data, tiny, run):
    status, out, err = run("xor", "--out", tiny, "--jobs", 1)
    assert (status, err) == (0, "")
    summary = json.loads((tiny / "xor" / "summary.json").read_text())
    assert f"xor: {summary['findings']}" in " ".join(out.split())
    for name in ("xor.png", "xor.svg", "summary.json"):
        assert str(tiny / "xor" / name) in out


def test_command_in_json(data, tiny, run):
    status, out, _ = run("mnist", "--out", tiny, "--data", data, "--jobs", 1, "--json")
    (one,) = json.loads(out)["figures"]
    assert status == 0
    assert one.pop("files") == [
        str(tiny / "mnist" / name) for name in ("mnist.png", "mnist.svg", "summary.json")
    ]
    assert one == json.loads((tiny / "mnist" / "summary.json").read_text())


def test_all_makes_do_without_data_and_says_so(tiny, run):
    status, out, err = run("all", "--out", tiny, "--jobs", 1)
    assert status == 0
    reasons = dict(line.removeprefix("left out ").split(": ", 1) for line in err.splitlines())
    assert list(reasons) == ["mnist", "runtime", "cifar"]
    assert out.endswith(f"gallery: {tiny / 'index.html'}\n")
    page = (tiny / "index.html").read_text()
    assert page.count("data:image/png") == 4
    assert page.count('class="missing"') == 3
    for reason in reasons.values():
        assert html.escape(reason) in page


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["moon"], "error: figure 'moon' is unknown; use one of signalless, .*, cifar, all\n"),
        (["cifar"], "error: no cifar10_cats_dogs_resnet18.npz .*\n"),
        (["mnist"], "error: MNIST was not found and could not be downloaded .*offline.*\n"),
        (
            ["mnist", "--data", "nowhere"],
            "error: nowhere does not exist; check the name .*\n",
        ),
        (
            ["all", "--data", "nowhere"],
            "error: nowhere does not exist; check the name .*\n",
        ),
    ],
)
def test_bad_input(tiny, run, arguments, line):
    status, out, err = run(*arguments, "--out", tiny)
    assert (status, out) == (2, "")
    assert re.fullmatch(line, err)
    assert not tiny.exists()


def test_a_folder_that_cannot_be_written_to(tiny, run, tmp_path):
    (tmp_path / "taken").write_text("kept")
    status, out, err = run("xor", "--out", tmp_path / "taken")
    assert (status, out) == (2, "")
    assert err.startswith(f"error: --out {tmp_path / 'taken'}: cannot write there (")


def test_interruption_ends_the_command_and_keeps_what_was_done(tiny, run, monkeypatch):
    experiment = reproduce.EXPERIMENTS["xor"]

    def interrupted(settings, seed):
        if seed == 1:
            raise KeyboardInterrupt
        return experiment.problems(settings, seed)

    monkeypatch.setitem(reproduce.EXPERIMENTS, "xor", replace(experiment, problems=interrupted))
    status, out, _ = run("xor", "--out", tiny, "--jobs", 1)
    assert (status, out) == (130, "")
    assert len(list((tiny / "xor" / "replications").iterdir())) == 1
    assert not (tiny / "xor" / "summary.json").exists()


def test_help_names_every_figure(run):
    status, out, _ = run("--help")
    assert status == 0
    plain = re.sub(r"[^a-z,-]+", " ", out)
    for figure in TINY:
        assert figure in plain


def test_curves_of_runs_that_diverge_fit_in_the_summary(tiny, monkeypatch):
    settings = reproduce.EXPERIMENTS["signalless"].settings | {"lr": 1e9, "steps": 30}
    wild = replace(reproduce.EXPERIMENTS["signalless"], settings=settings)
    monkeypatch.setitem(reproduce.EXPERIMENTS, "signalless", wild)
    done = reproduce.reproduce("signalless", tiny, jobs=1)
    (panel,) = json.loads(done.files[2].read_text())["panels"]
    for curve in panel["curves"]:
        assert curve["diverged"] == 2
        assert curve["train"]["median"][-1] is None
        assert np.isfinite(curve["train"]["median"][0])
    assert "2 of gradient descent in panel signalless" in done.summary["findings"]
