"""The site: its reference is complete, its pages are listed, and their Python blocks run."""

import ast
import html
import importlib.util
import inspect
import itertools
import operator
import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.evaluation.checks.catalogue import CHECKS, QUESTIONS
from tests.test_house import imports
from tests.test_readme import ROOT, run_blocks

DOCS = ROOT / "docs"
#: Pages whose blocks a test of their own runs, here or in test_readme.py.
OWN_TEST = {
    "big.md", "checkpoints.md", "descents.md", "developing.md", "diagnostics.md", "estimators.md",
    "integrations.md", "own-parts.md",
    "quickstart-pytorch.md", "quickstart-table.md", "tutorial.md",
    "theory/corrections.md", "theory/errata.md", "theory/state_evolution.md",
    "theory/orthogonal.md",
}  # fmt: skip


def with_blocks():
    """Pages with Python blocks, by their names within docs."""
    pages = [page for page in DOCS.rglob("*.md") if "_build" not in page.parts]
    found = {page.relative_to(DOCS).as_posix(): page.read_text() for page in pages}
    return {name for name, text in found.items() if "```python" in text}


def extension(name):
    """A module of docs/_extensions."""
    path = DOCS / "_extensions" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference():
    """The texts of the reference, as ``make docs`` writes them."""
    return extension("reference").pages()


@pytest.mark.parametrize(
    ("found", "right"),
    [
        ("module-mixtures.html#decoupled_descent.xor", "mixtures.xor"),
        ("module-mixtures.html#decoupled_descent.mixtures.xor", "mixtures.xor"),
        ("class-GaussianMixture.html#decoupled_descent.GaussianMixture", "GaussianMixture"),
        ("class-Rows.html#decoupled_descent.mixtures.Rows.split", "Rows.split"),
    ],
)
def test_links_from_source_code_have_the_anchors_of_the_reference(found, right):
    start = '<a class="viewcode-back" href="../../reference/'
    context = {"body": f'{start}{found}">[docs]</a>'}
    extension("reference").right_anchors(None, "_modules/a", None, context, None)
    page = found.split("#")[0]
    assert context["body"] == f'{start}{page}#decoupled_descent.{right}">[docs]</a>'


def defined(module):
    """The public classes and functions that the source of a module defines."""
    kinds = (ast.ClassDef, ast.FunctionDef)
    found = [node.name for node in ast.parse(inspect.getsource(module)).body if type(node) in kinds]
    return [name for name in found if not name.startswith("_")]


@pytest.mark.parametrize("name", sorted(set(dd.__all__) - set(dd._MODULES)))
def test_every_public_name_has_a_page(reference, name):
    entry = re.compile(rf"^\.\. auto\w+:: decoupled_descent\.{name}$", re.MULTILINE)
    assert sum(bool(entry.search(text)) for text in reference.values()) == 1
    assert f"<decoupled_descent.{name}>`" in reference["index"]
    assert inspect.getdoc(getattr(dd, name))


@pytest.mark.parametrize("name", sorted(dd._MODULES))
def test_every_public_module_lists_all_of_its_names(reference, name):
    module, text = getattr(dd, name), reference[f"module-{name}"]
    assert f"<module-{name}>`" in reference["index"]
    for each in getattr(module, "__all__", None) or defined(module):
        entry = rf":: decoupled_descent\.{name}\.{each}$"
        link = rf"decoupled_descent\.(\w+\.)?{each}>`|<module-{each}>`"
        assert re.search(f"{entry}|{link}", text, re.MULTILINE), each


@pytest.mark.parametrize(
    ("formula", "tags"),
    [
        (r"\hat h_t", ["math", "msub", "mi", "mi"]),
        (r"\bar J_t^\top", ["math", "msubsup", "mi", "mi", "mi"]),
        (r"\sum_t^T", ["math", "munderover", "mo", "mi", "mi"]),
        (r"\arg m < 1", ["math", "mi", "mo", "mi", "mo", "mn"]),  # arg, applied to m
    ],
)
def test_indices_stand_beside_letters_with_accents(formula, tags):
    pytest.importorskip("sphinx", reason="the site needs pip install '.[docs]'")
    nodes = pytest.importorskip("docutils.nodes")
    text = extension("mathml").mathml(nodes.math(formula, formula), block=False)
    found = [*ElementTree.fromstring(text).iter()]
    assert [each.tag.split("}")[1] for each in found] == tags
    assert any(each.text == "h\u0302" for each in found) == ("hat" in formula)


