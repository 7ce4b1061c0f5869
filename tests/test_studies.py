"""Studies and benchmarks run for minutes, so only their use of the package is tested here."""

import ast
import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted([*(ROOT / "studies").glob("*.py"), *(ROOT / "benchmarks").rglob("*.py")])


def imported(tree):
    """What the script calls its imports from this package: names, objects; and what is missing."""
    names, missing = {}, []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "decoupled_descent":
                    names[alias.asname or alias.name] = importlib.import_module(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            if node.module.split(".")[0] != "decoupled_descent":
                continue
            for alias in node.names:
                try:
                    names[alias.asname or alias.name] = found(node.module, alias.name)
                except (ImportError, AttributeError):
                    missing.append(f"{node.module}.{alias.name}")
    return names, missing


def found(module, name):
    """A name of a module, or a module of a package."""
    holder = importlib.import_module(module)
    return (
        getattr(holder, name)
        if hasattr(holder, name)
        else importlib.import_module(f"{module}.{name}")
    )


def absent(tree, names):
    """Attributes of imported modules that do not exist."""
    for node in ast.walk(tree):
        chain, inner = [], node
        while isinstance(inner, ast.Attribute):
            chain.insert(0, inner.attr)
            inner = inner.value
        if not chain or not isinstance(inner, ast.Name) or inner.id not in names:
            continue
        value = names[inner.id]
        for name in chain:
            if not isinstance(value, ModuleType):
                break
            if not hasattr(value, name):
                yield f"{inner.id}.{'.'.join(chain)}"
                break
            value = getattr(value, name)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_of_the_package_exist(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names, missing = imported(tree)
    assert missing == []
    assert sorted(set(absent(tree, names))) == []


def test_the_readme_has_every_script():
    text = (ROOT / "studies" / "README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"studies/(\w+)\.py", text))
    assert listed == {path.stem for path in (ROOT / "studies").glob("*.py")}


def test_what_does_not_exist_is_found():
    tree = ast.parse(
        "import decoupled_descent as dd\n"
        "from decoupled_descent.rows import blocks, nothing\n"
        "dd.heads.Linear(1), dd.heads.Nothing(1), blocks.Rows.anything, blocks.nothing\n"
    )
    names, missing = imported(tree)
    assert missing == ["decoupled_descent.rows.nothing"]
    assert sorted(set(absent(tree, names))) == ["blocks.nothing", "dd.heads.Nothing"]
