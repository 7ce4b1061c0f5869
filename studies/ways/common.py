"""What a way is, and when what it was told is honest."""

from __future__ import annotations

import contextlib
import io
import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from decoupled_descent.app.cli import command

#: A number further than this many standard errors from the truth is wrong. Among fifty right
#: numbers with normal errors one is as far with probability 0.13.
FAR = 3.0
#: The root mean square of z over several draws that is too large for right standard errors: of six
#: draws it is larger with probability 0.02.
SPREAD = 1.6


class Now(NamedTuple):
    """What is said now, and whether that is honest."""

    said: str
    honest: bool


class Way(NamedTuple):
    """A way to get a wrong number: where, what it is, what was said before, and the trial."""

    part: str
    name: str
    before: str
    trial: Callable[[], Now]


WAYS: list[Way] = []


def way(part: str, name: str, before: str = "–") -> Callable[..., Any]:
    """Add a trial to the list."""

    def add(trial: Callable[[], Now]) -> Callable[[], Now]:
        WAYS.append(Way(part, name, before, trial))
        return trial

    return add


def told(estimate: Any, true: float, noise: float = 0.0) -> Now:
    """Whether a number with its verdict is honest: near to the truth, or without *trust*."""
    z = (estimate.value - true) / max(1e-12, math.hypot(estimate.stderr, noise))
    honest = estimate.verdict != "trust" or abs(z) <= FAR
    said = f"{estimate.metric} {estimate.value:.3g}, *{estimate.verdict}*; true {true:.3g}"
    return Now(f"{said}, z {z:+.1f}", honest)


def on_new(model: Any, evaluation: Any, X: Any, y: Any) -> Now:
    """The error of an evaluation beside the mean loss of a scikit-learn model on new rows."""
    if hasattr(model, "predict_proba"):
        chances = model.predict_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
        losses = -np.log(np.maximum(chances, 1e-15))
    elif hasattr(model, "classes_"):
        losses = np.asarray(model.predict(X) != y, float)
    else:
        losses = np.square(np.asarray(model.predict(X)) - y)
    estimate = evaluation.estimate(evaluation.loss)
    return told(estimate, float(losses.mean()), float(losses.std() / len(y) ** 0.5))


def several(scores: list[float], verdicts: list[str]) -> Now:
    """The same for several draws: z of each, and the verdicts."""
    z = np.array(scores)
    rms, trusted = float(np.sqrt(np.mean(z**2))), verdicts.count("trust")
    said = f"{len(z)} draws: rms z {rms:.2f}, worst {z[np.abs(z).argmax()]:+.1f}"
    return Now(f"{said}; *trust* {trusted} times", rms <= SPREAD or trusted == 0)


def refused(call: Callable[[], Any], otherwise: Callable[[Any], Now]) -> Now:
    """An error of one line is honest; an answer is looked at."""
    try:
        answer = call()
    except ValueError as error:
        return Now(f"refused: {str(error).splitlines()[0]}", True)
    return otherwise(answer)


def without_trust(answer: Any) -> Now:
    """The verdict alone: anything but *trust* is honest."""
    found = getattr(answer, "evaluation", answer)
    return Now(f"{found!r}".split("(", 1)[-1].rstrip(")"), found.verdict != "trust")


def shell(*arguments: Any) -> Any:
    """The command with ``--json``, in this process: its status and what it wrote, or the error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = command.answer([*map(str, arguments)])
    text = out.getvalue()
    if status != 0:
        return status, err.getvalue().strip().splitlines()[-1]
    return status, json.loads(text) if "--json" in arguments else text


def draw(seed: int) -> torch.Generator:
    """A generator of torch."""
    return torch.Generator().manual_seed(seed)