def test_the_map_shows_the_imports_that_the_house_checks():
    codemap, root = extension("codemap"), Path(dd.__file__).parent
    edges = codemap.graph(root)
    pairs = ((each.source.split(".")[0], each.target.split(".")[0]) for each in imports())
    assert {(name, use) for name in edges for use in edges[name]} == {
        (source, target) for source, target in pairs if source != target
    }
    fewer = codemap.reduced(edges)
    assert all(codemap.behind(fewer, name) == codemap.behind(edges, name) for name in edges)
    assert sum(map(len, fewer.values())) < sum(map(len, edges.values()))


def test_the_map_has_every_package_once_and_no_boxes_that_touch():
    codemap, root = extension("codemap"), Path(dd.__file__).parent
    picture = ElementTree.fromstring(codemap.drawing(root))
    width = float(picture.get("viewBox").split()[2])
    assert width < 390  # a telephone
    boxes = [
        {key: float(each.get(key)) for key in ("x", "y", "width", "height")}
        for each in picture.iter("{http://www.w3.org/2000/svg}rect")
    ]
    names = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")][::2]
    assert sorted(names) == sorted(set(codemap.graph(root)) - codemap.TOOLS)
    for one, two in itertools.combinations(boxes, 2):
        aside = abs(one["x"] - two["x"]) > one["width"]
        assert aside or abs(one["y"] - two["y"]) > one["height"]
    assert all(0 <= box["x"] <= width - box["width"] for box in boxes)


def test_the_table_of_checks_has_every_check_and_its_limits():
    pytest.importorskip("sphinx", reason="the site needs pip install '.[docs]'")
    table = extension("checks").table()
    for name, question in QUESTIONS.items():
        assert f"<b>{html.escape(name)}</b><br>{html.escape(question)}" in table
    spectrum = next(check for check in CHECKS if check.name == "spectrum")
    assert f"caution from {spectrum.caution:g}, alarm from {spectrum.alarm:g}" in table


def test_every_figure_of_the_paper_is_in_the_gallery():
    script = (DOCS / "gallery" / "15_paper.py").read_text()
    assert sorted(re.findall(r'^show\("([a-z-]+)"\)', script, re.MULTILINE)) == sorted(
        dd.reproduce.EXPERIMENTS
    )
    for name, experiment in dd.reproduce.EXPERIMENTS.items():
        if experiment.prepare is not None:  # shown where there are no data
            assert (DOCS / "figures" / "paper" / f"{name}.png").exists()


def test_every_page_is_listed():
    listed = set()
    for page in DOCS.rglob("*.md"):
        for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), re.DOTALL):
            lines = [line for line in block.splitlines() if line and not line.startswith(":")]
            listed |= {each for line in lines for each in page.parent.glob(f"{line}.md")}
    pages = {page for page in DOCS.rglob("*.md") if "_build" not in page.parts}
    assert pages - listed == {DOCS / "index.md"}


#: What newcomers type into the search.
SEARCHED = [
    *("validation", "overfitting", "early stopping", "cross-validation", "leave-one-out", "AUC"),
    *("patient", "groups", "time series", "Excel", "missing values", "PyTorch", "CNN"),
    *("fine-tuning", "Lightning", "GPU", "big data", "save a model", "feature importance"),
    "confidence interval",
]


@pytest.mark.parametrize("words", SEARCHED)
def test_a_question_or_title_has_the_words_that_people_search_for(words):
    lines = [line for page in DOCS.glob("*.md") for line in page.read_text().splitlines()]
    headings = [line.lower() for line in lines if line.startswith("#")]
    assert any(words.lower() in heading for heading in headings)


def test_comparison_in_the_readme_is_that_of_the_study():
    page = (DOCS / "results" / "tables.md").read_text()
    row = re.compile(r"^\| ([a-z ]+) \| (\d+)(?: of 55)? \| ([\d.]+) \| \d+ % \|$", re.MULTILINE)
    quoted = row.findall((ROOT / "README.md").read_text())
    assert len(quoted) == 6
    for name, first, ratio in quoted:
        assert re.search(rf"^\| {name} \| [\d.]+ \| {first} \| {ratio} \|", page, re.MULTILINE), (
            name
        )


def test_version_to_cite():
    assert f"\nversion: {dd.__version__}\n" in (ROOT / "CITATION.cff").read_text()


