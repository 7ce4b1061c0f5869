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

which is the trajectory-wise estimate of Bellec and Tan for this descent, as we derive it
(:func:`bellec_tan`); it needs the spectrum of X alone. :func:`gcv` inflates the residuals of step t
by that step's degrees of freedom and forgets the path.

Real rows have an intercept, which is solved for in every step: columns and labels are centred. The
rows without row i then have other centres. To leave the row out is to give it the labels that make
its residuals zero in every step; a label e moves its own centred residual by (1 − 1/n) e, so I
becomes (1 − 1/n) I in both formulas. (With more columns than rows nothing else will do: centred
rows and labels sum to zero, and the others tell row i's label exactly.)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
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
#: η of decoupled descent, and c in shares of the largest it may be: light to strong fits.
PULL, SHARES = 0.3, (0.3, 0.5, 0.7, 0.8, 0.9)


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


def own_weight(n: int, centred: bool) -> float:
    """How much of a nudge of its label a row's residual keeps at once."""
    return 1 - 1 / n if centred else 1.0


def spectrum_of(A: Array) -> Array:
    """Eigenvalues of XᵀX that are not zero by its shape."""
    return np.linalg.eigvalsh(A @ A.T if len(A) < A.shape[1] else A.T @ A)


def responses(spectrum: Array, rate: float, steps: int, shares: Array) -> Array:
    """η Σ_k shares_k (1 − η s_k)^m for m = 0 … T − 2, for rows or for their mean."""
    powers = (1 - rate * spectrum)[:, None] ** np.arange(steps - 1)
    return rate * (shares @ powers)


def bellec_tan(A: Array, residuals: Array, rate: float, centred: bool = False) -> Array:
    """(I − Â)⁻¹ f with the mean memory matrix Â; from the eigenvalues of X alone."""
    n, steps, spectrum = len(A), len(residuals), spectrum_of(A)
    memory = responses(spectrum, rate, steps, spectrum / n)
    lag = np.subtract.outer(np.arange(steps), np.arange(steps)) - 1
    matrix = np.where(lag >= 0, memory[np.clip(lag, 0, None)], 0.0)
    unit = own_weight(n, centred) * np.eye(steps)
    return solve_triangular(unit - matrix, residuals, lower=True) ** 2


def leave_one_out(A: Array, residuals: Array, rate: float, centred: bool = False) -> Array:
    """(I − Â^(i))⁻¹ f_i row by row: the squared errors of descents without each row, exactly."""
    left, values, _ = np.linalg.svd(A, full_matrices=False)
    spectrum, unit = values**2, own_weight(len(A), centred)
    memory = responses(spectrum, rate, len(residuals), left**2 * spectrum).T  # (T − 1, n)
    found = residuals / unit
    for t in range(1, len(found)):
        found[t] += (memory[:t][::-1] * found[:t]).sum(0) / unit
    return found**2


def gcv(A: Array, residuals: Array, rate: float, centred: bool = False) -> Array:
    """Residuals divided by 1 − df_t/n, df_t being the trace of step t's smoother."""
    n, steps = len(A), len(residuals)
    freedom = (1 - (1 - rate * spectrum_of(A))[:, None] ** np.arange(steps)).sum(0)
    return (residuals / (own_weight(n, centred) - freedom / n)[:, None]) ** 2


ESTIMATORS = {"Bellec–Tan": bellec_tan, "path leave-one-out": leave_one_out, "path GCV": gcv}


def estimated(name: str, standardise: bool) -> Way:
    """Descend on all rows and stop where the estimated risk is lowest."""

    def way(X: Array, y: Array) -> Answer:
        path = learner(standardise)(X, y)
        A = path.scale(X)
        residuals = y - path.level - path.thetas @ A.T
        errors = ESTIMATORS[name](A, residuals, path.rate, centred=standardise)
        best = lowest(errors)
        estimate, stderr = mean_and_stderr(errors[best])
        return Answer(estimate, None if name == "path GCV" else stderr, path.pick(best))

    return way


def decoupled(A: torch.Tensor, y: torch.Tensor, start: torch.Tensor) -> dd.sweeps.Sweep:
    """Decoupled descent along damping 1 − η and rate cη, whose limits are ridge regressions.

    Undamped it would grow without bound here. c lies below both 1 and d/n; five values compete.
    """
    bound = min(1.0, A.shape[1] / len(A))
    dampings = {
        f"c = {share * bound:.2g}": dd.DecoupledDescent(PULL * share * bound, 1 - PULL)
        for share in SHARES
    }
    objective = dd.Objective(dd.heads.Linear().double(), "squared")
    return dd.sweep(A, y, objective, dampings, STEPS, theta=start, progress=False)


def ours(standardise: bool, train: Callable[..., dd.sweeps.Sweep]) -> Way:
    """The winner of a sweep, its luck corrected for."""

    def way(X: Array, y: Array) -> Answer:
        scale = scaler(X, standardise)
        level = float(y.mean()) if standardise else 0.0
        A, target = torch.from_numpy(scale(X)), torch.from_numpy(y - level)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dd.DivergenceWarning)
            sweep = train(A, target, torch.zeros(1, A.shape[1], dtype=A.dtype))
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
    return found | {"DD": ours(standardise, decoupled)}
