"""The rules of the house: imports go one way, and algorithms speak for themselves."""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.descent import Info, StackedAlgorithm
from tests.problems import binary, normal, two_layer

ROOT = Path(dd.__file__).parent

#: The order of the packages, lowest first: a module imports from its own level or from below.
#: Packages of one level do not import each other, except from left to right.
ORDER = [
    ["checks", "files", "progress", "quiet", "tensor_file"],
    ["datasets", "plotting"],  # runs, sweeps, evolutions and estimators draw themselves with it
    ["objective", "rows"],
    ["descent"],
    ["leave_one_out"],
    ["evaluation"],  # every run has one, so it stands above all training
    ["training"],
    ["theory"],
    ["networks"],
    ["integrations"],
    ["tables.schema", "tables.columns", "tables.prediction", "tables.features"],
    ["tables.members", "tables.search", "tables.analyses", "tables.estimators"],
    ["app.files", "app.report", "app.export", "app.reproduce", "app.cli"],
]
LEVEL = {
    name: (level, place) for level, names in enumerate(ORDER) for place, name in enumerate(names)
}


class Import(NamedTuple):
    """One import at run time, from one package to another."""

    source: str
    target: str
    place: str


class Runtime(ast.NodeVisitor):
    """Collect imports of this package, those inside functions too, not those for type checkers."""

    def __init__(self, module: str) -> None:
        self.module, self.found = module, []

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                self.visit(other)
            return
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        self.found += [(alias.name, node.lineno) for alias in node.names]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        assert node.level == 0, f"{self.module}:{node.lineno} imports relatively"
        if node.module in (
            "decoupled_descent",
            "decoupled_descent.app",
            "decoupled_descent.tables",
        ):  # import checks
            self.found += [(f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
        elif node.module:
            self.found.append((node.module, node.lineno))


def sources() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def package(path: Path) -> str:
    return room(path.relative_to(ROOT).with_suffix("").parts)


def room(parts: tuple[str, ...]) -> str:
    """The package of a module by its path; rooms of tables and the application are told apart."""
    return ".".join(parts[:2]) if parts[0] in ("app", "tables") else parts[0]


def imports() -> list[Import]:
    found = []
    for path in sources():
        if path.parent == ROOT and path.name == "__init__.py":  # has all public names
            continue
        visitor = Runtime(str(path))
        visitor.visit(parsed(path))
        for name, line in visitor.found:
            parts = name.split(".")
            if parts[0] == "decoupled_descent" and len(parts) > 1:
                target, place = room(tuple(parts[1:])), f"{path.relative_to(ROOT)}:{line}"
                if target != package(path):
                    found.append(Import(package(path), target, place))
    return found


def test_every_package_has_its_place():
    packages = {package(path) for path in sources()} - {
        "__init__",
        "app.__init__",
        "tables.__init__",
    }
    assert packages == set(LEVEL)


def test_imports_go_one_way():
    wrong = [each for each in imports() if LEVEL[each.source] < LEVEL[each.target]]
    assert not wrong, "\n".join(f"{place}: {s} imports {t}" for s, t, place in wrong)


def test_nothing_outside_the_application_imports_it():
    """Its public names are loaded on first use, by the package's own ``__init__`` alone."""
    targets = [each for each in imports() if each.target.split(".")[0] == "app"]
    assert targets, "the parts of the application import each other"
    wrong = [each.place for each in targets if not each.source.startswith("app.")]
    assert not wrong, "\n".join(wrong)


def test_packages_make_no_cycles():
    below = defaultdict(set)
    for each in imports():
        below[each.source].add(each.target)
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path, name))
        if name not in done:
            for other in below[name]:
                visit(other, (*path, name))
            done.add(name)

    for name in list(below):
        visit(name, ())


# No file can run code


FORBIDDEN = {
    "pickle", "cPickle", "cloudpickle", "dill", "shelve", "marshal", "jsonpickle", "yaml",
    "subprocess", "ctypes", "code", "runpy", "builtins",
}  # fmt: skip
#: The exceptions: the libraries of PyTorch and of C, which are loaded already; no file names them.
EXCEPTIONS = {("rows/threads.py", "import ctypes"), ("rows/freed_memory.py", "import ctypes")}
RUNNING = {"eval", "exec", "compile", "__import__"}
#: Loaders that unpickle unless they are told not to, and must be called by these names.
LOADERS = {"numpy": "np.load", "torch": "torch.load", "joblib": "joblib.load"}