@pytest.mark.parametrize("name", sorted(with_blocks() - OWN_TEST))
def test_blocks_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_blocks(DOCS / name)


def test_pages_with_tests_of_their_own_have_blocks():
    assert with_blocks() >= OWN_TEST
    tests = "".join(path.read_text() for path in (ROOT / "tests").glob("test_*.py"))
    calls = "".join(tests.split("run_blocks(")[1:])
    assert all(f'"{Path(name).name}"' in calls for name in OWN_TEST)


def test_corrections():
    """Each figure of the page, and that both corrections together do most."""
    found = run_blocks(DOCS / "theory" / "corrections.md")["distances"]
    text = (DOCS / "theory" / "corrections.md").read_text()
    words = ("no", "yes")
    for (memory, hessian), distance in found.items():
        assert f"| {words[memory]} | {words[hessian]} | {distance:.2f} |" in text
    assert found[1, 1] < min(found[terms] for terms in found if terms != (1, 1)) / 5


@pytest.mark.slow
def test_errata():
    names = run_blocks(DOCS / "theory" / "errata.md")
    text = (DOCS / "theory" / "errata.md").read_text()
    for runs, here, printed in (
        ("alignments", names["predicted_alignment"], 0.4),
        ("squares", names["predicted_square"], 0.125),
    ):
        mean, stderr = names[runs].mean(), names[runs].std() / len(names[runs]) ** 0.5
        assert f"| {mean:.3f} ± {stderr:.3f} | {here:g} | {printed:g} |" in text
        assert abs(mean - here) < 3 * stderr < abs(mean - printed) / 10


def test_tests_that_pages_name_exist():
    tests = {path: path.read_text() for path in (ROOT / "tests").rglob("*.py")}
    defined = set(re.findall(r"def (test_\w+)", "".join(tests.values())))
    for page in DOCS.rglob("*.md"):
        named = set(re.findall(r"`(test_\w+)`", page.read_text()))
        assert named <= defined, (page, named - defined)


def test_quickstart_with_a_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_blocks(DOCS / "quickstart-table.md")
    model, truth = names["model"], names["seen_later"]
    stderr = model.estimated_accuracy_stderr_
    noise = (stderr**2 + truth * (1 - truth) / 369) ** 0.5
    assert abs(model.estimated_accuracy_ - truth) < 3 * noise


@pytest.mark.slow
def test_quickstart_at_the_command_line(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from decoupled_descent.app.cli.command import app

    monkeypatch.chdir(tmp_path)
    page = DOCS / "quickstart-table.md"
    run_blocks(page)
    said = ""
    for line in re.findall(r"^decoupled (.*)$", page.read_text(), flags=re.MULTILINE):
        done = CliRunner().invoke(app, shlex.split(line))
        assert done.exit_code == 0, done.output
        said += done.output
    for quoted in re.findall(r"```text\n(.*?)```", page.read_text(), flags=re.DOTALL):
        for line in quoted.splitlines():
            assert " ".join(line.split()) in " ".join(said.split())
    assert Path("predictions.csv").exists()


def test_quickstart_with_a_model():
    names = run_blocks(DOCS / "quickstart-pytorch.md")
    fresh, labels = names["mixture"].sample(4000, seed=1)
    logits = names["trained"](10 * fresh).squeeze(1).detach()
    right = ((logits > 0) == (labels > 0)).double().mean()
    assert right > 0.85  # one label in twenty is flipped


def test_tutorial():
    names = run_blocks(DOCS / "tutorial.md")
    gd, descent = names["gd"], names["dd_run"]
    quoted = {"0.21": gd.train_error, "1.11": gd.test_error, "1.09": descent.train_error}
    for figure, error in ({"1.17": descent.test_error} | quoted).items():
        assert abs(float(error[-1]) - float(figure)) < 0.011
    for name, figure in (("distance", 0.04), ("plain", 0.57)):
        assert abs(float(names[name]) - figure) < 0.005
    assert names["diagnosis"].verdict == "trust"
    text = (DOCS / "tutorial.md").read_text().replace("−", "-")
    for i, row in enumerate(names["outputs"].tolist()):
        cells = re.search(rf"^\| {i} \| [01] \|(.*)\|$", text, re.MULTILINE)[1].split("|")
        assert all(abs(float(cell) - value) < 0.06 for cell, value in zip(cells, row, strict=True))


def test_own_parts():
    names = run_blocks(DOCS / "own-parts.md")
    runs = [names[name] for name in ("gated", "robust", "cut_off")]
    assert all(run.train_error[run.best_step] < run.train_error[0] for run in runs)
    assert names["model"].estimated_accuracy_ > 0.7


SMALL = dd.mixtures.xor(400, 6.0).sample(400, seed=0)


def test_rows_that_do_not_fit(tmp_path, monkeypatch):
    """The page's calls on a small file, and on the rows of one process in a group of one."""
    monkeypatch.chdir(tmp_path)
    (X, y), objective = SMALL, dd.Objective(dd.heads.Product(a=1.0), "logistic")
    np.save("rows.npy", X.numpy())
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "RANK": "0", "WORLD_SIZE": "1"}
    for name, value in group.items():
        monkeypatch.setenv(name, value)
    try:
        names = run_blocks(
            DOCS / "big.md", np=np, dd=dd, y=y, objective=objective, my_share=lambda _: SMALL
        )
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
    plain = dd.fit(X, y, objective, dd.DecoupledDescent(0.05), 200)
    torch.testing.assert_close(names["run"].train_error[:50], plain.train_error[:50])


