"""What is printed: JSON that every reader takes, and words that fit together."""

import io
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from decoupled_descent.app.cli import output

FOUND = {
    "name": "tails",
    "value": 12.3456,
    "threshold": "caution from 9",
    "status": "ok",
    "reason": "Values are far out.",
    "advice": "use [these] " + "words " * 20,
}


def printed(call, *arguments, width=60, **options):
    """What a function prints on a console, line by line."""
    stream = io.StringIO()
    screen = Console(file=stream, width=width, highlight=False, markup=False)
    call(screen, *arguments, **options)
    return stream.getvalue().splitlines()


def test_json_of_anything(capsys):
    content = {
        "path": Path("a") / "b",
        3: (1, 2.5, True, None),
        "array": np.array([1.0, math.nan]),
        "tensor": torch.tensor([[1.5, math.inf]]),
        "scalar": np.float32(0.5),
        "nested": [{"x": -math.inf}],
    }
    output.echo_json(content)
    assert json.loads(capsys.readouterr().out) == {
        "path": str(Path("a/b")),
        "3": [1, 2.5, True, None],
        "array": [1.0, None],
        "tensor": [[1.5, None]],
        "scalar": 0.5,
        "nested": [{"x": None}],
    }


def test_nothing_that_is_printed_steers_the_terminal(capsys):
    screen = output.console()
    screen.print("a\x1b[31m", Path("b\x1b]0;title\x07.csv"), "\u202egpj.exe", soft_wrap=True)
    output.heading(screen, "c\x9b2J")
    output.points(screen, ["open `d\x1b[2J`"])
    text = capsys.readouterr().out
    assert not set(text) & set("\x1b\x07\x9b\u202e")
    assert "b\\x1b]0;title\\x07.csv" in text


@pytest.mark.parametrize("count", [0, 12, 13, 40])
def test_few_notes(count):
    notes = output.few([f"note {k}" for k in range(count)], "report.html")
    assert notes[:12] == [f"note {k}" for k in range(min(count, 12))]
    assert notes[12:] == ([f"and {count - 12} more: see report.html"] if count > 12 else [])


def test_intervals_stand_below_each_other():
    lines = printed(
        output.intervals,
        {"log loss": (0.43217, 0.39042, 0.47392), "accuracy": (0.9312,), "R²": (0.5, 0.402, 0.598)},
    )
    assert lines[0] == "  log loss   0.432     95\u00a0% interval 0.390 to 0.474"
    assert lines[1].split() == ["accuracy", "93.12", "%", "no", "interval"]
    assert lines[2] == "  R²         0.500     95\u00a0% interval 0.402 to 0.598"


def test_points_keep_words_as_they_are():
    assert printed(output.points, ["run `a [b]` now"]) == ["  • run a [b] now"]


def test_verdicts():
    trusted = {"verdict": "trust", "findings": [FOUND]}
    lines = printed(output.verdict, trusted)
    assert lines == ["", "Verdict: ✓ trust the estimate", "  1 check found no problem."]
    assert "  ✓ tails: 12.3 (caution from 9)" in printed(output.verdict, trusted, everything=True)
    bad = {"verdict": "do not trust", "findings": [FOUND | {"status": "alarm"}, FOUND]}
    lines = printed(output.verdict, bad)
    assert lines[1:4] == [
        "Verdict: ✕ do not trust the estimate",
        "  ✕ tails: 12.3 (caution from 9)",
        "      Values are far out.",
    ]
    assert lines[4].startswith("      → use [these] words")
    assert all(len(line) <= 60 and line.startswith("      ") for line in lines[4:-1])
    assert lines[-1] == "  1 other check found no problem."
