"""The Python blocks of the README and of the how-tos run, as a reader would type them."""

import importlib.util
import re
import shlex
import textwrap
from pathlib import Path

import pytest
import torch
import typer
from torch.nn import functional

import decoupled_descent as dd
from decoupled_descent.app.cli.command import app

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PACKAGES = [path.parent for path in (ROOT / "src").rglob("__init__.py")]


def run_blocks(page, **names):
    """Run all Python blocks of a page in one namespace."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(textwrap.dedent(block), str(page), "exec"), names)
    return names


def test_python_blocks_run():
    names = run_blocks(README)
    run, theory = names["run"], names["theory"]  # the limit of what the run shows
    gap = (run.train_error - theory.test_error).abs()
    assert float(gap.mean()) < 0.1  # 1000 rows leave the saddle a few steps earlier or later


def test_descents_page_runs():
    names = run_blocks(ROOT / "docs" / "descents.md")
    found = [names[name] for name in ("at_minimum", "along_path")]
    apart = abs(found[0].error - found[1].error)
    assert apart < 3 * max(one.stderr for one in found)  # two estimates of like models
    X, y = names["X"], names["y"]
    fresh, labels = dd.mixtures.flipped_classes(400, 2.0, flip=0.05, labels=(0, 1)).sample(4000, 1)
    with torch.no_grad():
        logits = names["model"](fresh).squeeze(1)
        plain = names["model"](X).squeeze(1)
    losses = functional.binary_cross_entropy_with_logits(logits, labels.float(), reduction="none")
    seen = functional.binary_cross_entropy_with_logits(plain, y.float())
    stderr = float(names["info"].losses.std()) / len(X) ** 0.5
    noise = (stderr**2 + float(losses.var()) / len(losses)) ** 0.5
    assert abs(names["lowest"] - float(losses.mean())) < 3 * noise  # two independent samples
    assert float(seen) < names["lowest"]  # what the correction has undone


def test_estimators_page_runs():
    names = run_blocks(ROOT / "docs" / "estimators.md")
    assert 0.8 < names["model"].estimated_accuracy_ <= 1


def test_diagnostics_page_runs(capsys):
    names = run_blocks(ROOT / "docs" / "diagnostics.md")
    assert names["diagnosis"].verdict == "trust"
    assert capsys.readouterr().out.startswith("trust")


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")  # within Lightning
def test_integrations_page_runs(tmp_path, monkeypatch):
    for library in ("lightning", "skorch", "torchmetrics"):
        pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)  # Lightning writes its checkpoints here
    torch.manual_seed(0)
    names = run_blocks(ROOT / "docs" / "integrations.md")
    found, test = names["in_lightning"], names["test"]
    noise = (found.stderr**2 + float(test["accuracy_stderr"]) ** 2) ** 0.5
    assert abs(found.value - float(test["accuracy"])) < 3 * noise
    assert found.value > 0.6


def test_orthogonal_page_runs():
    names = run_blocks(ROOT / "docs" / "theory" / "orthogonal.md")
    assert 0 < names["swept"].corrected_error.error < 0.69
    assert bool(names["evolution"].test_error.isfinite().all())


def test_state_evolution_page_runs():
    names = run_blocks(ROOT / "docs" / "theory" / "state_evolution.md")
    run, predicted = names["run"], names["evolution"].test_error
    off = (run.train_error.double() - predicted) / run.train_error_stderr.double()
    assert float(off[:10].abs().max()) < 4  # later, when XOR breaks its symmetry is chance


@pytest.mark.parametrize("page", [README, *sorted(ROOT.glob("docs/**/*.md"))], ids=lambda p: p.name)
def test_files_it_points_to_exist(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target


def test_developers_page_adds_working_parts():
    names = run_blocks(ROOT / "docs" / "developing.md")
    X, y, run, objective = (names[name] for name in ("X", "y", "run", "objective"))
    assert run.train_error[-1] < run.train_error[0]
    algorithms = {"sign": run.algorithm, "dd": dd.DecoupledDescent(0.05)}
    swept = dd.sweep(X, y, objective, algorithms, steps=20, seed=0)
    torch.testing.assert_close(swept.runs[0].theta, run.theta)
    assert swept.best_index == 1
    assert dd.diagnose(X, y, run).verdict == "do not trust"
    assert names["closed"].curvature == "structured"
    assert names["finding"].status == "note"
    (panel,) = names["panels"]
    gaps = {curve["algorithm"]: curve["mean_absolute_gap"] for curve in panel["curves"]}
    assert gaps["dd"] < gaps["gd"]
    assert len(names["figure"].axes) == 2
    tables = dd.objective.activations.FUNCTIONS, dd.objective.losses.LOSSES
    assert all("asinh" not in str(table) and "robust" not in table for table in tables)


def test_developers_page_names_files_that_exist():
    text = (ROOT / "docs" / "developing.md").read_text()
    found = re.findall(r"[\w/]+\.py\b|docs/[\w/]+\.md", text)
    named = {name for name in found if "sign" not in name}  # the algorithm of the example
    folders = [ROOT, ROOT / "src" / "decoupled_descent", ROOT / "tests" / "objective"]
    folders += PACKAGES
    missing = [name for name in named if not any((folder / name).exists() for folder in folders)]
    assert len(named) > 40
    assert not missing


#: Commands that tests leave alone: they install from the network, or run the tests themselves.
LEFT_ALONE = ("pip install", ".venv/bin/pre-commit", ".venv/bin/pytest", "torchrun")


def commands():
    """Every line of the shell blocks of README, CONTRIBUTING and the pages."""
    pages = [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
    for page in pages:
        blocks = re.findall(r"^ *```sh\n(.*?)^ *```", page.read_text(), re.DOTALL | re.MULTILINE)
        text = "".join(blocks).replace("\\\n", " ")
        for line in filter(None, (line.split("  #")[0].strip() for line in text.splitlines())):
            if not line.startswith(LEFT_ALONE):
                yield pytest.param(line, id=f"{page.stem}: {line}")


@pytest.mark.parametrize("line", commands())
def test_commands_in_shell_blocks_exist(line):
    """The command, its options and files; the quickstart's are run by tests/test_site.py."""
    words = [word for word in shlex.split(line) if not re.match(r"[A-Z_]+=", word)]
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    elif words[:2] == ["python", "-m"]:
        assert importlib.util.find_spec(words[2])
    elif words[0] == "python":
        assert (ROOT / words[1]).exists()
    else:
        assert words[0] == "decoupled"
        command = typer.main.get_command(app)
        with command.make_context("decoupled", words[1:]) as context:
            name, found, rest = command.resolve_command(context, words[1:])
            found.make_context(name, rest, parent=context, resilient_parsing=False)
