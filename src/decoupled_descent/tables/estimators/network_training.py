"""The training of networks: architecture, choice of settings, warm starts."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from decoupled_descent.checks import ignoring, outside, whole_number
from decoupled_descent.descent.info import DivergenceWarning
from decoupled_descent.method_names import SETTINGS
from decoupled_descent.objective import Objective, heads
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.store import Mapped
from decoupled_descent.tables.estimators.input_scaling import InputScaling
from decoupled_descent.tables.estimators.options import Options
from decoupled_descent.training.callbacks import Callback
from decoupled_descent.training.fit import fit
from decoupled_descent.training.loop import History
from decoupled_descent.training.run import Run
from decoupled_descent.training.sweeps.methods import check_method
from decoupled_descent.training.sweeps.sweep import Sweep
from decoupled_descent.training.sweeps.tuning import STILL_FALLING, stopping, tune


class Continuation(NamedTuple):
    """The data that a warm start on the same rows needs: the winner, its last and best steps."""

    fingerprint: str
    method: str
    built: tuple[Any, ...]
    run: Run
    optimism: float

    def join(self, run: Run) -> Run:
        """Join the two parts of a run; the second part starts with the last step of the first."""
        before, merged = self.run.history, History()
        for name in ("train_error", "train_error_stderr"):
            setattr(merged, name, getattr(before, name) + getattr(run.history, name)[1:])
        made = len(before.train_error) - 1
        last, best = (replace(step, index=step.index + made) for step in (run.last, run.best))
        better = run.history.lowest < before.lowest
        return replace(run, history=merged, last=last, best=best if better else self.run.best)


def network_rows(inputs: Rows, targets: Tensor, scaling: InputScaling, name: str) -> Rows:
    """Scaled rows in float32: in memory if X is, else scaled whenever they are read."""
    device = _device(name)

    def scale(part: Tensor) -> Tensor:
        return torch.from_numpy(scaling.apply(part.numpy())[:, scaling.varying])

    count = int(scaling.varying.sum())
    source = Mapped(inputs, scale, count, torch.float32)
    if not inputs.held:
        if device.type != "cpu":
            raise ValueError(
                f"device={name!r} needs all of X in memory, but it is read block by block; use "
                "device='cpu'"
            )
        return Rows(source, targets)
    features = torch.empty(inputs.here, count, dtype=torch.float32)
    for span, part, _ in source.parts(None):
        features[span] = part
    return Rows(features.to(device), targets.to(device))


def continued(options: Options, before: Any, key: str) -> Continuation | None:
    """The run that a warm start continues; None if training starts again."""
    last: Continuation | None = getattr(before, "continuation", None)
    if not options.warm_start or last is None:
        return None
    if last.fingerprint == key:
        return last
    warnings.warn(
        "warm_start=True but X and y are not those of the last fit: training starts again, "
        "because parameters that were trained on some of these rows cannot estimate their "
        "error",
        stacklevel=outside(),
    )
    return None


def starting_head(options: Options, wanted: tuple[Any, ...], outputs: int, seed: int) -> nn.Module:
    """The user's own head, or a new one."""
    if options.head is not None:
        return options.head
    _, widths, activation = wanted
    return heads.Deep(widths, activation, outputs, bias=True, seed=seed)


def architecture(options: Options, outputs: int) -> tuple[Any, ...]:
    """The given head; or None, and the widths and the activation of the head to build."""
    if options.head is not None:
        _check_head(options.head)
        return (options.head,)
    widths: Any = options.hidden
    if isinstance(widths, str) and widths == "auto":
        widths = 8 if outputs == 1 else max(12, 4 * outputs)
    widths = tuple(widths) if isinstance(widths, tuple | list) else (widths,)
    try:
        sizes = [whole_number("hidden", width) for width in widths]
    except ValueError:
        sizes = []
    if not sizes:
        raise ValueError(
            f"hidden={options.hidden!r} must be a width, several, or 'auto'; widths are whole "
            "numbers of at least 1"
        )
    if options.activation is None:
        raise ValueError(f"activation=None must be one of {', '.join(heads.ACTIVATIONS)}")
    return (None, sizes, options.activation)


def _callbacks(options: Options, method: str) -> list[Callback]:
    settings = dict.fromkeys(check_method(method).settings, 1.0)
    unbiased = check_method(method).build(**settings).estimates_test_error
    return [stopping()] if options.early_stopping and unbiased else []


def tune_network(
    options: Options, method: str, rows: Rows, objective: Objective, seed: int
) -> Sweep:
    """Train with settings that are chosen by the train error.

    If the error is still falling at the end, the check *not converged* says so.
    """
    with ignoring(DivergenceWarning, STILL_FALLING):
        return tune(
            rows, None, objective,
            method=method, lr=options.lr, damping=options.damping, ridge=options.ridge,
            steps=int(options.max_iter), seed=seed, progress=bool(options.verbose),
            callbacks=_callbacks(options, method),
        )  # fmt: skip


def check_unchanged(
    options: Options, method: str, last: Continuation, wanted: tuple[Any, ...]
) -> None:
    """Raise ``ValueError`` if options were changed such that the run cannot be continued."""
    if last.built != wanted:
        raise ValueError(
            f"hidden={options.hidden!r}, activation={options.activation!r} or head are not those "
            "of the model to continue; use warm_start=False"
        )
    if method != last.method:
        raise ValueError(
            f"method={method!r} but the run to continue is {last.method!r}; use warm_start=False"
        )


def continue_run(
    options: Options, method: str, last: Continuation, rows: Rows, objective: Objective
) -> Run:
    """Continue training on the same rows."""
    given = {name: getattr(options, name) for name in SETTINGS if getattr(options, name) != "auto"}
    algorithm: Any = last.run.algorithm
    changed = {k: float(v) for k, v in given.items() if k in algorithm.settings}
    run = fit(
        rows, None, objective, replace(algorithm, **changed), int(options.max_iter),
        state=last.run.state, progress=bool(options.verbose),
        callbacks=_callbacks(options, method),
    )  # fmt: skip
    return last.join(run)


def _check_head(head: Any) -> None:
    """Raise ``ValueError`` if the number of pre-activations of a head is missing."""
    if isinstance(head, nn.Module) and Objective(head, "squared").width is None:
        raise ValueError(
            f"head={type(head).__name__} does not tell its number of pre-activations; set an "
            "attribute: head.width = 8"
        )


def run_records(sweep: Sweep, unit: float) -> list[dict[str, Any]]:
    """The settings that were tried, each with its lowest error."""
    return [
        {key: record[key] for key in SETTINGS if key in record}
        | {
            "error": unit * record["train_error"],
            "stderr": unit * record["stderr"],
            "step": record["best_step"],
            "stop_reason": record["stop_reason"],
            "chosen": index == sweep.best_index,
        }
        for index, record in enumerate(sweep.records)
    ]


def _device(name: Any) -> torch.device:
    """Return a device, or raise ``ValueError`` if this machine does not have it."""
    try:
        device = torch.device(name)
        torch.ones(1, device=device).item()
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device={name!r} cannot be used here ({reason}); use 'cpu'") from error
    return device
