"""The result of training a whole network along the path leave-one-out."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from decoupled_descent.networks.modules import MeanOutput
from decoupled_descent.networks.path.derivatives import Network
from decoupled_descent.networks.run import NetworkRun, Start, squeezed
from decoupled_descent.networks.several_inputs import inner_module, input_columns
from decoupled_descent.rows.tensors import as_tensor, check_finite
from decoupled_descent.training.run import Run

#: Rows that are evaluated at a time.
BATCH = 1024


@dataclass(frozen=True, repr=False)
class PathRun(NetworkRun, Run):
    """The result of :func:`fit` for a whole network along the path.

    It has what every :class:`Run` has, with ``bound`` the network and ``parameters`` in place of θ
    and the head.
    """

    choice: str = ""
    start: Start = field(default_factory=Start)

    @property
    def notes(self) -> dict[str, float]:
        """What the run knows, and what was measured at its best step."""
        found = dict(self.best.info.notes)
        wrong = abs(found.pop("drift")) + found.pop("lost_error")
        failed = found.pop("failed", 0.0) or not math.isfinite(wrong)
        return super().notes | found | {"linearisation": math.inf if failed else wrong}

    def row_losses(self, outputs: Tensor) -> Tensor:
        """The losses of outputs of the rows."""
        assert self.labels is not None
        shaped = outputs.unsqueeze(1) if outputs.ndim == 1 else outputs
        return _network(self.bound).losses(shaped, self.labels.y)

    @property
    def outputs(self) -> Tensor:
        """Left-out outputs of all rows at the best step, shape (n,) or (n, K)."""
        return self.best_outputs

    @property
    def losses(self) -> Tensor:
        """Their losses, shape (n,)."""
        return self.row_losses(self.best_outputs)

    @property
    def objective(self) -> Any:
        """What was minimised: the module and the loss."""
        return self.bound

    @property
    def theta(self) -> Tensor:
        """All trainable parameters at the last iterate, one row for each start, shape (S, P)."""
        return self.state.theta  # type: ignore[no-any-return]

    @property
    def best_theta(self) -> Tensor:
        """All trainable parameters at the best step, shape (S, P)."""
        return self.best_state.theta  # type: ignore[no-any-return]

    @property
    def head(self) -> nn.Module:
        """The trained network at the last iterate."""
        return self.to_module(best=False)

    @property
    def best_head(self) -> nn.Module:
        """The trained network at the best step."""
        return self.to_module()

    @property
    def followed(self) -> Tensor:
        """The rows, or groups, without which a run was followed, shape (m,)."""
        return self.state.followed  # type: ignore[no-any-return]

    def to_module(self, *, best: bool = True) -> nn.Module:
        """Return the trained network, a copy; for several starts, their mean.

        Args:
            best: Use the iterate with the lowest train error, else the last one.

        Returns:
            The module that was given, with its trained parameters, in evaluation mode.
        """
        state, network = self.best_state if best else self.state, _network(self.bound)
        modules = [inner_module(network.with_parameters(each.beta)) for each in state.paths]
        return (modules[0] if len(modules) == 1 else MeanOutput(modules)).eval()

    def predict(self, X: Any, *, best: bool = True) -> Tensor:
        """Evaluate the trained network on new rows.

        Args:
            X: Rows, of the same shape as the training rows.
            best: Use the iterate with the lowest train error, else the last one.

        Returns:
            The outputs, shape (m,) or (m, K).
        """
        state, network = self.best_state if best else self.state, _network(self.bound)
        rows = as_tensor("X", input_columns(network.module, X))
        check_finite("X", rows)
        rows = rows.to(state.paths[0].beta) if rows.is_floating_point() else rows
        return squeezed(outputs_of(network, state, rows))


def _network(bound: Any) -> Network:
    assert isinstance(bound, Network)
    return bound


def outputs_of(network: Network, state: Any, X: Tensor) -> Tensor:
    """The mean of the outputs of all starts, shape (n, K)."""
    with torch.no_grad():
        parts = []
        for block in torch.split(X, BATCH):
            rows = network.features(block)
            result = [network.outputs(each.beta, rows) for each in state.paths]
            parts.append(torch.stack(result).mean(0))
    return torch.cat(parts)
