"""What classifier and regressor share: options, preprocessing, training, the estimate."""

from __future__ import annotations

import copy
import hashlib
import math
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from decoupled_descent import heads
from decoupled_descent.data.rows import Rows
from decoupled_descent.diagnostics import Diagnosis, diagnose
from decoupled_descent.objective import Objective
from decoupled_descent.training import Run, fit
from decoupled_descent.validation.automatic import PATIENCE, Setting, tune
from decoupled_descent.validation.figures import plot_curve
from decoupled_descent.validation.selection import CorrectedError
from decoupled_descent.validation.stopping import EarlyStopping
from decoupled_descent.validation.sweep import Sweep

Floats = NDArray[np.floating[Any]]

#: Scaled columns are cut off at this many standard deviations: single entries far out would give
#: their rows the say over whole columns, of which nothing can be learnt when they are left out.
CLIP = 5.0


class Continuation(NamedTuple):
    """What a warm start needs: the data's fingerprint, the winner and where it got to."""

    fingerprint: str
    algorithm: Any
    state: Any


class DecoupledEstimator(BaseEstimator):
    """The common base; see :class:`DecoupledClassifier` for the options and attributes."""

    _task: str
    _error_name: str
    _unit: float

    def __init__(
        self,
        hidden: int | tuple[int, ...] | str = "auto",
        activation: str = "tanh",
        *,
        head: nn.Module | None = None,
        method: str = "orthogonal",
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
        self.lr = lr
        self.damping = damping
        self.ridge = ridge
        self.max_iter = max_iter
        self.early_stopping = early_stopping
        self.warm_start = warm_start
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def plot_training(self) -> Figure:
        """Draw the estimated test error over the steps, with its 95 % interval.

        Returns:
            A figure; ``figure.savefig(path)`` writes it to a file.
        """
        check_is_fitted(self)
        return plot_curve(
            self.train_error_curve_,
            self.train_error_stderr_curve_,
            title=f"{type(self).__name__}, {self.method}",
            ylabel=self._error_name,
        )

    def _train(self, X: Floats, targets: Tensor, loss: str, outputs: int) -> Run:
        """Standardise, train, and set what is common to both tasks."""
        if (
            isinstance(self.max_iter, bool)
            or int(self.max_iter) != self.max_iter
            or (self.max_iter < 1)
        ):
            raise ValueError(f"max_iter={self.max_iter!r} must be a whole number of at least 1")
        warm = self.warm_start and hasattr(self, "theta_")
        if not warm:
            self.learn_scale(X)
        device = _device(self.device)
        rows = Rows(torch.from_numpy(self.scaled(X)).to(device, torch.float32), targets.to(device))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        objective = Objective(self._starting_head(rows, outputs, seed, warm), loss)
        run, sweep = self._continue(rows, objective) if warm else None, None
        if run is None:
            sweep = self._tune(rows, objective, seed, warm)
            run = sweep.best
        self._record(run, rows, sweep)
        return run

    def learn_scale(self, X: Floats) -> None:
        """Learn the means and deviations of the columns, or refuse when all are constant."""
        self.mean_ = X.mean(0)
        deviation = X.std(0)
        constant = deviation <= 1e-12 * np.maximum(np.abs(self.mean_), np.finfo(float).tiny)
        if constant.all():
            raise ValueError("every column of X is constant; there is nothing to learn from")
        self.scale_ = np.where(constant, np.inf, deviation)  # which sends constant columns to 0

    def scaled(self, X: Floats) -> Floats:
        """Centre the columns, scale them to variance 1/d and cut off outliers, in float64."""
        deviations = np.clip((X - self.mean_) / self.scale_, -CLIP, CLIP)
        scaled: Floats = deviations / math.sqrt(X.shape[1])
        return scaled

    def _starting_head(self, rows: Rows, outputs: int, seed: int, warm: bool) -> nn.Module:
        if warm:
            return copy.deepcopy(self.head_)
        if self.head is not None:
            return self.head
        widths: tuple[Any, ...]
        if isinstance(self.hidden, str):
            if self.hidden != "auto":
                raise ValueError(f"hidden={self.hidden!r} must be a width, several, or 'auto'")
            widths = (8,) if outputs == 1 else (max(12, 4 * outputs),)
        else:
            widths = tuple(np.atleast_1d(self.hidden).tolist())
        return heads.Deep(widths, self.activation, outputs, bias=True, seed=seed)

    def _tune(self, rows: Rows, objective: Objective, seed: int, warm: bool) -> Sweep:
        theta = torch.as_tensor(self.theta_).to(rows.X) if warm else None
        stop = [EarlyStopping(patience=PATIENCE)]
        return tune(
            rows, None, objective,
            method=self.method, lr=self.lr, damping=self.damping, ridge=self.ridge,
            steps=int(self.max_iter), theta=theta, seed=seed, progress=bool(self.verbose),
            callbacks=stop if self.early_stopping and self.method != "gradient" else [],
        )  # fmt: skip

    def _continue(self, rows: Rows, objective: Objective) -> Run | None:
        """Go on from where training on the same rows ended; None when the rows are others."""
        before = self._continuation
        if before.fingerprint != _fingerprint(rows):
            return None
        return fit(
            rows.X, rows.y, objective, before.algorithm, int(self.max_iter),
            state=before.state, progress=bool(self.verbose),
            callbacks=[EarlyStopping(patience=PATIENCE)] if self.early_stopping else [],
        )  # fmt: skip

    def _record(self, run: Run, rows: Rows, sweep: Sweep | None) -> None:
        """Set the fitted attributes."""
        chosen = sweep.corrected_error if sweep is not None else _own_error(run)
        self.diagnostics_: Diagnosis = diagnose(rows.X, rows.y, sweep or run, task=self._task)
        unit = self._unit
        self.estimated_test_error_ = unit * chosen.error
        self.estimated_test_error_stderr_ = unit * chosen.stderr * self.diagnostics_.widening
        self.train_error_curve_ = unit * run.train_error.numpy()
        self.train_error_stderr_curve_ = unit * run.train_error_stderr.numpy()
        self.best_iter_ = run.best_step
        self.n_iter_ = len(run.train_error)
        self.stop_reason_ = str(run.stop_reason)
        self.candidates_ = _candidates(sweep, unit)
        self.algorithm_ = run.algorithm
        self.theta_ = run.best_theta.double().cpu().numpy()
        self.head_ = run.best_head.cpu()
        self._continuation = Continuation(_fingerprint(rows), run.algorithm, run.state)

    def _outputs(self, X: ArrayLike) -> Floats:
        """Evaluate the model on new rows, in float64."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        h = torch.from_numpy(self.scaled(rows) @ self.theta_.T)
        head = copy.deepcopy(self.head_).double()
        with torch.no_grad():
            outputs = head(h)
        result: Floats = outputs.reshape(len(rows), -1).numpy()
        return result


def _own_error(run: Run) -> CorrectedError:
    """The error of a run that had no rivals."""
    step = run.best_step
    return CorrectedError(float(run.train_error[step]), float(run.train_error_stderr[step]), 0.0)


def _candidates(sweep: Sweep | None, unit: float) -> list[dict[str, Any]]:
    """The settings that were tried, each with its lowest error."""
    if sweep is None:
        return []
    kept = ("lr", "damping", "ridge")
    return [
        {key: record[key] for key in kept if key in record}
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
    """Look a device up, or raise ``ValueError`` where this machine has none of that kind."""
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
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
