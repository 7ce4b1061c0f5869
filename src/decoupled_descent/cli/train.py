"""``decoupled train``: a model and an honest estimate of its test error from one table."""

from __future__ import annotations

import math
import re
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand, TyperOption

import decoupled_descent as dd
from decoupled_descent.cli.options import (
    METHODS,
    Data,
    Drop,
    Identifier,
    Json,
    Missing,
    ReachedError,
    Target,
    Task,
    must_exist,
)
from decoupled_descent.progress import stages

if TYPE_CHECKING:
    from decoupled_descent.cli.tables import Prepared

Activation = Literal["tanh", "sigmoid", "softplus", "gelu", "silu", "relu"]

SEARCHING, JUDGING, WRITING = "comparing models", "judging the best one", "writing the report"
#: The stages of a training, and about how much of its time each takes.
STAGES = {SEARCHING: 10.0, JUDGING: 8.0, WRITING: 1.0}
#: Trainings that take more seconds than this are announced.
LONG = 30.0
#: Kernel maps that are tried beside the linear one, and the most features of each.
KERNELS, LANDMARKS = 2, 2000
#: The widest hidden layer: time and memory grow with the square of the width.
WIDEST = 1000


class TrainCommand(TyperCommand):
    """The command, whose help on ``--method`` is read from the table of methods."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page."""
        lines = ["auto: newton, or orthogonal where an option of networks is given."]
        lines += [f"{name}: {summary}." for name, (_, summary) in METHODS.items()]
        for option in self.params:
            if isinstance(option, TyperOption) and option.name == "method":
                option.help = " ".join(lines)
        super().format_help(ctx, formatter)


