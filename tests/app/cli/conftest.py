"""The command in this process, small tables, and a model that it trained."""

import json
import sys

import numpy as np
import pandas as pd
import pytest

from decoupled_descent.app.cli import command
from decoupled_descent.app.cli.train import STAGES

#: What a training writes to standard error in a pipe.
SAID = "".join(f"{stage}\n" for stage in STAGES)

FAST = ("--features", "linear", "--ridge", "1")


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command in this process: exit status, standard output, standard error."""

    def invoke(*arguments):
        monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # typer replaces it
        try:
            status = command.answer([*map(str, arguments)])
        except SystemExit as ended:  # as after SIGTERM
            status = ended.code
        out, err = capsys.readouterr()
        return status, out, err

    return invoke


def table(rows=60, seed=0):
    """Rows of mixed types: numbers, text, holes, and labels of three kinds."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, rows))
    town = rng.choice(["Ulm", "Köln", "Bonn"], rows)
    signal = a - b + (town == "Ulm") + 0.5 * rng.normal(size=rows)
    frame = pd.DataFrame({"a": a.round(3), "b": b.round(3), "town": town})
    frame["answer"] = np.where(signal > 0.3, "yes", "no")
    frame["grade"] = np.digitize(signal, [-0.5, 0.8]) + 1
    frame["price"] = (100 * signal + 500).round(2)
    return frame


def spoilt(rows=60):
    """The same with missing values, and an id."""
    frame = table(rows)
    frame.insert(0, "id", range(1, rows + 1))
    frame.loc[[2, 5, 9, 20, 33, 40], "a"] = np.nan
    frame.loc[[4, 8], "town"] = np.nan
    frame.loc[7, "answer"] = np.nan
    return frame


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A folder with models: of text classes, of numbers as classes, and of a quantity."""
    folder = tmp_path_factory.mktemp("trained")
    for target in ("answer", "grade", "price"):
        others = [name for name in ("answer", "grade", "price") if name != target]
        table().drop(columns=others).to_csv(folder / f"{target}.csv", index=False)
        arguments = ["train", folder / f"{target}.csv", "--target", target, *FAST]
        command.app([*map(str, arguments), "--out", str(folder / target)], standalone_mode=False)
    return folder


@pytest.fixture
def shop(tmp_path):
    path = tmp_path / "shop [x].csv"
    spoilt().drop(columns=["grade", "price"]).to_csv(path, index=False)
    return path


def snapshot(folder):
    """Every file and folder below a folder, with its content."""
    return {
        path.relative_to(folder): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def refused(run, tmp_path):
    """Run a command that must fail, and return its line."""

    def check(*arguments):
        before = snapshot(tmp_path)
        status, out, err = run(*arguments)
        assert status == 2
        assert out == (json.dumps({"error": err[7:-1]}) + "\n" if "--json" in arguments else "")
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        assert err.endswith("\n")
        assert "Traceback" not in err
        assert snapshot(tmp_path) == before
        return err

    return check
