"""What classifier and regressor share: options, preprocessing, training, the estimate."""

from __future__ import annotations

import copy
import hashlib
import math
import warnings
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from decoupled_descent.checks import whole_number
from decoupled_descent.descent import METHODS, SETTINGS, check_method
from decoupled_descent.diagnostics.diagnosis import Diagnosis, diagnose
from decoupled_descent.estimators.newton import (
    Mixture,
    Weighing,
    candidate_records,
    check_groups,
    judged_run,
    ridge_curve,
    weigh,
)
from decoupled_descent.objective import Objective, heads
from decoupled_descent.plotting.runs import plot_curve
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.training.callbacks import Callback, Step
from decoupled_descent.training.loop import History
from decoupled_descent.training.run import Run, fit
from decoupled_descent.validation.search import search
from decoupled_descent.validation.selection import CorrectedError
from decoupled_descent.validation.sweep import Sweep
from decoupled_descent.validation.tuning import (
    Setting,
    check_settings,
    stopping,
    tune,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.floating[Any]]

#: Scaled columns are cut off at this many standard deviations: single entries far out would give
#: their rows the say over whole columns, of which nothing can be learnt when they are left out.
CLIP = 5.0


#: Options of networks and descents, with their usual values: any other means ``"orthogonal"``.
DESCENT = {
    "hidden": "auto", "activation": "tanh", "head": None, "lr": "auto", "damping": "auto",
    "max_iter": 500, "early_stopping": True, "warm_start": False, "device": "cpu",
}  # fmt: skip
#: Sparse matrices that linear features take as they are.
SPARSE = ("csr", "csc")


class Continuation(NamedTuple):
    """What a warm start on the same rows needs: the winner, where it got to, and its best."""

    fingerprint: str
    method: str
    algorithm: Any
    state: Any
    history: History
    best: Step
    optimism: float

    @classmethod
    def of(cls, run: Run, key: str, method: str, optimism: float) -> Continuation:
        """Keep what is needed of a finished run, all of it plain data."""
        return cls(key, method, run.algorithm, run.state, run.history, run.best, optimism)

    def join(self, run: Run) -> Run:
        """Put the first part of a run before its second, whose first iterate is the same."""
        merged = History()
        for name in ("train_error", "train_error_stderr"):
            setattr(merged, name, getattr(self.history, name) + getattr(run.history, name)[1:])
        before = len(self.history.train_error) - 1
        last, best = (replace(step, index=step.index + before) for step in (run.last, run.best))
        better = run.history.lowest < self.history.lowest
        return replace(run, history=merged, last=last, best=best if better else self.best)


