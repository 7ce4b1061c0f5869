"""A mixture of linear and kernel models, chosen and estimated by leaving rows out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor

from decoupled_descent.evaluation.checks.check import MOST_TOGETHER
from decoupled_descent.evaluation.checks.diagnosis import Diagnosis, diagnose_rows
from decoupled_descent.evaluation.evaluation import Evaluation
from decoupled_descent.leave_one_out.linear_algebra import product_speed
from decoupled_descent.objective.losses import Loss
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.gathered import gather_rows, is_divided
from decoupled_descent.rows.store import FunctionSource
from decoupled_descent.tables.estimators.mixture import Mixture, describe_mixture, rebuild_mixture
from decoupled_descent.tables.estimators.model import EncodedLabels, Floats, Training
from decoupled_descent.tables.estimators.options import Options
from decoupled_descent.tables.estimators.row_weights import RowWeights
from decoupled_descent.tables.features.scaling import as_rows, is_sparse, moments
from decoupled_descent.tables.members.catalogue import as_recipes
from decoupled_descent.tables.members.interface import Recipe
from decoupled_descent.tables.search.deadline import Deadline
from decoupled_descent.tables.search.fits import CandidateFit, SearchResult
from decoupled_descent.tables.search.search import search_models
from decoupled_descent.training.run import Run

if TYPE_CHECKING:
    from decoupled_descent.tables.estimators.base import DecoupledEstimator


class NewtonModel:
    """A mixture of linear models of features, with leave-one-out errors.

    Args:
        mixture: The trained mixture.
        sparse: Whether it was trained on a sparse matrix as it is.
    """

    def __init__(self, mixture: Mixture, sparse: bool = False) -> None:
        self.mixture, self.sparse = mixture, sparse

    @classmethod
    def fit(
        cls, estimator: DecoupledEstimator, X: Any, encoded: EncodedLabels, weights: RowWeights
    ) -> tuple[Self, Training]:
        """Search among features and ridges, and mix the fits."""
        inputs, seed = X if is_sparse(X) else as_rows(X), estimator._seed()
        progress = bool(estimator.verbose) or None
        result = search_rows(
            estimator, inputs, encoded, weights, estimator.features, seed, progress,
            members=recipes(estimator), deadline=deadline_of(estimator.time_limit, inputs),
        )  # fmt: skip
        best = result.best
        ridges, curve, stderr_curve, index = ridge_curve(result, estimator, weights.unit)
        reason = "interrupted" if result.interrupted else str(best.run.stop_reason)
        candidates = fit_records(result, estimator, weights.unit)
        training = Training(result, curve, stderr_curve, ridges, index, reason, candidates)
        return cls(Mixture.of(result), is_sparse(X)), training

    def predict(self, X: Any) -> Floats:
        """Probabilities of all classes, or numbers on the scale of the fit, shape (m, K)."""
        return self.mixture.predict(X)

    def logits(self, X: Any) -> Floats:
        """Logarithms of probabilities; with two classes their difference, shape (m,)."""
        logs: Floats = np.log(np.maximum(self.predict(X), 1e-300))
        return logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Feature maps, coefficients and shares."""
        tensors, about = describe_mixture(self.mixture)
        return tensors, {"mixture": about}

    @classmethod
    def restore(
        cls, content: dict[str, Any], tensors: dict[str, Tensor], loss: Loss, outputs: int
    ) -> Self:
        """Make the model again from its state, or raise ``ValueError`` if parts do not match."""
        mixture = rebuild_mixture(content["mixture"], tensors, loss, outputs)
        return cls(mixture, all(member.features.learnt_sparse for member in mixture.members))


def recipes(options: Options) -> list[Recipe]:
    """How further members are trained; ``"auto"`` has some if the features are also ``"auto"``."""
    return as_recipes(options.members, options._usual_features)


def deadline_of(seconds: float | None, X: Any) -> Deadline:
    """The end of the time for candidates; processes that share the rows agree about it."""
    if not is_divided(X):
        return Deadline(seconds, speed=product_speed)

    def agree(own: bool) -> bool:
        return bool(X.total(torch.tensor(float(own), dtype=torch.float64))[0] > 0)

    return Deadline(seconds, speed=product_speed, agree=agree)


