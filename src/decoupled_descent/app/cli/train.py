"""``decoupled train``: a model and an honest estimate of its test error from one table."""

from __future__ import annotations

import sys
import time
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import decoupled_descent as dd
from decoupled_descent.app.cli import options as common
from decoupled_descent.app.cli import training_options as own
from decoupled_descent.app.cli.destination import check_folder
from decoupled_descent.app.cli.options import must_exist
from decoupled_descent.app.cli.resume import clear, kept, nothing_written, written_to
from decoupled_descent.progress import stages

if TYPE_CHECKING:
    from decoupled_descent.app.cli.tables import Prepared

SEARCHING, JUDGING, WRITING = "comparing models", "checking the best one", "writing the report"
#: The stages of a training, and the share of the time that each takes, roughly.
STAGES = {SEARCHING: 10.0, JUDGING: 8.0, WRITING: 1.0}
#: A training that is expected to take more seconds than this is announced.
LONG = 30.0
#: The number of kernels that are compared with the linear model, and the most features of each.
KERNELS, LANDMARKS = 2, 2000


def train(
    data: common.Data,
    target: common.Target,
    out: own.Results = Path("decoupled-model"),
    task: common.Task = None,
    hidden: own.Hidden = "auto",
    activation: own.Activation = "tanh",
    method: own.Method = "auto",
    features: own.Features = "auto",
    group: own.Group = None,
    identifier: common.Identifier = None,
    drop: common.Drop = None,
    missing: common.Missing = None,
    log_target: own.LogTarget = False,
    lr: own.Rate = "auto",
    damping: own.Damping = "auto",
    ridge: own.Ridge = "auto",
    max_iter: own.MaxIter = 500,
    seed: own.Seed = 0,
    resume: own.Resume = False,
    distributed: own.Distributed = False,
    as_json: common.Json = False,
) -> None:
    """Train on all rows of a table, and estimate the error on new rows without a test set.

    Text, dates and missing values are turned into numbers. Settings left at "auto" are chosen by
    the estimated error. DIR gets model.safetensors, report.html, history.csv, left_out.csv and
    figure.png.
    """
    network = (hidden, lr, damping, activation, max_iter) != ("auto", "auto", "auto", "tanh", 500)
    method = own.resolve_method(method, network)
    numbers = {"lr": lr, "damping": damping, "ridge": ridge}
    newton = {"--group": group is not None, "--log-target": log_target}
    newton |= {"--distributed": distributed}
    options = own.check_options(hidden, method, numbers, newton)
    options |= {"activation": activation, "max_iter": max_iter, "random_state": seed}
    options |= {"features": features} | ({"log_target": True} if log_target else {})
    must_exist(data)
    check_folder(out, data)
    from decoupled_descent.app.cli.tables import Wishes, prepare

    wishes = Wishes(group, identifier, tuple(drop or ()), tuple(missing or ()), log_target)
    if distributed:
        from decoupled_descent.app.cli.distributed import joined, rows_of, this_share

        share = this_share()
        with joined(resume):
            with nothing_written():
                prepared = prepare(data, target, task, wishes, share)
            prepared = prepared._replace(rows=rows_of(prepared))
            options |= {"verbose": False} if share.rank else {}
            train_and_report(data, target, out, prepared, options, resume, as_json, share.rank)
        return
    with nothing_written():  # before PyTorch, which takes seconds to import
        prepared = prepare(data, target, task, wishes)
    train_and_report(data, target, out, prepared, options, resume, as_json)


def train_and_report(
    data: Path, target: str, out: Path, prepared: Prepared, options: dict[str, Any],
    resume: bool, as_json: bool, rank: int = 0,
) -> None:  # fmt: skip
    """Train on a table that is prepared, write the results to a folder, and print them.

    Of several processes only the first one, of rank 0, writes and prints.
    """
    with nothing_written():  # PyTorch takes seconds to import
        from decoupled_descent.app.cli import findings, folder, results
        from decoupled_descent.app.cli.output import console, echo_json

    replaced, place, first = check_folder(out, data), out, rank == 0
    if first:
        announce(prepared, options["method"], options["features"])
    with nothing_written(), stages(STAGES) if first else nullcontext(lambda _: None) as enter:
        enter(SEARCHING)
        start = time.monotonic()
        with kept(out, resume, "" if prepared.rows is None else f"process {rank}"):
            estimator, warned = fit(prepared, options)
        seconds = time.monotonic() - start
        interrupted = findings.is_interrupted(estimator)
        findings.add(estimator, prepared, interrupted)
        if interrupted and replaced:  # a half-trained model does not replace a good one
            place = Path(f"{out.resolve()}-interrupted")
            replaced = check_folder(place, data)
        enter(JUDGING)
        report = results.report_data(data, target, place, prepared, estimator, warned, seconds)
        if not first:
            return
        enter(WRITING)
    with nothing_written():
        place, files = folder.write_somewhere(place, estimator, prepared.columns, target, report)
    with written_to(place, interrupted, report.missing):
        if resume and not interrupted:
            clear(out)
        if as_json:
            echo_json(results.to_dict(report, target, files))
        else:
            results.show(console(), report, place, replaced)


def fit(prepared: Prepared, options: dict[str, Any]) -> tuple[Any, list[str]]:
    """Train an estimator; return it with the warnings that concern the user."""
    classes = prepared.task == "classification"
    kind: Any = dd.DecoupledClassifier if classes else dd.DecoupledRegressor
    estimator = kind(**{"verbose": sys.stderr.isatty()} | options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(**prepared.given)
    lines = [" ".join(str(one.message).split()) for one in caught if _for_users(one.category)]
    return estimator, list(dict.fromkeys(lines))


def announce(prepared: Prepared, method: str, features: str = "auto") -> None:
    """Say how long training will take, and what memory, if that is more than half a minute."""
    if method != "newton":
        return
    from decoupled_descent.selection.cost import expected_bytes, expected_seconds, in_words

    n, d, classes = len(prepared.y), prepared.X.shape[1], prepared.task == "classification"
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
