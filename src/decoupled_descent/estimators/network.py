"""Networks trained by descents: scaling, architecture, choice of settings, warm starts."""

from __future__ import annotations

import copy
import math
import warnings
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from torch import Tensor, nn

from decoupled_descent.checks import outside, whole_number
from decoupled_descent.diagnostics.diagnosis import diagnose
from decoupled_descent.features.scaling import as_rows, moments
from decoupled_descent.objective import Objective, heads
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.store import Mapped
from decoupled_descent.selection.comparison import CorrectedError
from decoupled_descent.selection.methods import SETTINGS
from decoupled_descent.selection.sweep import Sweep
from decoupled_descent.selection.tuning import Setting, check_settings, check_used, stopping, tune
from decoupled_descent.training.callbacks import Callback
from decoupled_descent.training.fingerprint import checksum
from decoupled_descent.training.loop import History
from decoupled_descent.training.run import Run, fit

Floats = NDArray[np.floating[Any]]

#: Scaled columns are clipped at this many standard deviations. Otherwise single outliers would
#: dominate their columns, and leaving their rows out would change the model too much.
CLIP = 5.0


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


@dataclass(eq=False, repr=False)
class Options(BaseEstimator):
    """The options of both estimators, which explain them."""

    hidden: int | tuple[int, ...] | str = "auto"
    activation: str = "tanh"
    _: KW_ONLY
    head: nn.Module | None = None
    method: str = "auto"
    features: Any = "auto"
    stack: bool = True
    lr: Setting = "auto"
    damping: Setting = "auto"
    ridge: Setting = "auto"
    max_iter: int = 500
    early_stopping: bool = True
    warm_start: bool = False
    random_state: Any = 0
    device: str = "cpu"
    verbose: bool = False

    def _changed(self, *names: str) -> list[str]:
        """Those of these options that differ from their defaults, in value or type."""
        pairs = [(name, getattr(self, name), getattr(Options, name)) for name in names]
        return [k for k, given, usual in pairs if type(given) is not type(usual) or given != usual]


