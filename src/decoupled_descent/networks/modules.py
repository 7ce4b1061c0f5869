"""Checks of a user's module and criterion, and fresh starts of a module."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from decoupled_descent.networks.examples import Examples
from decoupled_descent.networks.given import check_classes
from decoupled_descent.networks.path.derivatives import Network
from decoupled_descent.networks.row_losses import RowLosses, by_rows, check_ignored
from decoupled_descent.objective.labels import check_labels, check_rows_one_by_one, varied_rows
from decoupled_descent.objective.losses import Loss, get_loss
from decoupled_descent.quiet import ignoring

#: What works for layers that mix rows or draw random numbers.
OTHERWISE = "call model.eval() first, or use CrossFit, which trains such layers"


def as_loss(loss: Any) -> Loss:
    """Take a loss by name, a function of outputs and labels, or a criterion of PyTorch.

    A criterion gives the mean over rows of what it gives for one row.

    Example:
        >>> rows = as_loss(nn.MSELoss()).of(torch.tensor([1.0, 3.0]), torch.tensor([0.0, 0.0]))
        >>> rows.tolist()
        [1.0, 9.0]
    """
    if isinstance(loss, Loss):
        return loss
    if loss is None:
        raise ValueError("loss is None; pass a name such as 'logistic', or a criterion")
    if not isinstance(loss, nn.Module) or not hasattr(loss, "reduction"):
        return get_loss(loss)
    return Loss(type(loss).__name__, RowLosses(loss, sums=True))


def as_network(model: Any, loss: Any, rows: Examples) -> Network:
    """Check that a module treats rows one by one and fits the labels, and make it a network."""
    if not any(each.requires_grad for each in model.parameters()):
        raise ValueError(
            f"model {type(model).__name__} has no parameter with requires_grad=True; there is "
            "nothing to train"
        )
    check_ignored(loss, rows.y)
    network = Network(model, as_loss(loss), rows.like)
    first = torch.arange(2, device=rows.y.device)  # labels may be all the same
    probe = torch.unique(torch.cat([varied_rows(rows.y, 8), first]))
    outputs = _check_outputs(network, rows.X[probe])
    check_classes(loss, rows.y, outputs)
    if network.loss.builtin:
        check_labels(network.loss, rows.y, outputs.shape[1])
    else:
        shaped = outputs.squeeze(1) if outputs.shape[1] == 1 and rows.y.ndim == 1 else outputs
        network.loss = by_rows(network.loss, shaped, rows.y[probe])
        check_rows_one_by_one(network.loss, shaped[:1].expand(8, *shaped.shape[1:]), rows.y)
    with network.differentiable():
        try:
            with ignoring(UserWarning):  # about layers that are not stacked fast
                network.measure(rows.X[probe])
        except (NotImplementedError, RuntimeError) as error:  # it has outputs, but no derivatives
            name = type(network.module).__name__
            raise PathError(
                f"model {name} has a layer without forward-mode derivatives: use CrossFit"
            ) from error
    return network


class PathError(ValueError):
    """The path leave-one-out does not take this module; stacked folds may."""


def call_layers(function: Callable[[Tensor], Tensor], X: Tensor) -> Tensor:
    """Call layers with rows; raise ``ValueError`` with the shape of the rows where they fail."""
    try:
        return function(X)
    except Exception as error:
        raise ValueError(
            f"model cannot be called with rows of shape {tuple(X.shape[1:])}: {error}"
        ) from error


@torch.no_grad()
def _check_outputs(network: Network, X: Tensor) -> Tensor:
    """Outputs for a few rows, (n, K); raise ``ValueError`` if rows are mixed."""
    name, module = type(network.module).__name__, network.module
    buffers = [each.clone() for each in module.buffers()]
    before = torch.get_rng_state()
    try:
        result = module(X)
    except Exception as error:
        raise ValueError(
            f"model {name} cannot be called with rows of shape {tuple(X.shape[1:])}: {error}"
        ) from error
    if not isinstance(result, Tensor) or result.ndim not in (1, 2) or len(result) != len(X):
        shape = tuple(result.shape) if isinstance(result, Tensor) else type(result).__name__
        raise PathError(
            f"model {name} returned {shape} for {len(X)} rows; it must return a tensor of shape "
            "(n,) or (n, K)"
        )
    if not bool(result.isfinite().all()):
        raise ValueError(f"model {name} returned NaN or infinite outputs; check its parameters")
    if not torch.equal(before, torch.get_rng_state()):
        torch.set_rng_state(before)
        raise PathError(f"model {name} draws random numbers (dropout?): {OTHERWISE}")
    if any(not torch.equal(a, b) for a, b in zip(buffers, module.buffers(), strict=True)):
        raise PathError(f"model {name} changes its buffers (batch normalisation?): {OTHERWISE}")
    try:
        alone = torch.cat([module(row.unsqueeze(0)) for row in X])
        mixes = not torch.allclose(alone, result, rtol=1e-3, atol=1e-4)
    except (RuntimeError, ValueError):  # batch normalisation refuses single rows
        mixes = True
    if mixes:
        raise PathError(
            f"model {name} has other outputs for a row beside other rows (batch normalisation?): "
            f"{OTHERWISE}"
        )
    return result.unsqueeze(1) if result.ndim == 1 else result


def fresh_starts(network: Network, count: int, seed: int | None) -> list[Tensor]:
    """β of ``count`` starts: the module's own, and others drawn by its layers' own rules."""
    starts = [network.start.clone()]
    devices = [network.start.device] if network.start.is_cuda else []
    with torch.random.fork_rng(devices=devices):
        torch.seed() if seed is None else torch.manual_seed(seed)
        for _ in range(count - 1):
            starts.append(_redrawn(network))
    return starts


def _redrawn(network: Network) -> Tensor:
    module = copy.deepcopy(network.module)
    trained = {id(module.get_parameter(name)): name for name in network.names}
    left = set(network.names)
    for layer in module.modules():
        own = {trained[id(p)] for p in layer.parameters(recurse=False) if id(p) in trained}
        reset: Callable[[], Any] | None = getattr(layer, "reset_parameters", None)
        reset = reset or getattr(layer, "_reset_parameters", None)
        if own and callable(reset):
            reset()
            left -= own
    if left:
        raise ValueError(
            f"starts needs layers that can draw their parameters again (reset_parameters), but "
            f"{min(left)!r} belongs to one that cannot; use starts=1"
        )
    return network.flat(module)


class MeanOutput(nn.Module):
    """The mean of the outputs of several modules.

    Example:
        >>> double, triple = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
        >>> _ = nn.init.constant_(double.weight, 2.0), nn.init.constant_(triple.weight, 3.0)
        >>> MeanOutput([double, triple])(torch.ones(1, 1)).item()
        2.5
    """

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(modules)

    def forward(self, *x: Any, **named: Any) -> Tensor:
        """Average the outputs."""
        return torch.stack([part(*x, **named) for part in self.members]).mean(0)
