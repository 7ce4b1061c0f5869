"""``decoupled train``: a model and an honest estimate of its test error from one table."""

from __future__ import annotations

import math
import re
import shlex
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

import decoupled_descent as dd
from decoupled_descent.cli import results
from decoupled_descent.cli.diagnosis import Data, Target, TaskOption
from decoupled_descent.cli.output import (
    Json,
    console,
    echo_json,
    few,
    heading,
    intervals,
    points,
    verdict,
)
from decoupled_descent.cli.tables import Prepared, prepare
from decoupled_descent.descent.common import LARGEST_RATE
from decoupled_descent.report import ReportData
from decoupled_descent.report.page import score_interval
from decoupled_descent.report.text import interval

Activation = Literal["tanh", "sigmoid", "softplus", "gelu", "silu", "relu"]
Method = Literal["orthogonal", "decoupled", "gradient"]

#: The widest hidden layer: time and memory grow with the square of the width.
WIDEST = 1000


def train(
    data: Data,
    target: Target,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the model and the report.")
    ] = Path("decoupled-model"),
    task: TaskOption = None,
    hidden: Annotated[
        str,
        typer.Option(metavar="N[,N…]", help="Width of the hidden layer, or several: 32,16."),
    ] = "auto",
    activation: Annotated[
        Activation,
        typer.Option(metavar="NAME", help="tanh, sigmoid, softplus, gelu, silu or relu."),
    ] = "tanh",
    method: Annotated[
        Method,
        typer.Option(
            metavar="NAME",
            help="orthogonal: for any data. decoupled: for white noise, as in the paper. gradient: "
            "plain gradient descent, whose train error estimates nothing.",
        ),
    ] = "orthogonal",
    lr: Annotated[str, typer.Option(metavar="NUMBER", help="Learning rate.")] = "auto",
    damping: Annotated[
        str, typer.Option(metavar="NUMBER", help="Factor on the weights at every step, up to 1.")
    ] = "auto",
    ridge: Annotated[
        str,
        typer.Option(metavar="NUMBER", help="How strongly weak directions are held back."),
    ] = "auto",
    max_iter: Annotated[
        int, typer.Option(metavar="N", help="The most steps per candidate.", min=1)
    ] = 500,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Draws the starting point.", min=0, max=2**32 - 1)
    ] = 0,
    as_json: Json = False,
) -> None:
    """Train on all rows of a table, and estimate the error on new rows without a test set.

    Text, dates and missing values are taken care of. What "auto" stands for is chosen by the
    estimated error. DIR gets model.safetensors, report.html, history.csv and figure.png.
    """
    options = check_options(
        hidden, method, {"lr": lr, "damping": damping, "ridge": ridge}, max_iter, seed
    )
    replaced = results.check_folder(out)
    prepared = prepare(data, target, task)
    estimator, warned = fit(prepared, options | {"activation": activation})
    report = results.report_data(data, target, out, prepared, estimator, warned)
    files = results.write(out, estimator, prepared.columns, target, report)
    if as_json:
        echo_json(results.to_dict(report, target, files))
    else:
        show(console(), report, out, replaced)
    if any(one["stop_reason"] == "interrupted" for one in estimator.candidates_):
        raise KeyboardInterrupt  # what was reached is saved


def check_options(
    hidden: str, method: str, numbers: dict[str, str], max_iter: int, seed: int
) -> dict[str, Any]:
    """Turn what was typed into options of an estimator.

    Args:
        hidden: Widths separated by commas, or ``"auto"``.
        method: Its name.
        numbers: ``"lr"``, ``"damping"`` and ``"ridge"``: each a number as text, or ``"auto"``.
        max_iter: T.
        seed: Of the starting point.

    Returns:
        Keyword arguments.

    Raises:
        ValueError: If a text is no such number, or an option means nothing to the method.
    """
    options: dict[str, Any] = {"method": method, "max_iter": max_iter, "random_state": seed}
    unused = {"gradient": ("damping", "ridge"), "decoupled": ("ridge",)}.get(method, ())
    for name, text in numbers.items():
        if text != "auto" and name in unused:
            raise ValueError(f"--{name} {text} means nothing to --method {method}; leave it out")
        options[name] = _number(name, text)
    options["hidden"] = "auto" if hidden == "auto" else _widths(hidden)
    return options


def _number(name: str, text: str) -> float | str:
    if text == "auto":
        return "auto"
    highest = {"damping": 1.0, "ridge": math.inf}.get(name, LARGEST_RATE)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= highest:
        what = "a number above 0 and up to 1" if name == "damping" else "a positive number"
        what += f" up to {highest:.3g}" * (name == "lr" and value > highest)
        raise ValueError(f"--{name} {text!r:.40} must be {what}, or auto")
    return value


def _widths(text: str) -> tuple[int, ...]:
    parts = text.replace(",", " ").split()
    widths = tuple(int(part) if re.fullmatch("[0-9]{1,9}", part) else 0 for part in parts)
    if not widths or not all(1 <= width <= WIDEST for width in widths):
        raise ValueError(
            f"--hidden {text!r:.40} must be a width from 1 to {WIDEST}, several such as 32,16, or "
            "auto"
        )
    return widths


def fit(prepared: Prepared, options: dict[str, Any]) -> tuple[Any, list[str]]:
    """Train an estimator, with a progress bar on a terminal.

    Args:
        prepared: The table.
        options: Of the estimator.

    Returns:
        The fitted estimator, and what it warned of.
    """
    kinds: dict[str, Any] = {
        "classification": dd.DecoupledClassifier,
        "regression": dd.DecoupledRegressor,
    }
    estimator = kinds[prepared.task](**options, verbose=sys.stderr.isatty())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(prepared.X, prepared.y)
    lines = [" ".join(str(one.message).split()) for one in caught if _for_users(one.category)]
    return estimator, list(dict.fromkeys(lines))


def _for_users(category: type[Warning]) -> bool:
    """Not what is taken care of (kinks), said by the diagnosis (divergence), or for programmers."""
    said = (dd.KinkWarning, dd.DivergenceWarning)
    return issubclass(category, UserWarning | RuntimeWarning) and not issubclass(category, said)


def show(screen: Console, report: ReportData, out: Path, replaced: bool) -> None:
    """Print what was done, what to expect of the model, and what to do next."""
    screen.print(
        f"{report.title}: {report.task}, {report.n_rows:,} rows, {report.n_features:,} features",
        soft_wrap=True,
    )
    if report.notes:
        heading(screen, "What was done to the data")
        points(screen, few(report.notes, "report.html"))
    heading(screen, "To expect on new rows" if report.corrected else "On the training rows")
    error = interval(report.estimated_error, report.estimated_error_stderr)
    intervals(screen, {report.loss_name: error, report.score_name: score_interval(report)})
    verdict(screen, report.diagnosis or {})
    heading(screen, "What to do next")
    page = f"See the details: open `{shlex.quote(str(out / 'report.html'))}` in a browser"
    points(screen, [*report.next_steps, page])
    names = ", ".join(sorted(results.FILES))
    before = ", in place of an earlier training's" if replaced else ""
    screen.print(f"\nSaved in {out}: {names}{before}", soft_wrap=True)
