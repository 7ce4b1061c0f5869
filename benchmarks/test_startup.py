"""What waiting for the package costs beside waiting for PyTorch, each in a process of its own."""

import subprocess
import sys
from functools import partial

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
