"""Linear models with a ridge penalty and a free intercept: the minimum for each of seven ridges.

Hold-out and folds fit by scikit-learn's L-BFGS (logistic) or one decomposition for all ridges
(squared error), each from the ridge before. ALO is the published formula at those minima. Newton's
leave-one-out is ``dd.DecoupledNewton``: the same formula, then more steps and refits where needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, RidgeCV

import decoupled_descent as dd
from benchmarks.versus import posterior
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

#: λ in Σ loss + λ‖β‖²/2 for rows of norm about one; the strongest first, where fits start.
RIDGES = 10.0 ** (np.arange(3, -4, -1) / 2)
#: Gradient norm at which L-BFGS ends, for all folds alike.
TOLERANCE = 1e-5


def row_losses(loss: str, outputs: Array, y: Array) -> Array:
    """Log loss of logits, or the squared error."""
    if loss == "logistic":
        return np.logaddexp(0, outputs) - y * outputs
    return (outputs - y) ** 2


@dataclass(frozen=True)
class Fits:
    """Coefficients (ridges, d) and intercepts (ridges,)."""

    loss: str
    scale: Map
    slopes: Array
    intercepts: Array

    def losses(self, X: Array, y: Array) -> Array:
        outputs = self.slopes @ self.scale(X).T + self.intercepts[:, None]
        return row_losses(self.loss, outputs, y)

    def pick(self, index: int) -> RowLosses:
        which = [index]
        one = Fits(self.loss, self.scale, self.slopes[which], self.intercepts[which])
        return lambda X, y: one.losses(X, y)[0]


def learner(loss: str, standardise: bool) -> Learner:
    """Train for all ridges, or for one of them."""

    def train(X: Array, y: Array, last: int | None = None) -> Fits:
        scale = scaler(X, standardise)
        ridges = RIDGES if last is None else RIDGES[: last + 1]
        solve = logistic_path if loss == "logistic" else squared_path
        return Fits(loss, scale, *solve(scale(X), y, ridges))

    return train


def logistic_path(A: Array, y: Array, ridges: Array) -> tuple[Array, Array]:
    """Minima of the penalised log loss, each started from the one before."""
    model = LogisticRegression(warm_start=True, tol=TOLERANCE, max_iter=2000)
    slopes, intercepts = [], []
    for ridge in ridges:
        model.set_params(C=1 / ridge).fit(A, y)
        slopes.append(model.coef_[0].copy())
        intercepts.append(float(model.intercept_[0]))
    return np.array(slopes), np.array(intercepts)


def squared_path(A: Array, y: Array, ridges: Array) -> tuple[Array, Array]:
    """Minima of half the squared error plus the penalty, from one decomposition."""
    centre, level = A.mean(0), y.mean()
    left, values, right = np.linalg.svd(A - centre, full_matrices=False)
    weights = values / (values**2 + ridges[:, None]) * (left.T @ (y - level))
    slopes = weights @ right
    return slopes, level - slopes @ centre


def newton(loss: str, standardise: bool) -> Way:
    """Every row left out of the minimum by formula; the winner's luck is corrected for."""

    def way(X: Array, y: Array) -> Answer:
        scale = scaler(X, standardise)
        rows = dd.Rows(torch.from_numpy(scale(X)), torch.from_numpy(y))
        head = dd.heads.Linear(intercept=True).double()
        objective, theta, runs = dd.Objective(head, loss), None, []
        for ridge in RIDGES:
            algorithm = dd.DecoupledNewton(float(ridge))
            runs.append(dd.fit(rows, None, objective, algorithm, theta=theta, progress=False))
            theta = runs[-1].theta
        sweep = dd.sweeps.Sweep(tuple(f"{ridge:g}" for ridge in RIDGES), tuple(runs))
        unit = 1 if loss == "logistic" else 2  # the package halves squared errors
        found, best = sweep.corrected_error, sweep.best

        def losses(X: Array, y: Array) -> Array:
            outputs = best.predict(torch.from_numpy(scale(X))).numpy().ravel()
            return row_losses(loss, outputs, y)

        return Answer(unit * found.error, unit * found.stderr, losses)

    return way