def test_checkpoints(tmp_path, monkeypatch):
    """The page's call, made twice: the second reads the first."""
    monkeypatch.chdir(tmp_path)
    (X, y), objective = SMALL, dd.Objective(dd.heads.Product(a=1.0), "logistic")
    given = {"dd": dd, "X": X[:60, :20], "y": y[:60], "objective": objective}
    algorithm = dd.GradientDescent(0.01)
    runs = [run_blocks(DOCS / "checkpoints.md", **given, algorithm=algorithm)["run"] for _ in "12"]
    assert runs[0].history == runs[1].history
    assert len(runs[0].train_error) == 5000


FORMULAS = sorted((DOCS / "theory").glob("*.md"))


@pytest.mark.parametrize("page", FORMULAS, ids=lambda page: page.stem)
def test_formulas_stand_beside_functions_that_exist(page):
    """Cells such as "`descent/rules.py`, `require_linear`", and public names."""
    if page.stem == "errata":  # has tests in the place of functions
        return
    table = page.read_text().split("## In the library\n", 1)[1]
    cells = [line.split(" | ")[1] for line in table.splitlines() if line.startswith("| ")]
    assert len(cells) > 3
    for cell in cells[1:]:
        source = ""
        for quoted in re.findall(r"`([^`]+)`", cell):
            if quoted.endswith(".py"):
                folder = ROOT if quoted.startswith("studies/") else Path(dd.__file__).parent
                source = (folder / quoted).read_text()
            elif quoted.startswith("dd."):
                assert operator.attrgetter(quoted.removeprefix("dd."))(dd)
            elif source and quoted.isidentifier():
                assert re.search(rf"(def|class) {quoted}\b|self\.{quoted}\b", source), quoted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x_iᵀ(A − x_i)⁻¹", "x[i]ᵀ(A − x[i])⁻¹"),
        ("m_{j,t} of Xθ̃_s and min_t h", "m[j,t] of Xθ̃[s] and min[t] h"),
        ("(η S)^{t−1}, i^−0.7 and a_i^2", "(η S)<t−1>, i<−0.7> and a[i]<2>"),
        ("ℓ'_t ℓ'' and v'_j", "ℓ'[t] ℓ'' and v'[j]"),
        ("head_lr of best_step, c*", "head_lr of best_step, c*"),
    ],
)
def test_indices_of_formulas_in_the_text(text, shown):
    brackets = {"text": "{}", "subscript": "[{}]", "superscript": "<{}>"}
    found = extension("indices").pieces(text)
    assert "".join(brackets[kind].format(part) for kind, part in found) == shown


def test_numbers_and_their_errors_do_not_break():
    text = "z is 1.2 ± 0.1 in 5 % of runs ± others, 0.4 (0.1) in 3 (all)"
    assert extension("indices").joined(text) == (
        "z is 1.2\u00a0±\u00a00.1 in 5\u00a0% of runs ± others, 0.4\u00a0(0.1) in 3 (all)"
    )


def test_pages_are_short():
    """About 250 lines at most, 300 for developers; the long tables are in Studies."""
    pages = [*DOCS.glob("*.md"), *(DOCS / "theory").glob("*.md")]
    lengths = {page.name: len(page.read_text().splitlines()) for page in pages}
    assert lengths.pop("developing.md") < 310
    assert max(lengths.values()) < 280, lengths
