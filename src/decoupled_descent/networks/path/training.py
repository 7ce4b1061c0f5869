"""Training of whole networks step by step, and the run that it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from decoupled_descent.checks import whole_number
from decoupled_descent.evaluation.output_scale import OutputScale
from decoupled_descent.evaluation.outputs import Labels
from decoupled_descent.networks.examples import Examples
from decoupled_descent.networks.frozen import split_frozen
from decoupled_descent.networks.given import given_rows, labels_for, new_rows, unwrapped_module
from decoupled_descent.networks.known_labels import label_level
from decoupled_descent.networks.modules import as_network, call_layers
from decoupled_descent.networks.path.derivatives import Network
from decoupled_descent.networks.path.run import PathRun, outputs_of
from decoupled_descent.networks.run import Start
from decoupled_descent.objective import Objective
from decoupled_descent.training.callbacks import StopReason, as_callbacks
from decoupled_descent.training.fit import FitOptions, train
from decoupled_descent.training.loop import Trainee


class NetworkTrainee(Trainee):
    """A network during training."""

    remedy = (
        "The steps are too long for this network: let the algorithm choose the damping, pass a "
        "larger ridge or a smaller rate, standardise the columns and the labels, or use the best "
        "step of this run"
    )

    @staticmethod
    def test_errors(going: Sequence[Any], test: Any) -> Sequence[float | None]:
        """The mean losses on new rows."""
        X, y = test
        with torch.no_grad():
            return [
                float(each.bound.losses(outputs_of(each.bound, each.state, X), y).mean())
                for each in going
            ]

    @property
    def alarm(self) -> str | None:
        """The warning at the end of a run that diverged, or whose estimate errs, else None."""
        if self.reason is StopReason.DIVERGED or self.best.info.estimates:
            return self.message if self.reason is StopReason.DIVERGED else None
        notes = self.best.info.notes
        error = abs(notes["drift"]) + notes["lost_error"]
        return (
            "the runs without single rows are too far from the run with all rows to be followed "
            f"(at step {self.best.index} the train error errs by about {error:.2g}; "
            f"{notes['lost']:.0f} rows are lost): pass a smaller rate, a larger ridge, or use "
            "CrossFit"
        )


def fit_network(
    X: Any, y: Any, model: nn.Module | Objective, algorithm: Any, steps: int = 60, **given: Any
) -> PathRun:
    """Train a whole network, and record the error of every iterate.

    :func:`decoupled_descent.fit` describes the arguments; ``given`` are :class:`FitOptions`.

    Example:
        >>> import torch, decoupled_descent as dd
        >>> X, y = torch.randn(30, 1, 6, 6), torch.arange(30) % 3
        >>> model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(32, 3))
        >>> algorithm = dd.DecoupledGaussNewton(ridge=1.0)
        >>> run = fit_network(X, y, model, algorithm, loss="cross_entropy", steps=3)
        >>> run.train_error.shape, run.predict(X).shape
        (torch.Size([3]), torch.Size([30, 3]))
    """
    whole_number("steps", steps)
    options = FitOptions(**given)
    callbacks, state = as_callbacks(options.callbacks), options.state
    module, loss = described(model, options.loss)
    X, y, module = given_rows(X, y, unwrapped_module(module))
    y = labels_for(loss, y)
    rows, network = prepared(X, y, module, loss, options.weights, options.groups)
    if state is None:
        state = algorithm.init(rows, network, seed=options.seed)
    else:
        _check_state(state, network)
    trainee = NetworkTrainee(network, algorithm, state, callbacks)  # type: ignore[arg-type]
    held_out = None if options.test is None else _held_out(options.test, network)
    asked = {"model": module, "loss": network.loss}
    title = f"{type(algorithm).__name__} ({rows.n} rows, {network.size} parameters)"
    train(trainee, rows, steps, held_out, asked, options, title)
    run: PathRun = PathRun.of(trainee, _labels(rows, loss))  # type: ignore[assignment]
    return replace(run, start=_start(network, rows, options.independent_start))


def prepared(
    X: Any, y: Any, model: nn.Module, loss: Any, weights: Any = None, groups: Any = None
) -> tuple[Examples, Network]:
    """Rows and network, checked; frozen layers at the beginning are computed here, once."""
    rows = as_examples(X, y, model, weights, groups)
    frozen = split_frozen(model)
    if frozen is None:
        return rows, as_network(model, loss, rows)
    frozen.layers.to(rows.like)
    rows = rows.with_inputs(call_layers(frozen.features, rows.X))
    network = as_network(frozen.rest, loss, rows)
    network.frozen = frozen
    return rows, network


def as_examples(X: Any, y: Any, model: nn.Module, weights: Any, groups: Any) -> Examples:
    """The rows, checked, in the dtype of X; in that of the model where X has whole numbers."""
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    return Examples(X, y, weights, groups, dtype)


def described(model: Any, loss: Any) -> tuple[nn.Module, Any]:
    """The module and the loss, from whatever describes them."""
    if not isinstance(model, Objective):
        if not isinstance(model, nn.Module):
            raise ValueError(f"model={model!r} must be a torch.nn.Module")
        return model, loss
    if model.source is None:
        raise ValueError(
            "this objective has a head alone; pass the whole module, fit(X, y, model, …, loss=…), "
            "or Objective.of_model(model, loss)"
        )
    if loss is not None:
        raise ValueError(f"loss={loss!r} is given twice; the objective has {model.loss.name!r}")
    return model.source, model.loss


def _labels(rows: Examples, loss: Any) -> Labels:
    """The labels of the rows."""
    scale = OutputScale.of(loss, rows.y)
    groups = rows.groups if rows.grouped else None
    return Labels(rows.y, scale, rows.weights if rows.weighted else None, groups)


def _start(network: Network, rows: Examples, independent: bool) -> Start:
    """Whether the module knows the labels before any step."""
    shaped = lambda outputs, y: network.losses(outputs.reshape(len(y), -1), y)  # noqa: E731
    return Start(label_level(network.module, shaped, rows.X, rows.y), independent)


def _held_out(test: Any, network: Network) -> tuple[Tensor, Tensor]:
    """The test set in the dtype and on the device of the network."""
    like = network.start
    X, y = (
        each.to(like) if each.is_floating_point() else each.to(like.device)
        for each in new_rows(test, network.module)
    )
    return X, y.to(like) if y.dtype == torch.bool else y


def _check_state(state: Any, network: Network) -> None:
    """Raise ``ValueError`` when this is no state of such a network."""
    paths = getattr(state, "paths", None)
    if not paths:
        raise ValueError(f"state is a {type(state).__name__}; pass the state of a run, run.state")
    if paths[0].beta.shape != network.start.shape:
        raise ValueError(
            f"state has {len(paths[0].beta)} parameters but the model has {network.size} that are "
            "trained; continue with the model that the state comes from"
        )