def alo(loss: str, standardise: bool) -> Way:
    """Every row left out of the minima by one Newton step: Rad and Maleki, and nothing else."""

    def way(X: Array, y: Array) -> Answer:
        fits = learner(loss, standardise)(X, y)
        A = fits.scale(X)
        outputs = fits.slopes @ A.T + fits.intercepts[:, None]
        without = np.array(
            [one_step(loss, A, y, h, ridge) for h, ridge in zip(outputs, RIDGES, strict=True)]
        )
        losses = row_losses(loss, without, y)
        best = lowest(losses)
        return Answer(*mean_and_stderr(losses[best]), fits.pick(best))

    return way


def one_step(loss: str, A: Array, y: Array, outputs: Array, ridge: float) -> Array:
    r"""Outputs without the row, to first order.

    .. math:: h_i + \frac{q_i \ell'_i}{1 - q_i \ell''_i}, \qquad
              q_i = x_i^\top (X^\top D X + \lambda P)^{-1} x_i,

    with D the second derivatives ℓ″ and P = I but for the intercept, which is not penalised.
    """
    if loss == "logistic":
        chance = expit(outputs)
        slope, bend = chance - y, chance * (1 - chance)
    else:
        slope, bend = outputs - y, np.ones(len(y))
    B = np.column_stack([A, np.ones(len(A))])
    penalty = np.full(B.shape[1], ridge)
    penalty[-1] = 0.0
    factor = cho_factor(B.T @ (bend[:, None] * B) + np.diag(penalty))
    leverage = (B * cho_solve(factor, B.T).T).sum(1)
    return outputs + leverage * slope / (1 - leverage * bend)


def gcv(standardise: bool) -> Way:
    """Generalised cross-validation: residuals inflated by the mean leverage."""

    def way(X: Array, y: Array) -> Answer:
        fits = learner("squared", standardise)(X, y)
        scores = gcv_scores(fits.scale(X), y, RIDGES)
        best = int(scores.argmin())
        return Answer(float(scores[best]), None, fits.pick(best))

    return way


def gcv_scores(A: Array, y: Array, ridges: Array) -> Array:
    """mean(residual²)/(1 − df/n)², with the intercept among the degrees of freedom."""
    left, values, _ = np.linalg.svd(A - A.mean(0), full_matrices=False)
    shrink = values**2 / (values**2 + ridges[:, None])
    target = y - y.mean()
    projected = left.T @ target
    residual = target @ target - ((2 - shrink) * shrink * projected**2).sum(1)
    freedom = 1 + shrink.sum(1)
    return residual / len(y) / (1 - freedom / len(y)) ** 2


def ridge_cv(standardise: bool) -> Way:
    """Leave-one-out of scikit-learn's ``RidgeCV``."""

    def way(X: Array, y: Array) -> Answer:
        scale = scaler(X, standardise)
        model = RidgeCV(alphas=RIDGES, store_cv_results=True).fit(scale(X), y)
        best = lowest(model.cv_results_.T)
        return Answer(
            *mean_and_stderr(model.cv_results_[:, best]),
            lambda X, y: (model.predict(scale(X)) - y) ** 2,
        )

    return way


def ways(loss: str, standardise: bool, rows: int, seed: int) -> dict[str, Way]:
    """All ways of this model class."""
    train = learner(loss, standardise)
    found = {"one fit": single_fit(train)} | common_ways(train, literal(rows, seed))
    found |= {"ALO": alo(loss, standardise), "Newton": newton(loss, standardise)}
    if loss == "logistic" and seed < posterior.DATA_SETS.get(rows, 0):
        found["PSIS-LOO"] = posterior.psis_loo(standardise, RIDGES, logistic_path)
    if loss == "squared":
        found |= {"GCV": gcv(standardise), "RidgeCV": ridge_cv(standardise)}
    return found
