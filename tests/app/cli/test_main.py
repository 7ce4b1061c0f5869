"""``python -m decoupled_descent.app.cli`` is the command itself."""

import runpy
import sys

import pytest

from decoupled_descent.app.cli import signals


@pytest.mark.parametrize(("arguments", "status"), [(["--help"], 0), (["no-such-command"], 2)])
def test_the_module_runs_the_command(monkeypatch, capsys, arguments, status):
    monkeypatch.setattr(sys, "argv", ["decoupled", *arguments])
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # typer replaces it
    for name in ("take", "leave"):  # this process handles its own signals
        monkeypatch.setattr(signals, name, lambda: None)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("decoupled_descent.app.cli", run_name="__main__")
    out, err = capsys.readouterr()
    assert (ended.value.code or 0) == status
    assert ("train" in out) == (status == 0)
    assert ("no-such-command" in err) == (status == 2)


def test_importing_the_module_runs_nothing():
    runpy.run_module("decoupled_descent.app.cli.__main__", run_name="imported")