class DecoupledEstimator(BaseEstimator):
    """The common base; see :class:`DecoupledClassifier` for the options and attributes."""

    _task: str
    _error_name: str
    _unit: float
    _continuation: Continuation | None = None
    _built: tuple[Any, ...] | None = None

    def __init__(
        self,
        hidden: int | tuple[int, ...] | str = "auto",
        activation: str = "tanh",
        *,
        head: nn.Module | None = None,
        method: str = "auto",
        features: Any = "auto",
        stack: bool = True,
        lr: Setting = "auto",
        damping: Setting = "auto",
        ridge: Setting = "auto",
        max_iter: int = 500,
        early_stopping: bool = True,
        warm_start: bool = False,
        random_state: Any = 0,
        device: str = "cpu",
        verbose: bool = False,
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.head = head
        self.method = method
        self.features = features
        self.stack = stack
        self.lr = lr
        self.damping = damping
        self.ridge = ridge
        self.max_iter = max_iter
        self.early_stopping = early_stopping
        self.warm_start = warm_start
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        """Say that the Newton method takes sparse matrices."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._chosen_method() == "newton"
        return tags

    def plot_training(self) -> Figure:
        """Draw the estimated test error over the steps (or ridges), with its 95 % interval.

        Returns:
            A figure; ``figure.savefig(path)`` writes it to a file.
        """
        check_is_fitted(self)
        return plot_curve(
            self.train_error_curve_,
            self.train_error_stderr_curve_,
            title=f"{type(self).__name__}, {self.method_}",
            ylabel=self._error_name,
            xlabel="ridge, from strong to weak" if self.method_ == "newton" else "step",
        )

    def _search(
        self, X: Any, targets: Tensor, loss: str, outputs: int, weighing: Weighing, groups: Any
    ) -> Floats:
        """Train by the Newton method; return what is predicted of the rows as if they were new."""
        self._check_settings()
        self._check_unused()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        found = search(
            X, targets, loss, outputs=outputs, features=self.features, ridge=self.ridge,
            weights=weighing.weights, removed=weighing.removed, groups=groups,
            stack=bool(self.stack), seed=seed, progress=bool(self.verbose) or None,
        )  # fmt: skip
        unit, best = self._unit, found.best
        self.mixture_ = Mixture.of(found)
        self.estimated_test_error_ = unit * found.estimate.error
        self.estimated_test_error_stderr_ = unit * found.estimate.stderr
        self.ridges_, errors, stderrs, self.best_iter_ = ridge_curve(found, unit)
        self.train_error_curve_, self.train_error_stderr_curve_ = errors, stderrs
        self.n_iter_ = len(errors)
        self.stop_reason_ = "interrupted" if found.interrupted else str(best.run.stop_reason)
        self.candidates_ = candidate_records(found, unit)
        self.algorithm_ = best.run.algorithm
        self.diagnostics_: Diagnosis = diagnose(*judged_run(best), task=self._task)
        left_out: Floats = found.left_out.numpy()
        return left_out

    def _chosen_method(self) -> str:
        """The method; "auto" is Newton's, unless an option of networks or descents is given."""
        if self.method != "auto":
            check_method(self.method)
            return str(self.method)
        given = [name for name, usual in DESCENT.items() if _differs(getattr(self, name), usual)]
        return "orthogonal" if given else "newton"

    def _weighing(
        self, sample_weight: Any, class_weight: Floats | None, groups: Any, n: int
    ) -> tuple[Weighing, Tensor | None]:
        """Check weights and groups, which only the Newton method knows."""
        given = {"sample_weight": sample_weight, "class_weight": class_weight, "groups": groups}
        for name, value in given.items():
            if value is not None and self.method_ != "newton":
                raise ValueError(f"{name} needs method='newton', not {self.method_!r}")
        weighing, codes = weigh(sample_weight, class_weight, n), check_groups(groups, n)
        if codes is not None and weighing.kept is not None:
            codes = codes[torch.from_numpy(weighing.kept)]
        return weighing, codes

    def _check_unused(self) -> None:
        """Raise ``ValueError`` for options of networks, which the Newton method does not train."""
        for name in ("hidden", "activation", "head", "warm_start"):
            given = getattr(self, name)
            if _differs(given, DESCENT[name]):
                raise ValueError(
                    f"{name}={given!r} has no effect with method='newton'; leave it out, or use "
                    "method='orthogonal' to train a network"
                )

    def _train(self, X: Floats, targets: Tensor, loss: str, outputs: int) -> Run:
        """Standardise, train, and set what is common to both tasks."""
        whole_number("max_iter", self.max_iter)
        self._check_settings()
        self.learn_scale(X)
        device = _device(self.device)
        features = torch.from_numpy(self.scaled(X)[:, self._varying])
        rows = Rows(features.to(device, torch.float32), targets.to(device))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        wanted = self._architecture(outputs)
        key = _fingerprint(rows)
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
            chosen = _own_error(run, before.optimism)
        self._record(run, rows, sweep, chosen)
        self._continuation = Continuation.of(run, key, self.method_, chosen.optimism)
        self._built = wanted
        return run

    def _before(self, key: str) -> Continuation | None:
        """What a warm start goes on from; None where training starts anew."""
        if not self.warm_start or self._continuation is None:
            return None
        if self._continuation.fingerprint == key:
            return self._continuation
        warnings.warn(
            "warm_start=True but X and y are not those of the last fit: training starts anew, for "
            "parameters that have seen some of these rows cannot judge them",
            stacklevel=4,
        )
        return None

    @property
    def _varying(self) -> NDArray[np.bool_]:
        """Which columns have anything to tell."""
        return np.isfinite(self.scale_)

    def _check_settings(self) -> None:
        """Raise ``ValueError`` for settings that are no numbers, or would go unheeded."""
        settings = {name: getattr(self, name) for name in SETTINGS}
        check_settings(self.method_, settings)
        for name in SETTINGS:
            if name not in METHODS[self.method_].settings and settings[name] != "auto":
                raise ValueError(
                    f"{name}={settings[name]!r} has no effect with method={self.method_!r}; leave "
                    "it at 'auto'"
                )

    def learn_scale(self, X: Floats) -> None:
        """Learn the means and deviations of the columns, or refuse when all are constant."""
        with np.errstate(over="ignore", invalid="ignore"):
            self.mean_, deviation = X.mean(0), X.std(0)
        if not np.isfinite(deviation).all():
            column = int(np.flatnonzero(~np.isfinite(deviation))[0])
            raise ValueError(f"column {column} of X has entries too large to square; rescale it")
        constant = deviation <= 1e-12 * np.maximum(np.abs(self.mean_), np.finfo(float).tiny)
        if constant.all():
            raise ValueError("every column of X is constant; there is nothing to learn from")
        self.scale_ = np.where(constant, np.inf, deviation)  # which sends constant columns to 0

    def scaled(self, X: Floats) -> Floats:
        """Centre the columns, scale them to variance 1/d and cut off outliers, in float64.

        Columns that were constant in training become zero and do not count in d.
        """
        deviations = np.clip((X - self.mean_) / self.scale_, -CLIP, CLIP)
        scaled: Floats = deviations / math.sqrt(int(self._varying.sum()))
        return scaled

    def _starting_head(self, wanted: tuple[Any, ...], outputs: int, seed: int) -> nn.Module:
        if self.head is not None:
            return self.head
        _, widths, activation = wanted
        return heads.Deep(widths, activation, outputs, bias=True, seed=seed)

    def _architecture(self, outputs: int) -> tuple[Any, ...]:
        """The head given; or None, the widths and the activation of one to be made."""
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
        """Raise ``ValueError`` when options differ with which nothing can be gone on with."""
        if self._built != wanted:
            raise ValueError(
                f"hidden={self.hidden!r}, activation={self.activation!r} or head are not those of "
                "the model to go on from; use warm_start=False"
            )
        if self.method_ != before.method:
            raise ValueError(
                f"method={self.method_!r} but the run to go on with is {before.method!r}; use "
                "warm_start=False"
            )

    def _continue(self, before: Continuation, rows: Rows, objective: Objective) -> Run:
        """Go on from where training on the same rows ended."""
        given = {name: getattr(self, name) for name in SETTINGS if getattr(self, name) != "auto"}
        changed = {k: float(v) for k, v in given.items() if k in before.algorithm.settings}
        run = fit(
            rows.X, rows.y, objective, replace(before.algorithm, **changed), int(self.max_iter),
            state=before.state, progress=bool(self.verbose), callbacks=self._callbacks,
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
        self.algorithm_ = run.algorithm
        self.theta_ = np.zeros((len(run.best_theta), len(self.scale_)))
        self.theta_[:, self._varying] = run.best_theta.double().cpu().numpy()
        self.head_ = run.best_head.cpu()

    def _outputs(self, X: ArrayLike) -> Floats:
        """Evaluate the model on new rows, in float64."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False, accept_sparse=SPARSE)
        if self.method_ == "newton":
            return self.mixture_.predict(rows)
        h = torch.from_numpy(self.scaled(rows) @ self.theta_.T)
        head = copy.deepcopy(self.head_).double()
        with torch.no_grad():
            outputs = head(h)
        result: Floats = outputs.reshape(len(rows), -1).numpy()
        return result


def _differs(given: Any, usual: Any) -> bool:
    """Whether an option has another value than the usual one, of any type."""
    return given is not usual and (type(given) is not type(usual) or bool(given != usual))


def check_level(level: Any) -> float:
    """Return a level of confidence, or raise ``ValueError``."""
    if not isinstance(level, Real) or not 0 < float(level) < 1:
        raise ValueError(f"level={level!r} must be between 0 and 1, such as 0.9")
    return float(level)


def _check_head(head: Any) -> None:
    """Raise ``ValueError`` unless a head says how many pre-activations it takes."""
    if isinstance(head, nn.Module) and Objective(head, "squared").width is None:
        raise ValueError(
            f"head={type(head).__name__} does not say how many pre-activations it takes; give it "
            "an attribute: head.width = 8"
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


def _own_error(run: Run, optimism: float) -> CorrectedError:
    """The error of a run that was continued, with the optimism of having been chosen."""
    step = run.best_step
    error, stderr = float(run.train_error[step]), float(run.train_error_stderr[step])
    return CorrectedError(error + optimism, stderr, optimism)


def _device(name: Any) -> torch.device:
    """Look a device up, or raise ``ValueError`` where this machine has none of that kind."""
    try:
        device = torch.device(name)
        torch.ones(1, device=device).item()
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device={name!r} cannot be used here ({reason}); use 'cpu'") from error
    return device


def _fingerprint(rows: Rows) -> str:
    """Tell whether rows are the ones trained on before."""
    digest = hashlib.sha256()
    for values in (rows.X, rows.y):
        digest.update(values.cpu().numpy().tobytes())
    return digest.hexdigest()