class NetworkTraining(Options):
    """The part of the estimators that trains networks."""

    _task: str
    _unit = 1.0  # an error of the estimator, for an error of the loss of one
    _continuation: Continuation | None = None
    method_: str
    train_error_curve_: Floats
    train_error_stderr_curve_: Floats

    def _train(self, X: Any, targets: Tensor, loss: str, outputs: int) -> Run:
        """Standardise, train, and set the attributes that both tasks have."""
        whole_number("max_iter", self.max_iter)
        targets = targets.float() if targets.is_floating_point() else targets
        self._check_settings()
        inputs = as_rows(X)
        self.learn_scale(inputs)
        rows = self._network_rows(inputs, targets, _device(self.device))
        seed = self._seed()
        wanted = self._architecture(outputs)
        key = checksum(*(block.X for block in rows.blocks()), rows.y) if self.warm_start else ""
        before = self._before(key)
        if before is None:
            objective = Objective(self._starting_head(wanted, outputs, seed), loss)
            sweep: Sweep | None = self._tune(rows, objective, seed)
            assert sweep is not None
            run, chosen = sweep.best, sweep.corrected_error
        else:
            self._check_unchanged(before, wanted)
            objective, sweep = Objective(copy.deepcopy(self.head_), loss), None
            run = self._continue(before, rows, objective)
            error, stderr = run.best.train_error, run.best.train_error_stderr
            chosen = CorrectedError(error + before.optimism, stderr, before.optimism)
        self._record(run, rows, sweep, chosen)
        kept = Continuation(key, self.method_, wanted, run, chosen.optimism)
        self._continuation = kept if self.warm_start else None
        return run

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _network_rows(self, inputs: Rows, targets: Tensor, device: torch.device) -> Rows:
        """Scaled rows in float32: in memory if X is, else scaled whenever they are read."""

        def scale(part: Tensor) -> Tensor:
            return torch.from_numpy(self.scaled(part.numpy())[:, self._varying])

        count = int(self._varying.sum())
        source = Mapped(inputs, scale, count, torch.float32)
        if not inputs.held:
            if device.type != "cpu":
                raise ValueError(
                    f"device={self.device!r} needs all of X in memory, but it is read block by "
                    "block; use device='cpu'"
                )
            return Rows(source, targets)
        features = torch.empty(inputs.here, count, dtype=torch.float32)
        for span, part, _ in source.parts(None):
            features[span] = part
        return Rows(features.to(device), targets.to(device))

    def _before(self, key: str) -> Continuation | None:
        """The run that a warm start continues; None if training starts again."""
        if not self.warm_start or self._continuation is None:
            return None
        if self._continuation.fingerprint == key:
            return self._continuation
        warnings.warn(
            "warm_start=True but X and y are not those of the last fit: training starts again, "
            "because parameters that were trained on some of these rows cannot estimate their "
            "error",
            stacklevel=outside(),
        )
        return None

    @property
    def _varying(self) -> NDArray[np.bool_]:
        """Which columns vary."""
        return np.isfinite(self.scale_)

    def _check_settings(self) -> None:
        """Raise ``ValueError`` for settings that are not numbers, or that have no effect."""
        settings = {name: getattr(self, name) for name in SETTINGS}
        check_settings(self.method_, settings)
        check_used(self.method_, settings)
        if self.method_ != "newton" and self._changed("features"):
            raise ValueError(
                f"features={self.features!r} has no effect with method={self.method_!r}; leave out "
                "one of the two, or train on the features with dd.tune"
            )

    def learn_scale(self, X: Any) -> None:
        """Learn means and deviations of the columns; raise ``ValueError`` if all are constant."""
        rows = as_rows(X)
        found = moments(rows, torch.ones(rows.here, dtype=torch.float64))
        self.mean_, deviation = (values.cpu().numpy() for values in found)
        constant = deviation <= 1e-12 * np.maximum(np.abs(self.mean_), np.finfo(float).tiny)
        if constant.all():
            raise ValueError("every column of X is constant; there is nothing to learn from")
        self.scale_ = np.where(constant, np.inf, deviation)  # so that constant columns become 0

    def scaled(self, X: Floats) -> Floats:
        """Centre the columns, scale them to variance 1/d and clip outliers, in float64.

        Columns that were constant in training become zero and do not count in d.
        """
        scaled: Floats = X - self.mean_
        scaled /= self.scale_  # in place: X may be large
        np.clip(scaled, -CLIP, CLIP, out=scaled)
        scaled /= math.sqrt(int(self._varying.sum()))
        return scaled

    def _starting_head(self, wanted: tuple[Any, ...], outputs: int, seed: int) -> nn.Module:
        if self.head is not None:
            return self.head
        _, widths, activation = wanted
        return heads.Deep(widths, activation, outputs, bias=True, seed=seed)

    def _architecture(self, outputs: int) -> tuple[Any, ...]:
        """The given head; or None, and the widths and the activation of the head to build."""
        if self.head is not None:
            _check_head(self.head)
            return (self.head,)
        widths: Any = self.hidden
        if isinstance(widths, str) and widths == "auto":
            widths = 8 if outputs == 1 else max(12, 4 * outputs)
        widths = tuple(widths) if isinstance(widths, tuple | list) else (widths,)
        try:
            sizes = [whole_number("hidden", width) for width in widths]
        except ValueError:
            sizes = []
        if not sizes:
            raise ValueError(
                f"hidden={self.hidden!r} must be a width, several, or 'auto'; widths are whole "
                "numbers of at least 1"
            )
        if self.activation is None:
            raise ValueError(f"activation=None must be one of {', '.join(heads.ACTIVATIONS)}")
        return (None, sizes, self.activation)

    @property
    def _callbacks(self) -> list[Callback]:
        wanted = self.early_stopping and self.method_ != "gradient"
        return [stopping()] if wanted else []

    def _tune(self, rows: Rows, objective: Objective, seed: int) -> Sweep:
        return tune(
            rows, None, objective,
            method=self.method_, lr=self.lr, damping=self.damping, ridge=self.ridge,
            steps=int(self.max_iter), seed=seed, progress=bool(self.verbose),
            callbacks=self._callbacks,
        )  # fmt: skip

    def _check_unchanged(self, before: Continuation, wanted: tuple[Any, ...]) -> None:
        """Raise ``ValueError`` if options were changed such that the run cannot be continued."""
        if before.built != wanted:
            raise ValueError(
                f"hidden={self.hidden!r}, activation={self.activation!r} or head are not those of "
                "the model to continue; use warm_start=False"
            )
        if self.method_ != before.method:
            raise ValueError(
                f"method={self.method_!r} but the run to continue is {before.method!r}; use "
                "warm_start=False"
            )

    def _continue(self, before: Continuation, rows: Rows, objective: Objective) -> Run:
        """Continue training on the same rows."""
        given = {name: getattr(self, name) for name in SETTINGS if getattr(self, name) != "auto"}
        algorithm: Any = before.run.algorithm
        changed = {k: float(v) for k, v in given.items() if k in algorithm.settings}
        run = fit(
            rows, None, objective, replace(algorithm, **changed), int(self.max_iter),
            state=before.run.state, progress=bool(self.verbose), callbacks=self._callbacks,
        )  # fmt: skip
        return before.join(run)

    def _record(self, run: Run, rows: Rows, sweep: Sweep | None, chosen: CorrectedError) -> None:
        """Set the fitted attributes."""
        self.diagnostics_ = diagnose(rows, None, sweep or run, task=self._task)
        unit = self._unit
        widened = unit * self.diagnostics_.widening
        self.estimated_test_error_ = unit * chosen.error
        self.estimated_test_error_stderr_ = widened * chosen.stderr
        self.train_error_curve_ = unit * run.train_error.numpy()
        self.train_error_stderr_curve_ = widened * run.train_error_stderr.numpy()
        self.best_iter_ = run.best_step
        self.n_iter_ = len(run.train_error)
        self.stop_reason_ = str(run.stop_reason)
        if sweep is not None:
            self.candidates_ = _candidates(sweep, unit)
        self.algorithm_, self.metadata_ = run.algorithm, run.metadata
        self.theta_ = np.zeros((len(run.best_theta), len(self.scale_)))
        self.theta_[:, self._varying] = run.best_theta.double().cpu().numpy()
        self.head_ = run.best_head.cpu()

    def _evaluate(self, X: Floats) -> Floats:
        """Outputs of the network for new rows, in float64, shape (m, K)."""
        h = torch.from_numpy(self.scaled(X) @ self.theta_.T)
        head = copy.deepcopy(self.head_).double()
        with torch.no_grad():
            outputs = head(h)
        result: Floats = outputs.reshape(len(X), -1).numpy()
        return result


def _check_head(head: Any) -> None:
    """Raise ``ValueError`` if the number of pre-activations of a head is not known."""
    if isinstance(head, nn.Module) and Objective(head, "squared").width is None:
        raise ValueError(
            f"head={type(head).__name__} does not tell its number of pre-activations; set an "
            "attribute: head.width = 8"
        )


def _candidates(sweep: Sweep, unit: float) -> list[dict[str, Any]]:
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