def search_rows(
    options: Options,
    X: Any,
    encoded: EncodedLabels,
    weights: RowWeights,
    features: Any,
    seed: int,
    progress: bool | None,
    members: Sequence[Recipe] = (),
    deadline: Deadline | None = None,
) -> SearchResult:
    """Search among features and ridges, for all rows that are used."""
    ridge = options.ridge if isinstance(options.ridge, str) else options.ridge / weights.unit
    return search_models(
        X, encoded.targets, encoded.loss, outputs=encoded.outputs, features=features, ridge=ridge,
        stack=bool(options.stack), members=members, deadline=deadline, seed=seed,
        progress=progress, weights=weights.weights, groups=weights.groups,
    )  # fmt: skip


def fit_records(
    result: SearchResult, estimator: DecoupledEstimator, unit: float
) -> list[dict[str, Any]]:
    """The fits: features, ridge for weights in a unit, leave-one-out error, and share."""
    best, records, shares = result.best, [], result.weights.tolist()
    for share, one in zip(shares, result.fits, strict=False):
        error, stderr = estimator._candidate_error(one.predictions, result)
        records.append(
            {
                "features": one.features.name,
                "ridge": unit * one.ridge,
                "error": error,
                "stderr": stderr,
                "share": float(share),
                "step": one.run.best_step,
                "stop_reason": str(one.run.stop_reason),
                "chosen": one is best,
            }
        )
    for share, other in zip(shares[len(result.fits) :], result.others, strict=True):
        error, stderr = estimator._candidate_error(other.predictions, result)
        records.append(
            {"features": other.name, "error": error, "stderr": stderr, "share": share}
            | {"ridge": None, "step": None, "stop_reason": "", "chosen": False}
        )
    return records


def ridge_curve(
    result: SearchResult, estimator: DecoupledEstimator, unit: float
) -> tuple[Floats, Floats, Floats, int]:
    """Ridges of the best features, largest first, their errors and stderrs, and the best index."""
    best = result.best
    path = [one for one in result.fits if one.features is best.features]
    path.sort(key=lambda one: -one.ridge)
    ridges = unit * np.array([one.ridge for one in path])
    means = [estimator._candidate_error(one.predictions, result) for one in path]
    errors, stderrs = np.array(means).T
    return ridges, errors, stderrs, path.index(best)


def diagnosed(
    estimator: DecoupledEstimator, evaluation: Evaluation, fit: CandidateFit, X: Any, y: Tensor
) -> Diagnosis:
    """All checks of the rows, of the best fit and of the evaluation."""
    rows, run = diagnosed_run(fit)
    inputs = X if is_sparse(X) else as_rows(X)
    everything = gather_rows(inputs, y) if is_divided(inputs) else inputs
    return diagnose_rows(
        rows, run.algorithm, run.objective, run=run,
        evaluation=evaluation,
        task=estimator._task,
        optimism=evaluation.optimism,
        columns=standardised(everything),
        stderr=evaluation.stderr,
        names=[] if is_sparse(X) else estimator._matrix_names,
        time=times_of(estimator, everything),
    )  # fmt: skip


def standardised(X: Any) -> Rows | None:
    """Columns of mean 0 and variance 1, for the check of duplicate rows; None for sparse rows."""
    if is_sparse(X):
        return None
    mean, deviation = moments(X, torch.ones(X.here, dtype=torch.float64))
    scale = torch.where(deviation > 0, deviation, 1.0)
    return Rows(FunctionSource(X, lambda part: (part - mean).div_(scale), X.d))


def times_of(estimator: DecoupledEstimator, rows: Any) -> dict[str, Tensor] | None:
    """The columns that are times of the rows; None if nothing tells."""
    known = estimator._times
    if known is None or is_sparse(rows) or rows.n > MOST_TOGETHER:
        return None
    chosen = list(known.values())
    values = rows.gather(torch.arange(rows.n, device=rows.like.device))[:, chosen]
    return dict(zip(known, values.double().unbind(1), strict=True))


def diagnosed_run(fit: CandidateFit) -> tuple[Rows, Run]:
    """The rows and the run of the best fit, with one loss per row."""
    rows, run = fit.rows, fit.run
    shaped = fit.outputs.squeeze(1) if fit.outputs.shape[1] == 1 else fit.outputs
    losses = run.objective.loss.of(shaped, rows.y)
    best = replace(run.best, info=run.best.info._replace(losses=losses))
    return rows, replace(run, best=best)