def runs_code(node: ast.AST) -> bool:
    """Whether a statement could execute what a file says: pickle, eval and their like."""
    if isinstance(node, ast.Import):
        return bool(FORBIDDEN & {alias.name.split(".")[0] for alias in node.names})
    if isinstance(node, ast.ImportFrom):
        package = (node.module or "").split(".")[0]
        hidden = package in LOADERS and "load" in {alias.name for alias in node.names}
        return package in FORBIDDEN or hidden
    if isinstance(node, ast.Name):  # under another name, too: run = eval
        return node.id in RUNNING
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func)
    if name.endswith(("read_pickle", "joblib.load", "to_pickle", "os.system", "os.popen")):
        return True
    if name.endswith((".query", "pd.eval")):  # pandas evaluates text
        return True
    options = {one.arg: ast.unparse(one.value) for one in node.keywords}
    if name == "torch.load":
        return options.get("weights_only") != "True"
    if name.endswith(".load") and name.split(".")[0] in ("np", "numpy"):
        return options.get("allow_pickle") != "False" or len(node.args) > 1
    return options.get("allow_pickle", "False") != "False"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import pickle", True), ("from dill import loads", True), ("eval('1')", True),
        ("torch.load(path)", True), ("torch.load(path, weights_only=True)", False),
        ("np.load(path, allow_pickle=True)", True), ("np.load(path, allow_pickle=False)", False),
        ("model.eval()", False), ("re.compile('a')", False), ("joblib.load(path)", True),
        ("run = eval", True), ("import builtins", True),
        ("from joblib import load", True), ("from safetensors.torch import load", False),
        ("np.load(path)", True), ("np.load(path, None, True)", True), ("pd.eval(text)", True),
        ("frame.query(text)", True), ("os.system(text)", True), ("import subprocess", True),
    ],
)  # fmt: skip
def test_what_counts_as_running_code(text, found):
    assert any(map(runs_code, ast.walk(ast.parse(text)))) is found


def test_nothing_unpickles_or_evaluates():
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path in sources()
        for node in ast.walk(parsed(path))
        if runs_code(node)
        and (path.relative_to(ROOT).as_posix(), ast.unparse(node)) not in EXCEPTIONS
    ]
    assert not wrong, "\n".join(wrong)


# Filters of warnings belong to all threads


def test_one_place_changes_the_filters_of_warnings():
    """``catch_warnings`` in two threads at once leaves the filters changed; commands have one."""
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}: use quiet.ignoring"
        for path in sources()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute) and node.attr in ("catch_warnings", "simplefilter")
        and path.name != "quiet.py" and path.parent.name != "cli"
    ]  # fmt: skip
    assert not wrong, "\n".join(wrong)


# Tests mirror the source


def test_every_module_has_a_test_file_of_its_name():
    tests = Path(__file__).parent
    names = [path.relative_to(ROOT) for path in sources() if path.stem != "__init__"]
    wanted = [tests / name.with_name(f"test_{name.stem.strip('_')}.py") for name in names]
    assert len(wanted) > 150
    assert not [str(path.relative_to(tests)) for path in wanted if not path.exists()]


def test_test_files_stay_short():
    long = {
        path.name: count
        for path in Path(__file__).parent.rglob("test_*.py")
        if (count := len(path.read_text().splitlines())) > 450
    }
    assert not long, "split them along subjects"


# Warnings name the user's line


def test_every_warning_names_the_first_line_outside_the_package():
    calls = [
        ast.unparse(node)
        for path in sources()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn"
    ]
    assert len(calls) > 5
    assert not [call for call in calls if "outside()" not in call]


# An algorithm says what it is


def algorithm_names() -> set[str]:
    """Names of all algorithm classes of the package, their common bases included."""
    names, classes = set(), [dd.descent.Algorithm]
    while classes:
        kind = classes.pop()
        if kind.__module__.startswith("decoupled_descent"):
            names.add(kind.__name__)
        classes += kind.__subclasses__()
    return names