def train(
    data: Data,
    target: Target,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the model and the report.")
    ] = Path("decoupled-model"),
    task: Task = None,
    hidden: Annotated[
        str,
        typer.Option(metavar="N[,N…]", help="Width of the hidden layer, or several: 32,16."),
    ] = "auto",
    activation: Annotated[
        Activation,
        typer.Option(metavar="NAME", help="tanh, sigmoid, softplus, gelu, silu or relu."),
    ] = "tanh",
    method: Annotated[str, typer.Option(metavar="NAME")] = "auto",
    features: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="auto, linear, rbf, matern, laplace1, … or rbf(0.5), for newton."
        ),
    ] = "auto",
    group: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Rows with the same value here (a patient, say) are left out together; the "
            "column is not used for predictions.",
            show_default=False,
        ),
    ] = None,
    identifier: Identifier = None,
    drop: Drop = None,
    missing: Missing = None,
    log_target: Annotated[
        bool,
        typer.Option(
            "--log-target",
            help="Fit the logarithm of the target (prices, incomes, counts above 0); predictions "
            "and errors are in its own units.",
        ),
    ] = False,
    lr: Annotated[str, typer.Option(metavar="NUMBER", help="Learning rate.")] = "auto",
    damping: Annotated[
        str, typer.Option(metavar="NUMBER", help="Factor on the weights at every step, up to 1.")
    ] = "auto",
    ridge: Annotated[
        str,
        typer.Option(
            metavar="NUMBER", help="The larger, the slower directions of small variance are learnt."
        ),
    ] = "auto",
    max_iter: Annotated[
        int, typer.Option(metavar="N", help="The most steps per candidate.", min=1)
    ] = 500,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Draws the starting point.", min=0, max=2**32 - 1)
    ] = 0,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Keep what is trained in DIR/checkpoints, and continue from there if an earlier "
            "call with --resume was cut short.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Train on all rows of a table, and estimate the error on new rows without a test set.

    Text, dates and missing values become numbers. Settings left at "auto" are chosen by the
    estimated error. DIR gets model.safetensors, report.html, history.csv and figure.png.
    """
    steps = (hidden, lr, damping, activation, max_iter) != ("auto", "auto", "auto", "tanh", 500)
    if method == "auto":  # options of networks and descents ask for one
        method = "orthogonal" if steps else "newton"
    options = check_options(hidden, method, {"lr": lr, "damping": damping, "ridge": ridge})
    options |= {"activation": activation, "max_iter": max_iter, "random_state": seed}
    options |= {"features": features}
    for name, given in (("--group", group is not None), ("--log-target", log_target)):
        if given and method != "newton":
            raise ValueError(f"{name} has no effect with --method {method}; leave it out")
    must_exist(data)
    from decoupled_descent.cli.tables import Wishes, prepare

    wishes = Wishes(group, identifier, tuple(drop or ()), tuple(missing or ()), log_target)
    prepared = prepare(data, target, task, wishes)  # before PyTorch, which takes seconds to import
    from decoupled_descent.cli import findings, results
    from decoupled_descent.cli.output import console, echo_json
    from decoupled_descent.cli.resume import clear, kept

    replaced = results.check_folder(out, data)
    options |= {"log_target": True} if log_target else {}
    announce(prepared, method, features)
    with stages(STAGES) as enter:
        enter(SEARCHING)
        start = time.monotonic()
        with kept(out, resume):
            estimator, warned = fit(prepared, options)
        seconds = time.monotonic() - start
        interrupted = findings.is_interrupted(estimator)
        findings.add(estimator, prepared, interrupted)
        if interrupted and replaced:  # a half-trained model does not replace a good one
            out = Path(f"{out.resolve()}-interrupted")
            replaced = results.check_folder(out, data)
        enter(JUDGING)
        report = results.report_data(data, target, out, prepared, estimator, warned, seconds)
        enter(WRITING)
    begun = out
    out, files = results.write_somewhere(out, estimator, prepared.columns, target, report)
    if resume and not interrupted:
        clear(begun)
    if as_json:
        echo_json(results.to_dict(report, target, files))
    else:
        results.show(console(), report, out, replaced)
    if interrupted:
        raise ReachedError(out)


def check_options(hidden: str, method: str, numbers: dict[str, str]) -> dict[str, Any]:
    """Turn what was typed into keyword arguments of an estimator.

    ``numbers`` has ``"lr"``, ``"damping"`` and ``"ridge"``, each a number as text or ``"auto"``.
    Raises ``ValueError`` if a text is not allowed, or an option has no effect with the method.
    """
    if method not in METHODS:
        raise ValueError(f"--method {method!r:.40} is unknown; use one of {', '.join(METHODS)}")
    options: dict[str, Any] = {"method": method}
    for name, text in numbers.items():
        if text != "auto" and name not in METHODS[method][0]:
            raise ValueError(f"--{name} has no effect with --method {method}; leave it out")
        options[name] = _number(name, text)
    if hidden != "auto" and method == "newton":
        raise ValueError("--hidden has no effect with --method newton; use --method orthogonal")
    options["hidden"] = "auto" if hidden == "auto" else _widths(hidden)
    return options


def _number(name: str, text: str) -> float | str:
    if text == "auto":
        return "auto"
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    highest = {"damping": 1.0}.get(name, math.inf)
    if name == "lr" and value > 0:
        from decoupled_descent.descent.common import LARGEST_RATE

        highest = LARGEST_RATE
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
    """Train an estimator; return it with the warnings that concern the user."""
    classes = prepared.task == "classification"
    kind: Any = dd.DecoupledClassifier if classes else dd.DecoupledRegressor
    estimator = kind(**options, verbose=sys.stderr.isatty())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        groups = {} if prepared.groups is None else {"groups": prepared.groups}
        estimator.fit(prepared.X, prepared.y, **groups)
    lines = [" ".join(str(one.message).split()) for one in caught if _for_users(one.category)]
    return estimator, list(dict.fromkeys(lines))


def announce(prepared: Prepared, method: str, features: str = "auto") -> None:
    """Say how long training will take, and what memory, if that is more than half a minute."""
    if method != "newton":
        return
    from decoupled_descent.validation.cost import expected_bytes, expected_seconds, in_words

    (n, d), classes = prepared.X.shape, prepared.task == "classification"
    outputs = len(set(prepared.y.tolist())) if classes else 1
    kernels = 0 if features == "linear" else KERNELS
    widths, outputs = [d, *[min(n, LANDMARKS)] * kernels], 1 if outputs == 2 else outputs
    seconds = expected_seconds(n, widths, outputs)
    if seconds > LONG:
        size = expected_bytes(n, widths, outputs) / 1e9
        typer.echo(
            f"training on {n:,} rows takes about {in_words(seconds)} and {size:.1f} GB of memory",
            err=True,
        )


def _for_users(category: type[Warning]) -> bool:
    """Leave out warnings for programmers, and what the diagnosis says or takes care of."""
    said = (dd.KinkWarning, dd.DivergenceWarning)
    return issubclass(category, UserWarning | RuntimeWarning) and not issubclass(category, said)
