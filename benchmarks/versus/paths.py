r"""Least squares by gradient descent from zero: estimates of the risk of every iterate.

With residuals f_t = y − Xθ_t and θ_{t+1} = θ_t + η Xᵀ f_t, an error e_s that is added to row i's
residual in step s alone moves the row's later outputs by

.. math::
   \frac{\partial x_i^\top \theta_t}{\partial e_s} = \hat A_{ts}^{(i)}
   = \eta\, x_i^\top (I - \eta X^\top X)^{t-1-s} x_i \qquad (s < t).

Without row i the descent has residuals f^(−i) at that row. To put the row back is to add η x_i f_s
to θ in every step s, which moves x_iᵀθ_t by a_ts f_s, a being the same response in the descent
*without* the row: f = f^(−i) − a f. An error e is pulled along in the same way,
f = f^(−i) − a (f + e), hence Â = (I + a)⁻¹ a = I − (I + a)⁻¹ and

.. math:: f^{(-i)} = (I - \hat A^{(i)})^{-1} f_i .

This is exact, row by row: leave-one-out for a whole path (:func:`leave_one_out`). For Gaussian rows
of any covariance, Â^(i) is nearly the same for all rows. With its mean in the place of each,

.. math:: \hat r_t = \frac1n \sum_i \big[(I - \hat A)^{-1} f_i\big]_t^2,

which is the trajectory-wise estimate of Bellec and Tan for this descent (:func:`bellec_tan`); it
needs the spectrum of X alone. :func:`gcv` inflates the residuals of step t by that step's degrees
of freedom and forgets the path.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg import solve_triangular

import decoupled_descent as dd
from benchmarks.versus.scaling import Map, scaler
from benchmarks.versus.ways import (
    Answer,
    Array,
    Learner,
    RowLosses,
    Way,
    common_ways,
    literal,
    lowest,
    mean_and_stderr,
    single_fit,
)

STEPS = 60
#: Rate in units of 2/‖X‖², above which descent diverges.
RATE = 0.5


@dataclass(frozen=True)
class Path:
    """Iterates θ_1 … θ_T, shape (T, d), for centred labels."""

    scale: Map
    level: float
    rate: float
    thetas: Array

    def outputs(self, X: Array) -> Array:
        return self.thetas @ self.scale(X).T + self.level

    def losses(self, X: Array, y: Array) -> Array:
        return (self.outputs(X) - y) ** 2

    def pick(self, index: int) -> RowLosses:
        one = Path(self.scale, self.level, self.rate, self.thetas[[index]])
        return lambda X, y: one.losses(X, y)[0]


def descend(A: Array, y: Array, rate: float, steps: int) -> Array:
    """The iterates of θ ← θ + η Xᵀ(y − Xθ) from zero, shape (steps, d)."""
    theta, found = np.zeros(A.shape[1]), []
    for _ in range(steps):
        found.append(theta)
        theta = theta + rate * (A.T @ (y - A @ theta))
    return np.array(found)


def learner(standardise: bool, steps: int = STEPS) -> Learner:
    """Descend on scaled rows; real labels and columns are centred by the training rows."""

    def train(X: Array, y: Array, last: int | None = None) -> Path:
        scale = scaler(X, standardise)
        A, level = scale(X), float(y.mean()) if standardise else 0.0
        rate = RATE * 2 / np.linalg.norm(A, 2) ** 2
        count = steps if last is None else last + 1
        return Path(scale, level, rate, descend(A, y - level, rate, count))

    return train


# Risk of every iterate from the training rows: squared errors of shape (T, n)


def responses(spectrum: Array, rate: float, steps: int, shares: Array) -> Array:
    """η Σ_k shares_k (1 − η s_k)^m for m = 0 … T − 2, for rows or for their mean."""
    powers = (1 - rate * spectrum)[:, None] ** np.arange(steps - 1)
    return rate * (shares @ powers)


def bellec_tan(A: Array, residuals: Array, rate: float) -> Array:
    """(I − Â)⁻¹ f with the mean memory matrix Â; from the eigenvalues of X alone."""
    n, steps = len(A), len(residuals)
    small = A @ A.T if n < A.shape[1] else A.T @ A
    spectrum = np.linalg.eigvalsh(small)
    memory = responses(spectrum, rate, steps, spectrum / n)
    lag = np.subtract.outer(np.arange(steps), np.arange(steps)) - 1
    matrix = np.where(lag >= 0, memory[np.clip(lag, 0, None)], 0.0)
    return solve_triangular(np.eye(steps) - matrix, residuals, lower=True) ** 2


def leave_one_out(A: Array, residuals: Array, rate: float) -> Array:
    """(I − Â^(i))⁻¹ f_i row by row: the squared errors of descents without each row, exactly."""
    left, values, _ = np.linalg.svd(A, full_matrices=False)
    spectrum = values**2
    memory = responses(spectrum, rate, len(residuals), left**2 * spectrum).T  # (T − 1, n)
    found = residuals.copy()
    for t in range(1, len(found)):
        found[t] += (memory[:t][::-1] * found[:t]).sum(0)
    return found**2


def gcv(A: Array, residuals: Array, rate: float) -> Array:
    """Residuals divided by 1 − df_t/n, df_t being the trace of step t's smoother."""
    n, steps = len(A), len(residuals)
    small = A @ A.T if n < A.shape[1] else A.T @ A
    spectrum = np.linalg.eigvalsh(small)
    freedom = (1 - (1 - rate * spectrum)[:, None] ** np.arange(steps)).sum(0)
    return (residuals / (1 - freedom / n)[:, None]) ** 2