def asked_about(node: ast.Call, names: set[str]) -> bool:
    """Whether a call is isinstance(…, Algorithm), or getattr or hasattr on an algorithm."""
    if not isinstance(node.func, ast.Name):
        return False
    if node.func.id in ("isinstance", "issubclass") and len(node.args) == 2:
        return bool(names & {leaf.split(".")[-1] for leaf in words(node.args[1])})
    if node.func.id in ("getattr", "hasattr"):
        return words(node.args[0])[-1:] == ["algorithm"]
    return False


def words(node: ast.AST) -> list[str]:
    """Names and attributes in an expression, in order of appearance."""
    found = []
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            found.append(each.id)
        elif isinstance(each, ast.Attribute):
            found.append(each.attr)
    return found if not isinstance(node, ast.Attribute) else [*found[1:], node.attr]


@pytest.mark.parametrize("name", [name for name in LEVEL if name != "descent"])
def test_nobody_asks_for_the_class_of_an_algorithm(name):
    names, wrong = algorithm_names(), []
    for path in sources():
        if package(path) != name:
            continue
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and asked_about(node, names):
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}")
    assert not wrong, "\n".join(wrong)


# An algorithm from outside


class ToyState(NamedTuple):
    theta: torch.Tensor
    head: dict[str, torch.Tensor]
    step: int


class Toy(dd.descent.Algorithm):
    """Moves θ along the signs of the gradient, and calls its train error no estimate."""

    estimates_test_error = False
    uses_jacobian = False

    def start(self, rows, bound, theta):
        return ToyState(theta, bound.parameters(rows.X), 0)

    def step(self, state, rows, objective):
        bound = self.bind(rows, objective, state.theta)
        h = rows.forward(state.theta).T
        found = bound.derivatives(h, rows.y, state.head, jacobian=False)
        theta = state.theta - 0.02 * rows.backward(found.direction.T.contiguous()).sign()
        following = ToyState(theta, state.head, state.step + 1)
        return following, Info(found.loss, h, None)


def test_a_toy_algorithm_is_fitted():
    (X, y), objective = binary(), two_layer()
    run = dd.fit(X, y, objective, Toy(), 20, test=(X, y))
    assert run.train_error[-1] < run.train_error[0]
    torch.testing.assert_close(run.test_error, run.train_error)
    rest = dd.fit(X, y, objective, Toy(), 5, state=run.state)
    assert rest.history.train_error[0] == run.history.train_error[-1]


def test_there_is_one_way_to_write_a_step():
    """Training would not call what these classes define, or would have nothing to call."""
    with pytest.raises(TypeError, match=r"abstract method '?step\b"):
        type("Incomplete", (dd.descent.Algorithm,), {"start": Toy.start})()
    with pytest.raises(TypeError, match=r"abstract method '?stacked_step\b"):
        type("Incomplete", (StackedAlgorithm,), {"start": Toy.start})()
    with pytest.raises(TypeError, match="Both defines step, but training calls stacked_step"):
        type("Both", (dd.GradientDescent,), {"step": Toy.step})


def test_a_toy_algorithm_is_swept_beside_others():
    (X, y), objective, theta = binary(), two_layer(), normal(3, 16)
    kinds = {"toy": Toy(), "dd": dd.DecoupledDescent(0.05)}
    result = dd.sweep(X, y, objective, kinds, 9, theta=theta)
    alone = dd.fit(X, y, objective, Toy(), 9, theta=theta)
    torch.testing.assert_close(result.runs[0].theta, alone.theta)
    assert result.best_index == 1  # the toy's train error is no estimate
    assert "toy" in set(result.table["name"])


def test_a_toy_run_is_diagnosed():
    X, y = binary(200, 20)
    run = dd.fit(X, y, two_layer(), Toy(), 5)
    assert dd.diagnose(X, y, run).verdict


def test_state_evolution_refuses_a_toy():
    mixture = dd.mixtures.flipped_classes(20, 3.0, labels=(0.0, 1.0))
    with pytest.raises(ValueError, match="Toy"):
        dd.StateEvolution(mixture, two_layer(), Toy(), ratio=1.0)
