"""The command ``decoupled``: its version, its help, and what it does not import for them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import decoupled_descent as dd
from decoupled_descent.app.cli import command

COMMANDS = (
    "train",
    "predict",
    "compare",
    "export",
    "diagnose",
    "demo",
    "evolve",
    "reproduce",
)


def test_version_of_the_installed_command():
    command = Path(sys.executable).with_name("decoupled")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{dd.__version__}\n", "")
    assert dd.__version__.count(".") == 2


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help(run, command):
    status, out, _ = run(*filter(None, [command]), "--help")
    assert status == 0
    assert ("--json" in out) == bool(command)
    assert all(name in out for name in ([command] if command else COMMANDS))


def test_no_arguments_ask_for_help(run):
    assert run() == run("--help")


def test_help_waits_for_no_slow_library():
    """The commands alone, below a package that is empty."""
    program = f"""
import sys, types
package = types.ModuleType("decoupled_descent")
package.__path__ = [{str(Path(dd.__file__).parent)!r}]
sys.modules["decoupled_descent"] = package
from decoupled_descent.app.cli import command
command.app(["--help"], standalone_mode=False)
slow = {{"torch", "numpy", "pandas", "sklearn", "scipy", "matplotlib", "joblib"}} & set(sys.modules)
assert not slow, slow
"""
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("two\n  lines"), "error: two lines"),
        (OSError("disk [full]"), "error: disk [full]"),
        (MemoryError(), "error: there is not enough memory"),
    ],
)
def test_errors_give_one_line(run, monkeypatch, error, line):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(command, "app", fail)
    assert run("demo") == (2, "", line + "\n")


def test_errors_for_machines_are_json(run, tmp_path):
    status, out, err = run("predict", tmp_path, tmp_path / "\x1b[31mred.csv", "--json")
    assert status == 2
    assert "\\x1b[31m" in run("train", tmp_path / "\x1b[31mred.csv", "--target", "y")[2]
    assert err == f"error: {json.loads(out)['error']}\n"
    assert "\x1b" not in out + err


def test_other_errors_are_not_hidden(monkeypatch):
    def fail(*_, **__):
        raise KeyError("a mistake of ours")

    monkeypatch.setattr(command, "app", fail)
    with pytest.raises(KeyError, match="of ours"):
        command.answer(["demo"])
