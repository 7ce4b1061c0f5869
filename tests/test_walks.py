"""The walks of docs/developing.md: calls enter these files, in this order."""

from __future__ import annotations

import re
import sys
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.app.cli.command import answer
from tests.problems import binary, xor_objective

ROOT = Path(dd.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "developing.md"
ALGORITHM = dd.DecoupledDescent(0.05, 0.9)


class Trace:
    """The files of the package that a call enters, in order, and those on the stack at a step.

    ``make`` returns the call. It is made once before, for its imports.
    """

    def __init__(self, make) -> None:
        self.files: list[str] = []
        self.stack: set[str] = set()
        make()()
        call = make()
        sys.setprofile(self._note)
        try:
            call()
        finally:
            sys.setprofile(None)

    def _note(self, frame, event, argument) -> None:
        code = frame.f_code
        if event != "call" or (name := of_package(frame)) is None:
            return
        if name not in self.files:
            self.files.append(name)
        if name == "descent/decoupled.py" and code.co_name == "stacked_step" and not self.stack:
            while frame is not None:
                self.stack |= {of_package(frame)} - {None}
                frame = frame.f_back


def of_package(frame) -> str | None:
    path = Path(frame.f_code.co_filename)
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else None


def walk(title: str) -> list[str]:
    """The files of a walk: those that arrows join."""
    section = PAGE.read_text().split(f"**{title}:** ")[1]
    return [re.match(r"`([\w/]+\.py)`", step)[1] for step in re.split(r"\s→\s", paths(section))]


def paths(section: str) -> str:
    """The arrows alone, up to the end of the last step."""
    last = section.split("\n\n")[0].rindex("→")
    return section[: section.index(")", last)]


def fit():
    return partial(dd.fit, *binary(), xor_objective(), ALGORITHM, 2)


def evolve():
    mixture = dd.mixtures.xor(dimension=20, snr=4.0)
    theory = dd.StateEvolution(mixture, xor_objective(), ALGORITHM, paths=64)
    return partial(theory.run, 2, theta=torch.ones(2, 20))


def train(folder):
    X, y = (one.numpy() for one in binary())
    frame = pd.DataFrame(X).rename(columns="x{}".format).assign(y=y)
    frame.to_csv(folder / "data.csv", index=False)
    options = ("--target", "y", "--features", "linear", "--ridge", "1", "--out", str(folder / "o"))
    return partial(answer, ["train", str(folder / "data.csv"), *options])


@pytest.mark.parametrize(
    ("title", "longest"),
    [
        ("`fit` with `DecoupledDescent`", 10),
        ("`StateEvolution.run`", 15),
        ("`decoupled train`", 17),
    ],
)
def test_walks_are_short(title, longest):
    assert 5 < len(walk(title)) <= longest


def test_fit_walks_to_the_step():
    listed, seen = walk("`fit` with `DecoupledDescent`"), Trace(fit)
    assert [name for name in seen.files if name in listed] == listed
    assert seen.stack - {"descent/decoupled.py"} <= set(listed)


def test_state_evolution_walks_through_its_recursion():
    listed, seen = walk("`StateEvolution.run`"), Trace(evolve)
    assert [name for name in seen.files if name in listed] == listed


def test_train_walks_from_the_options_to_the_report(tmp_path, capsys):
    listed, seen = walk("`decoupled train`"), Trace(partial(train, tmp_path))
    assert [name for name in seen.files if name in listed] == listed
    assert (tmp_path / "o" / "report.html").exists()
