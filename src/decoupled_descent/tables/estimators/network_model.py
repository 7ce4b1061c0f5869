"""A network that is trained by a descent."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from decoupled_descent.checks import error_interval, whole_number
from decoupled_descent.evaluation.checks.diagnosis import diagnose
from decoupled_descent.evaluation.comparison import CorrectedError
from decoupled_descent.objective import Objective
from decoupled_descent.objective.losses import Loss, get_loss
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.tables.estimators.input_scaling import InputScaling
from decoupled_descent.tables.estimators.layers import describe_head, rebuild_head, require
from decoupled_descent.tables.estimators.model import Encoded, Floats, Model, Training
from decoupled_descent.tables.estimators.network_training import (
    Continuation,
    architecture,
    check_unchanged,
    continue_run,
    continued,
    network_rows,
    run_records,
    starting_head,
    tune_network,
)
from decoupled_descent.tables.estimators.options import Options
from decoupled_descent.tables.estimators.row_weights import RowWeights
from decoupled_descent.tables.features.scaling import as_rows
from decoupled_descent.training.fingerprint import checksum
from decoupled_descent.training.run import Run
from decoupled_descent.training.sweeps.sweep import Sweep

if TYPE_CHECKING:
    from decoupled_descent.tables.estimators.base import DecoupledEstimator


class NetworkModel(Model):
    """A network of one trained layer and a head.

    Attributes:
        theta: Weights of the input layer for scaled columns, shape (L, d).
        head: The trained head.
        scaling: The scales of the columns.
        loss: The loss.
        continuation: What a warm start needs; None without one.
    """

    leaves_rows_out = False
    curve_label = "step"
    contents = "layers"

    def __init__(
        self,
        theta: Floats,
        head: nn.Module,
        scaling: InputScaling,
        loss: Loss,
        continuation: Continuation | None = None,
    ) -> None:
        self.theta, self.head, self.scaling = theta, head, scaling
        self.loss, self.continuation = loss, continuation

    @property
    def mean(self) -> Floats:
        """Column means."""
        return self.scaling.mean

    @property
    def scale(self) -> Floats:
        """Column deviations; infinite for constant columns."""
        return self.scaling.scale

    @staticmethod
    def check_options(options: Options, method: str) -> None:
        """Raise ``ValueError`` for features, which networks do not use."""
        whole_number("max_iter", options.max_iter)
        for name in options._changed("features", "members", "time_limit"):
            raise ValueError(
                f"{name}={getattr(options, name)!r} has no effect with method={method!r}; leave "
                "out one of the two, or train on the features with dd.tune"
            )

    @classmethod
    def fit(
        cls, estimator: DecoupledEstimator, X: Any, encoded: Encoded, weights: RowWeights  # noqa: ARG003
    ) -> tuple[Self, Training]:  # fmt: skip
        """Standardise the columns, and train a network or continue to train it."""
        method = estimator._chosen_method()
        inputs = as_rows(X)
        scaling, targets = InputScaling.learn(inputs), encoded.targets
        targets = targets.float() if targets.is_floating_point() else targets
        rows = network_rows(inputs, targets, scaling, estimator.device)
        seed = estimator._seed()
        wanted = architecture(estimator, encoded.outputs)
        key = (
            checksum(*(block.X for block in rows.blocks()), rows.y) if estimator.warm_start else ""
        )
        before = getattr(estimator, "model_", None)
        last = continued(estimator, before, key)
        if last is None:
            start = starting_head(estimator, wanted, encoded.outputs, seed)
            sweep: Sweep | None = tune_network(
                estimator, method, rows, Objective(start, encoded.loss), seed
            )
            assert sweep is not None
            run, chosen = sweep.best, sweep.corrected_error
        else:
            assert isinstance(before, NetworkModel)
            check_unchanged(estimator, method, last, wanted)
            objective, sweep = Objective(copy.deepcopy(before.head), encoded.loss), None
            run = continue_run(estimator, method, last, rows, objective)
            error, stderr = run.best.train_error, run.best.train_error_stderr
            chosen = CorrectedError(error + last.optimism, stderr, last.optimism)
        theta = np.zeros((len(run.best_theta), len(scaling.scale)))
        theta[:, scaling.varying] = run.best_theta.double().cpu().numpy()
        loss = get_loss(encoded.loss)
        continuation = Continuation(key, method, wanted, run, chosen.optimism)
        kept = continuation if estimator.warm_start else None
        model = cls(theta, run.best_head.cpu(), scaling, loss, kept)
        names = estimator._matrix_names or [f"X[:, {k}]" for k in range(inputs.d)]
        varying = [
            str(name) for name, one in zip(names, scaling.scale, strict=True) if one < np.inf
        ]
        return model, _record(estimator, rows, encoded, run, sweep, chosen, varying)

    def outputs(self, X: Floats) -> Tensor:
        """Outputs of the network for new rows, in float64, shape (m, K)."""
        h = torch.from_numpy(self.scaling.apply(X) @ self.theta.T)
        head = copy.deepcopy(self.head).double()
        with torch.no_grad():
            outputs: Tensor = head(h)
        return outputs.reshape(len(X), -1)

    def predict(self, X: Any) -> Floats:
        """Probabilities of all classes, or numbers on the scale of the fit, shape (m, K)."""
        predictions: Floats = self.loss.probabilities(self.outputs(X)).numpy()
        return predictions

    def logits(self, X: Any) -> Floats:
        """Outputs: shape (m,) for two classes, positive for the second; else (m, K)."""
        outputs: Floats = self.outputs(X).numpy()
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Weights, scales and the head layer by layer."""
        arrays = {"theta": self.theta, "mean": self.mean, "scale": self.scale}
        tensors = {name: torch.from_numpy(np.array(value)) for name, value in arrays.items()}
        tensors |= {f"head.{name}": value for name, value in self.head.state_dict().items()}
        return tensors, {"head": describe_head(self.head)}

    @classmethod
    def restore(
        cls, content: dict[str, Any], tensors: dict[str, Tensor], loss: Loss, outputs: int
    ) -> Self:
        """Make the model again from its state, or raise ``ValueError`` if parts do not match."""
        for name in ("theta", "mean", "scale"):
            require(tensors[name].is_floating_point(), f"{name} has the type {tensors[name].dtype}")
        theta, mean, scale = (tensors[name].clone().numpy() for name in ("theta", "mean", "scale"))
        right = theta.ndim == 2 and len(theta) and mean.shape == scale.shape == theta.shape[1:]
        right = right and len(mean) == content["columns_in"]
        require(right, "the weights do not match the columns")
        finite = np.isfinite(theta).all() and np.isfinite(mean).all() and (scale > 0).all()
        require(finite, "weights, means or scales are not finite")
        head = rebuild_head(content["head"], tensors, theta)
        model = cls(theta, head, InputScaling(mean, scale), loss)
        with np.errstate(all="ignore"):
            made = model.outputs(np.zeros((2, len(mean)))).shape[1]
        require(made == outputs, f"it gives {made} outputs instead of {outputs}")
        return model


def _record(
    estimator: DecoupledEstimator,
    rows: Rows,
    encoded: Encoded,
    run: Run,
    sweep: Sweep | None,
    chosen: CorrectedError,
    column_names: list[str],
) -> Training:
    """The record of a training, in the units of the estimator."""
    diagnostics = diagnose(
        rows, None, sweep or run, task=estimator._task,
        names=column_names,
    )  # fmt: skip
    widening, unit = diagnostics.widening, estimator._unit
    outputs = run.best_outputs.double().cpu().reshape(rows.here, -1)
    predictions: Floats = get_loss(encoded.loss).probabilities(outputs).numpy()
    error, stderr = estimator._network_error(chosen, widening, predictions, encoded.targets)
    return Training(
        predictions,
        error,
        stderr,
        error_interval(error, stderr),
        widening,
        unit * run.train_error.numpy(),
        unit * widening * run.train_error_stderr.numpy(),
        run.best_step,
        str(run.stop_reason),
        None if sweep is None else run_records(sweep, unit),
        diagnostics,
        run,
    )
