"""What waiting for the package costs beside waiting for PyTorch, each in a process of its own."""

import subprocess
import sys
from functools import partial

import numpy as np
import pandas as pd

PROGRAMS = {
    "torch": ["-c", "import torch"],
    "package": ["-c", "import decoupled_descent"],
    "help": ["-m", "decoupled_descent.app.cli", "--help"],
}


def test_import_and_help(race):
    contenders = {
        name: partial(subprocess.run, [sys.executable, *program], check=True, capture_output=True)
        for name, program in PROGRAMS.items()
    }
    times = race(contenders, rounds=8)
    for name, what, target in (
        ("package", "import decoupled_descent", 1.2),
        ("help", "decoupled --help", 1.5),
    ):
        race.ratio("", f"{what} / import torch", times.ratio(name, "torch"), target)


def test_train_and_predict(race, tmp_path):
    """A table of 300 rows and 30 columns, from the command to the report and the predictions."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 30))).rename(columns="c{}".format)
    signal = frame["c0"] + frame["c1"] * frame["c2"]
    frame["two"] = np.where(signal + rng.normal(size=300) > 0, "yes", "no")
    frame["many"] = pd.qcut(frame["c0"] + frame["c1"], 19, labels=False).map("k{}".format)
    for target, other in (("two", "many"), ("many", "two")):
        frame.drop(columns=other).to_csv(tmp_path / f"{target}.csv", index=False)
    two, many = (
        ["train", str(tmp_path / f"{name}.csv"), "--target", name, "--out", str(tmp_path / name)]
        for name in ("two", "many")
    )
    given = [str(tmp_path / "two"), str(tmp_path / "two.csv"), "--out", str(tmp_path / "said.csv")]
    command = ["-m", "decoupled_descent.app.cli"]
    programs = {
        "torch": PROGRAMS["torch"],
        "train": [*command, *two],
        "fast": [*command, *two, "--fast"],
        "many": [*command, *many],
        "predict": [*command, "predict", *given],
    }
    run = partial(subprocess.run, check=True, capture_output=True)
    times = race(
        {name: partial(run, [sys.executable, *one]) for name, one in programs.items()}, rounds=2
    )
    for name, what, target in (
        ("predict", "decoupled predict, 300 rows", 1.5),
        ("train", "decoupled train, 300 rows, 30 columns", 3.0),
        ("fast", "the same with --fast", 3.0),
    ):
        race.ratio("", f"{what} / import torch", times.ratio(name, "torch"), target)
    race.ratio("", "train, 19 classes / two classes", times.ratio("many", "train"), 3.0)