ESTIMATORS = {"Bellec–Tan": bellec_tan, "path leave-one-out": leave_one_out, "path GCV": gcv}


def estimated(name: str, standardise: bool) -> Way:
    """Descend on all rows and stop where the estimated risk is lowest."""

    def way(X: Array, y: Array) -> Answer:
        path = learner(standardise)(X, y)
        A = path.scale(X)
        errors = ESTIMATORS[name](A, y - path.level - path.thetas @ A.T, path.rate)
        best = lowest(errors)
        estimate, stderr = mean_and_stderr(errors[best])
        return Answer(estimate, None if name == "path GCV" else stderr, path.pick(best))

    return way


def decoupled(standardise: bool, method: str) -> Way:
    """Decoupled or orthogonal descent as ``dd.tune`` sets it up.

    At gradient descent's rate decoupled descent would grow without bound here: least squares needs
    damping.
    """

    def way(X: Array, y: Array) -> Answer:
        scale = scaler(X, standardise)
        level = float(y.mean()) if standardise else 0.0
        A, target = torch.from_numpy(scale(X)), torch.from_numpy(y - level)
        objective = dd.Objective(dd.heads.Linear().double(), "squared")
        start = torch.zeros(1, A.shape[1], dtype=A.dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dd.DivergenceWarning)
            sweep = dd.tune(A, target, objective, method=method, theta=start, progress=False)
        run, (estimate, stderr, _) = sweep.best, sweep.corrected_error

        def losses(X: Array, y: Array) -> Array:
            outputs = run.predict(torch.from_numpy(scale(X)), best=True).numpy().ravel()
            return (outputs + level - y) ** 2

        return Answer(2 * estimate, 2 * stderr, losses)  # the package halves squared errors

    return way


def ways(standardise: bool, rows: int, seed: int) -> dict[str, Way]:
    """All ways of this model class."""
    train = learner(standardise)
    found = {"one fit": single_fit(train)} | common_ways(train, literal(rows, seed))
    found |= {name: estimated(name, standardise) for name in ESTIMATORS}
    methods = {"DD": "decoupled", "ODD": "orthogonal"}
    return found | {name: decoupled(standardise, method) for name, method in methods.items()}
